// A session that a person talks in: its messages as they come, and who talks.
import { caller } from '../api/caller.svelte'
import { api, dataOf, type Schemas } from '../api/client'
import { messagesBefore, withNewest } from '../api/messages'
import { newKey, type Outgoing } from '../api/stream'
import { FollowedSession } from '../parts/followed_session.svelte'

export class HeldSession extends FollowedSession {
  said: Schemas['ChatMessageView'][] = $state.raw([])
  /** The cursor of earlier messages. */
  earlier: string | undefined = $state()
  /** A message that the server has not taken. */
  unsent: Outgoing | null = $state.raw(null)

  get handOver(): Schemas['SessionHandOver'] | undefined {
    return this.view?.handOver
  }

  /** Whether the caller is the person who talks. */
  get isMine(): boolean {
    return this.handOver?.operator === caller.view?.name
  }

  takeOver = () => this.#change(async () => dataOf(await api.POST('/api/sessions/{sessionId}/take-over', { params: this.params })))
  giveBack = () => this.#change(async () => dataOf(await api.POST('/api/sessions/{sessionId}/give-back', { params: this.params })))
  end = (reason: string) => this.#change(async () => dataOf(await api.POST('/api/sessions/{sessionId}/end', { params: this.params, body: { reason } })))

  speak = (content: string) => this.#speak({ message: { content }, shown: content, key: newKey() })

  /** Send the message again that was not taken; the server adds it once. */
  async sendAgain() {
    if (this.unsent) await this.#speak(this.unsent)
  }

  #speak(outgoing: Outgoing) {
    return this.#change(async () => {
      this.unsent = outgoing
      const params = { ...this.params, header: { 'Idempotency-Key': outgoing.key } }
      dataOf(await api.POST('/api/sessions/{sessionId}/speak', { params, body: { content: outgoing.shown } }))
      this.unsent = null
    })
  }

  #change(change: () => Promise<unknown>) {
    return this.work.run(async () => {
      await change()
      await this.read()
    })
  }

  /** Read the messages before those that are shown. */
  readEarlier = () =>
    this.work.run(async () => {
      const page = await messagesBefore(this.id, this.earlier)
      this.said = [...page.data.toReversed(), ...this.said]
      this.earlier = page.nextCursor ?? undefined
    })

  /** Read the session and its newest messages; those before them that are shown stay. */
  protected override async read() {
    await super.read() // first: its turn is the last that is read
    const page = await messagesBefore(this.id)
    if (!this.said.length) this.earlier = page.nextCursor ?? undefined
    this.said = withNewest(this.said, page.data.toReversed())
  }
}
