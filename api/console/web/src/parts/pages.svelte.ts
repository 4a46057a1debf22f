import { Attempt } from './attempt.svelte'

type Page<T> = { data: T[]; nextCursor?: string | null }

/** Read all pages of a list that is not long. */
export async function allPages<T>(read: (cursor: string | undefined) => Promise<Page<T>>): Promise<T[]> {
  const all: T[] = []
  let cursor: string | undefined
  do {
    const page = await read(cursor)
    all.push(...page.data)
    cursor = page.nextCursor ?? undefined
  } while (cursor)
  return all
}

/** A list that is read page by page. */
export class Pages<T> {
  rows: T[] | null = $state.raw(null)
  cursor: string | null = $state(null)
  readonly work = new Attempt()

  constructor(private read: (cursor: string | undefined) => Promise<Page<T>>) {}

  /** Read the first page. */
  load = () => this.take([], undefined)

  /** Read the next page. */
  more = () => this.take(this.rows ?? [], this.cursor ?? undefined)

  private take(before: T[], cursor: string | undefined) {
    return this.work.run(async () => {
      const page = await this.read(cursor)
      this.rows = [...before, ...page.data]
      this.cursor = page.nextCursor ?? null
    })
  }
}
