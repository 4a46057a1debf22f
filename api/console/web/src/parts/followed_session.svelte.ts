// A session as it goes on: read again after each turn, wherever the turn began.
import { api, dataOf, type Schemas } from '../api/client'
import { followSession } from '../api/stream'
import { Attempt } from './attempt.svelte'

export class FollowedSession {
  view: Schemas['SessionView'] | null = $state.raw(null)
  readonly work = new Attempt()
  #stop = () => {}
  #isClosed = false

  constructor(readonly id: string) {}

  protected get params() {
    return { path: { sessionId: this.id } }
  }

  /** Read the session, and follow it from then on. */
  open = () =>
    this.work.run(async () => {
      this.#isClosed = false
      await this.read()
      const query = { after: this.view!.turn - 1, limit: 1 }
      const turn = dataOf(await api.GET('/api/sessions/{sessionId}/snapshots', { params: { ...this.params, query } })).data[0]
      if (this.#isClosed) return // the page was left meanwhile
      this.#stop()
      if (this.view?.status === 'completed') return
      const read = () => void this.read().catch(() => {}) // the next turn tries again
      this.#stop = followSession(this.id, turn?.eventCount ?? 0, ['position'], read, () => void this.open())
    })

  close() {
    this.#isClosed = true
    this.#stop()
    this.#stop = () => {}
  }

  protected async read() {
    this.view = dataOf(await api.GET('/api/sessions/{sessionId}', { params: this.params }))
  }
}
