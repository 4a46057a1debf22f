// One conversation with a script: what was said, its state, and what the last turn changed.
import { boundUser } from '../api/caller.svelte'
import { api, ApiProblem, dataOf, type Schemas } from '../api/client'
import { messagesBefore, withNewest } from '../api/messages'
import { followSession, newKey, runTurn, type Frame, type Outgoing } from '../api/stream'
import { Attempt } from '../parts/attempt.svelte'
import { allPages } from '../parts/pages.svelte'

export type Said = { number: number; role: string; content: string; media?: Record<string, string>; reply?: Schemas['NewMessage']; pending?: boolean }
type Event = { kind: string; data: Record<string, any> }

const PAGE = 200
const STATE_CHANGED = [409, 412] // the session is no longer as it is shown

export class Talk {
  session: Schemas['SessionView'] | null = $state.raw(null)
  said: Said[] = $state([])
  turns: Schemas['SnapshotEntry'][] = $state.raw([])
  events: Event[] = $state([])
  timers: Schemas['TimerView'][] = $state.raw([])
  title = $state('')
  scriptKey = $state('')
  /** The cursor of earlier messages. */
  earlier: string | undefined = $state()
  /** A message that the server has not taken. */
  unsent: Outgoing | null = $state.raw(null)
  readonly work = new Attempt()
  /** Reads the session again, if that has failed; what fails otherwise has a button of its own. */
  retry: (() => unknown) | undefined = $state.raw()
  #beginning: { request: string; key: string } | null = null // of a session, until there is one
  #published = 0 // the version that new sessions run
  #newest = 0 // the last turn that the stream has announced
  #stop = () => {}
  #isClosed = false
  #last: Promise<unknown> = Promise.resolve() // what runs: the next one waits, so that it does not show what was before

  get isBusy(): boolean {
    return this.work.isBusy
  }

  /** The version of the session if it is tried before it is published. */
  get triedVersion(): number | undefined {
    const version = this.session?.scriptVersion ?? 0
    return version > this.#published ? version : undefined
  }

  /** The variable writes of the last turn. */
  get changes(): Record<string, any>[] {
    return this.events.filter((each) => each.kind === 'variable').map((each) => each.data)
  }

  get warnings(): Record<string, any>[] {
    return this.events.filter((each) => each.kind === 'warning').map((each) => each.data)
  }

  /** The variables that the last turn wrote, as `scope.name`. */
  get changed(): Set<string> {
    return new Set(this.changes.map((each) => `${each.scope}.${each.name}`))
  }

  /** Stop following the session, also one that is still being read. */
  close() {
    this.#isClosed = true
    this.#stop()
  }

  /** Begin a session; return its id, or undefined if it could not begin. If it can later, the same request then begins it. */
  async begin(scriptId: string, userId: string, version?: number): Promise<string | undefined> {
    let id: string | undefined
    this.#isClosed = false
    await this.#attempt(async () => {
      this.said = []
      this.earlier = undefined
      this.events = []
      const { sessionId } = await this.#create({ scriptId, scriptVersion: version, userId })
      await this.#readSession(sessionId)
      this.#beginning = null
      id = sessionId
    })
    return id
  }

  async #create(body: Schemas['NewSession']) {
    const request = JSON.stringify(body)
    const key = this.#beginning?.request === request ? this.#beginning.key : newKey()
    this.#beginning = { request, key }
    try {
      return await runTurn<Schemas['SessionStart']>('/api/sessions', body, (frame) => this.#onFrame(frame), { 'Idempotency-Key': key })
    } catch (problem) {
      if (!(problem instanceof ApiProblem && problem.canRetry)) this.#beginning = null
      throw problem
    }
  }

  /** Open a session with its newest messages and its last turn. */
  open(id: string) {
    if (this.session?.sessionId !== id) this.unsent = null
    this.#isClosed = false
    return this.#attempt(() => this.#reading(id, () => this.#show(id)))
  }

  async #show(id: string) {
    const isOther = this.session?.sessionId !== id
    const page = await messagesBefore(id)
    const newest = page.data.toReversed().map(saidOf)
    this.said = withNewest(isOther ? [] : this.said, newest)
    if (this.said.length === newest.length) this.earlier = page.nextCursor ?? undefined
    this.turns = []
    await this.#readSession(id)
    const turn = this.turns.at(-1)?.turn
    if (turn === undefined) return
    const path = { sessionId: id, turn }
    this.events = dataOf(await api.GET('/api/sessions/{sessionId}/snapshots/{turn}', { params: { path } })).events
  }

  /** Read the messages before those that are shown. */
  readEarlier = () =>
    this.#attempt(async () => {
      const page = await messagesBefore(this.session!.sessionId, this.earlier)
      this.said = [...page.data.toReversed().map(saidOf), ...this.said]
      this.earlier = page.nextCursor ?? undefined
    })

  send(message: Schemas['NewMessage'], shown: string): Promise<boolean> {
    return this.#send({ message, shown, key: newKey() })
  }

  /** Send the message again that was not taken; the server processes it once. */
  async sendAgain() {
    if (this.unsent) await this.#send(this.unsent)
  }

  async #send(outgoing: Outgoing): Promise<boolean> {
    if (!this.session || this.isBusy) return false
    return this.#attempt(async () => {
      const current = this.session!
      this.events = []
      this.unsent = null
      this.said.push({ number: (this.said.at(-1)?.number ?? 0) + 1, role: 'user', content: outgoing.shown, pending: true })
      try {
        await this.#runTurn(current, outgoing.message, outgoing.key)
      } catch (problem) {
        this.unsent = outgoing
        if (problem instanceof ApiProblem && STATE_CHANGED.includes(problem.status)) await this.#show(current.sessionId)
        throw problem
      }
      this.said = this.said.filter((each) => !each.pending)
      await this.#reading(current.sessionId, () => this.#readSession(current.sessionId))
    })
  }

  /** Begin a session whose first turn has failed: it does so with a message, whatever its text. */
  beginAgain = () =>
    this.#attempt(async () => {
      const { sessionId } = this.session!
      await this.#runTurn(this.session!, { content: 'begin' }, newKey())
      await this.#reading(sessionId, () => this.#readSession(sessionId))
    })

  #runTurn({ sessionId, turn }: Schemas['SessionView'], message: Schemas['NewMessage'], key: string) {
    const headers = { 'If-Match': `"${turn}"`, 'Idempotency-Key': key }
    return runTurn<Schemas['TurnAnswer']>(`/api/sessions/${encodeURIComponent(sessionId)}/messages`, message, (frame) => this.#onFrame(frame), headers)
  }

  /** Let a moment come now for which the session waits. */
  fire(timerId: string) {
    return this.#change(async (path) => dataOf(await api.POST('/api/sessions/{sessionId}/timers/fire', { params: { path }, body: { timerId } })))
  }

  /** Ask another language model from now on; null: those that the script names. */
  useModel(model: string | null) {
    return this.#change(async (path) => dataOf(await api.POST('/api/sessions/{sessionId}/model', { params: { path }, body: { model } })))
  }

  /** Continue a session that was paused. */
  resume = () => this.#change(async (path) => dataOf(await api.POST('/api/sessions/{sessionId}/resume', { params: { path } })))

  rewind(turn: number) {
    return this.#change(async (path) => dataOf(await api.POST('/api/sessions/{sessionId}/rewind', { params: { path }, body: { turn } })))
  }

  /** Continue with another version of the script. Fails if the session cannot move to it. */
  migrate(version: number) {
    return this.#change(async (path) => {
      const moved = dataOf(await api.POST('/api/sessions/{sessionId}/migrate', { params: { path }, body: { version, dryRun: false } }))
      if (moved.verdict === 'blocked') throw new Error(moved.why.join(' '))
    })
  }

  /** Copy the session as it was after a turn; return the id of the copy, or undefined. */
  async fork(turn: number): Promise<string | undefined> {
    let id: string | undefined
    await this.#attempt(async () => {
      const params = { path: { sessionId: this.session!.sessionId } }
      id = dataOf(await api.POST('/api/sessions/{sessionId}/fork', { params, body: { turn } })).sessionId
    })
    return id
  }

  /** Return the turn that ended with this message; undefined within a turn and for the last one. */
  turnEnding(number: number): number | undefined {
    return this.turns.slice(0, -1).findLast((each) => each.messageCount === number)?.turn
  }

  async #attempt(action: () => Promise<void>): Promise<boolean> {
    const running = this.#last.then(() => {
      this.retry = undefined
      return this.work.run(action)
    })
    this.#last = running
    const isDone = await running
    if (!isDone) this.said = this.said.filter((each) => !each.pending)
    else if (this.session && this.#newest > this.session.turn) return this.open(this.session.sessionId)
    return isDone
  }

  /** Show turns that begin elsewhere: by a timer, in another tab, by a person in place of the script. */
  #follow(id: string) {
    this.#stop()
    this.#newest = 0
    if (this.#isClosed || this.session?.status === 'completed') return
    const onPosition = ({ data }: Frame) => {
      this.#newest = data.turn
      if (!this.isBusy && this.session?.sessionId === id && data.turn > this.session.turn) void this.open(id)
    }
    const again = () => {
      if (this.session?.sessionId === id) void this.open(id).then(() => this.#follow(id))
    }
    this.#stop = followSession(id, this.turns.at(-1)?.eventCount ?? 0, ['position'], onPosition, again)
  }

  /** Change the session and show it, without a moment between in which a waiting reply would be sent. */
  #change(change: (path: { sessionId: string }) => Promise<unknown>): Promise<boolean> {
    const id = this.session!.sessionId
    return this.#attempt(async () => {
      await change({ sessionId: id })
      await this.#reading(id, () => this.#show(id))
    })
  }

  async #reading(id: string, read: () => Promise<void>) {
    try {
      await read()
    } catch (problem) {
      this.retry = () => this.open(id)
      throw problem
    }
  }

  async #readSession(id: string) {
    const params = { path: { sessionId: id } }
    const isOther = this.session?.sessionId !== id
    this.session = dataOf(await api.GET('/api/sessions/{sessionId}', { params }))
    const known = isOther ? [] : this.turns
    const after = known.at(-1)?.turn ?? -1
    const since = await allPages(async (cursor) => {
      const query = { after: cursor === undefined ? after : Number(cursor), limit: PAGE }
      return dataOf(await api.GET('/api/sessions/{sessionId}/snapshots', { params: { ...params, query } }))
    })
    this.turns = [...known, ...since]
    this.timers = dataOf(await api.GET('/api/timers', { params: { query: { sessionId: id } } })).data
    if (isOther) {
      const script = this.session.script.session as { session_id: string; session_name: string }
      ;[this.title, this.scriptKey] = [script.session_name, script.session_id]
      this.#published = await this.#publishedVersion()
      this.#follow(id)
    }
  }

  /** Return the version that new sessions run, 0 if there is none. A key that is bound to a user cannot read it, and tries no other. */
  async #publishedVersion(): Promise<number> {
    if (boundUser() !== null) return this.session!.scriptVersion
    const path = { scriptId: this.session!.scriptId }
    const script = (await api.GET('/api/scripts/{scriptId}', { params: { path } })).data
    return script?.status === 'published' ? script.version : 0
  }

  #onFrame({ event, data }: Frame) {
    if (event === 'message.delta') {
      const found = this.said.find((each) => each.number === data.message && each.pending)
      if (found) found.content += data.text
      else this.said.push({ number: data.message, role: 'assistant', content: data.text, pending: true })
    } else if (event === 'message.reset') {
      this.said = this.said.filter((each) => !(each.pending && each.number >= data.message))
    } else if (event === 'message') {
      this.said = [...this.said.filter((each) => each.number !== data.number), saidOf(data)].sort((a, b) => a.number - b.number)
    }
    if (!event.startsWith('message.') && !['turn', 'position', 'error'].includes(event)) this.events.push({ kind: event, data })
  }
}

function saidOf(message: Record<string, any>): Said {
  const { number, role, content, metadata } = message
  const { choice, form } = metadata ?? {}
  const reply = role === 'user' ? (choice ? { choice } : form ? { form } : { content }) : undefined
  return { number, role, content, media: metadata?.media, reply }
}
