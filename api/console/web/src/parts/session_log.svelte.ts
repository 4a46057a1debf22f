// What happened in one session, loaded in pages: events, turns and calls, and then what happens while it runs.
import { hasRole } from '../api/caller.svelte'
import { api, ApiProblem, dataOf, type Schemas } from '../api/client'
import { followSession, type Frame, type SessionEvent } from '../api/stream'
import { EVENT_KINDS, groupOf, type Group } from './kinds'

type Call = Schemas['CallView']
export type Row =
  | { type: 'turn'; id: string; turn: number; at: string }
  | { type: 'event'; id: string; turn: number; event: SessionEvent }
  | { type: 'call'; id: string; turn: number; call: Call; page: string | undefined }

const PAGE = 200
const CALLS_PAGE = 20
const EVENTS_MAX = 100_000

export class SessionLog {
  view: Schemas['SessionView'] | null = $state.raw(null)
  turns: Schemas['SnapshotEntry'][] = $state.raw([])
  events: SessionEvent[] = $state.raw([])
  calls: { call: Call; page: string | undefined }[] = $state.raw([])
  error: unknown = $state.raw(null)
  isLoading = $state(true)
  isLive = $state(false)
  #stop = () => {}
  #closed = false
  #snapshots = new Map<number, Promise<Schemas['SnapshotView']>>()
  #debug = new Map<string, Promise<Call[]>>()

  constructor(readonly id: string) {}

  get path() {
    return { path: { sessionId: this.id } }
  }

  async load() {
    this.isLoading = true
    this.error = null
    try {
      await this.refresh()
      while (await this.#moreEvents());
      if (hasRole('author', 'reader')) await this.#loadCalls()
      this.#follow()
    } catch (error) {
      this.error = error
    } finally {
      this.isLoading = false
    }
  }

  close() {
    this.#closed = true
    this.#stop()
  }

  /** Read the session again, and the turns since. */
  async refresh() {
    this.view = dataOf(await api.GET('/api/sessions/{sessionId}', { params: this.path }))
    let cursor: string | null | undefined
    do {
      const after = this.turns.at(-1)?.turn ?? -1
      const page = dataOf(await api.GET('/api/sessions/{sessionId}/snapshots', { params: { ...this.path, query: { after, limit: PAGE } } }))
      this.turns = [...this.turns, ...page.data]
      cursor = page.nextCursor
    } while (cursor && !this.#closed)
  }

  async #moreEvents() {
    const after = this.events.at(-1)?.seq ?? 0
    const answer = await api.GET('/api/sessions/{sessionId}/events', { params: { ...this.path, query: { after, limit: PAGE } } })
    const page = dataOf(answer) as Schemas['EventList'] // not a stream, which another `Accept` asks for
    this.events = this.events.concat(page.data)
    return Boolean(page.nextCursor) && this.events.length < EVENTS_MAX && !this.#closed
  }

  async #loadCalls() {
    let page: string | undefined
    const calls: typeof this.calls = []
    do {
      const list = dataOf(await api.GET('/api/sessions/{sessionId}/calls', { params: { ...this.path, query: { limit: CALLS_PAGE, cursor: page } } }))
      calls.push(...list.data.map((call) => ({ call, page })))
      page = list.nextCursor ?? undefined
    } while (page && !this.#closed)
    this.calls = calls
  }

  #follow() {
    this.#stop()
    this.isLive = !this.#closed && this.view?.status !== 'completed'
    if (!this.isLive) return
    const take = ({ id, event, data }: Frame) => {
      if (event === 'position') void this.#afterTurn()
      const seq = Number(id.split(':')[1]?.split('.')[0])
      if (event !== 'position' && seq > (this.events.at(-1)?.seq ?? 0)) this.events = [...this.events, { seq, kind: event, data }]
    }
    this.#stop = followSession(this.id, this.events.at(-1)?.seq ?? 0, [...EVENT_KINDS, 'position'], take, () => void this.load())
  }

  async #afterTurn() {
    try {
      await this.refresh()
      if (hasRole('author', 'reader')) await this.#loadCalls()
    } catch (error) {
      this.error = error
    }
  }

  /** Return the state after a turn; it is read once, as past turns do not change. */
  snapshot(turn: number) {
    let found = this.#snapshots.get(turn)
    if (!found) {
      found = api.GET('/api/sessions/{sessionId}/snapshots/{turn}', { params: { path: { sessionId: this.id, turn } } }).then(dataOf)
      found.catch(() => this.#snapshots.delete(turn))
      this.#snapshots.set(turn, found)
    }
    return found
  }

  /** Return a call with its prompt and reply. */
  async callWithTexts(callId: string, page: string | undefined): Promise<Call> {
    const key = page ?? ''
    const query = { limit: CALLS_PAGE, cursor: page, debug: true }
    const found = this.#debug.get(key) ??
      api.GET('/api/sessions/{sessionId}/calls', { params: { ...this.path, query } }).then((answer) => dataOf(answer).data)
    this.#debug.set(key, found)
    const call = (await found.catch((error) => { this.#debug.delete(key); throw error })).find((each) => each.callId === callId)
    if (!call) throw new ApiProblem(404, 'NOT_FOUND', callId, '')
    return call
  }

  /** Return the rows of the timeline: of each turn its events, with its calls after the message that caused them. */
  rows(shown: Group | ''): Row[] {
    const callsByTurn = Map.groupBy(this.calls, ({ call }) => call.turn)
    const rows: Row[] = []
    let next = 0
    const turnOf = (seq: number) => {
      while (next < this.turns.length - 1 && this.turns[next]!.eventCount < seq) next += 1
      return this.turns[next]?.turn ?? 0
    }
    let last = -1
    for (const event of this.events) {
      const turn = turnOf(event.seq)
      if (turn !== last) {
        last = turn
        rows.push({ type: 'turn', id: `t${turn}`, turn, at: this.turns[next]?.at ?? '' })
        for (const each of callsByTurn.get(turn) ?? [])
          if (!shown || shown === 'calls') rows.push({ type: 'call', id: `c${each.call.callId}`, turn, ...each })
      }
      if (!shown || groupOf(event.kind) === shown) rows.push({ type: 'event', id: `e${event.seq}`, turn, event })
    }
    return shown ? rows.filter((row, at) => row.type !== 'turn' || (rows[at + 1]?.type ?? 'turn') !== 'turn') : rows
  }
}
