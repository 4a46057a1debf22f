// The state of one conversation: what was said, what it waits for, and whether the server is reached.
import type { Schemas } from '../api/client'
import { newKey, type Frame, type Outgoing } from '../api/stream'
import { Attempt } from '../parts/attempt.svelte'
import { Reminders } from './reminders.svelte'
import type { Participant, Turn } from './participant'

type Message = Schemas['VisibleMessage']
export type Said = Pick<Message, 'number' | 'role' | 'content' | 'media' | 'fromPerson'> & { pending?: boolean }

export class Conversation {
  said: Said[] = $state([])
  title = $state('')
  locale = $state('')
  wait: Schemas['WaitView'] | null = $state.raw(null)
  hasEnded = $state(false)
  speaksByItself = $state(false)
  isOnline = $state(true)
  /** The cursor of earlier messages. */
  earlier: string | undefined = $state()
  /** A message that the server has not taken. */
  unsent: Outgoing | null = $state.raw(null)
  #work = new Attempt()
  #stop = new AbortController()

  readonly reminders: Reminders

  constructor(readonly participant: Participant) {
    this.reminders = new Reminders(participant)
  }

  get isBusy(): boolean {
    return this.#work.isBusy
  }

  get problem(): unknown {
    return this.#work.error
  }

  /** Begin or continue the session, and follow it from then on. */
  async open() {
    await this.#attempt(async () => {
      this.#take(await this.participant.begin((frame) => this.#onFrame(frame)))
      await this.readEarlier()
    })
  }

  /** Read the messages before those that are shown; at first the newest. */
  async readEarlier() {
    const page = await this.participant.messages(this.earlier)
    this.#merge(page.data)
    this.earlier = page.nextCursor ?? undefined
  }

  send(message: Schemas['NewMessage'], shown: string) {
    return this.#send({ message, shown, key: newKey() })
  }

  /** Send the message again that was not taken; the server processes it once. */
  async sendAgain() {
    if (this.unsent) await this.#send(this.unsent)
  }

  leave() {
    this.#stop.abort()
    this.participant.leave()
  }

  async #send(unsent: Outgoing) {
    if (this.isBusy) return
    this.unsent = null
    const number = Math.max(0, ...this.said.map((each) => each.number)) + 1
    this.said.push({ number, role: 'user', content: unsent.shown, pending: true })
    const isTaken = await this.#attempt(async () => {
      this.#take(await this.participant.send(unsent.message, unsent.key, (frame) => this.#onFrame(frame)))
    })
    if (!isTaken) this.unsent = unsent
  }

  /** Run an action as the one that is under way; return whether it succeeded. */
  async #attempt(action: () => Promise<void>): Promise<boolean> {
    const isDone = await this.#work.run(action)
    this.said = this.said.filter((each) => !each.pending)
    return isDone
  }

  #take(turn: Turn) {
    this.title = turn.title
    this.locale = turn.locale
    this.wait = turn.wait
    this.speaksByItself = turn.speaksByItself
    this.hasEnded = turn.status === 'completed'
    this.#merge(turn.messages)
    if (!this.#isFollowing) void this.#follow(turn.lastEventId)
  }

  #isFollowing = false

  /** Receive what happens elsewhere: in another tab of this person, by a timer, by the application. */
  async #follow(after: string) {
    this.#isFollowing = true
    try {
      const onConnection = (isOnline: boolean) => (this.isOnline = isOnline)
      await this.participant.follow(after, (frame) => this.#onEvent(frame), onConnection, this.#stop.signal)
    } catch (problem) {
      this.#work.error = problem
    } finally {
      this.#isFollowing = false
    }
  }

  #onEvent(frame: Frame) {
    const isOfWords = frame.event.startsWith('message.')
    if (!(isOfWords && this.isBusy)) this.#onFrame(frame) // a turn of this tab brings its own words
  }

  #onFrame({ event, data }: Frame) {
    if (event === 'message') this.#merge([data])
    else if (event === 'wait') this.wait = data.wait
    else if (event === 'status') this.hasEnded = data.status === 'completed'
    else if (event === 'message.delta') this.#addWords(data.message, data.text)
    else if (event === 'message.reset') this.said = this.said.filter((each) => !(each.pending && each.number >= data.message))
  }

  /** Add words of a message that is being written; those of one that is whole come late, by the other stream. */
  #addWords(number: number, text: string) {
    const found = this.said.find((each) => each.number === number && each.role === 'assistant')
    if (!found) this.said.push({ number, role: 'assistant', content: text, pending: true })
    else if (found.pending) found.content += text
  }

  #merge(messages: Message[]) {
    const numbers = new Set(messages.map((each) => each.number))
    const others = this.said.filter((each) => !numbers.has(each.number))
    this.said = [...others, ...messages].sort((a, b) => a.number - b.number)
  }
}
