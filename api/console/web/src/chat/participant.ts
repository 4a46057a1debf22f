// A participant: enters by a link, keeps a valid token in memory, sends messages and follows the session.
import { api, ApiProblem, dataOf, problemOf, unanswered, type Schemas } from '../api/client'
import { framesOf, runTurn, watchedConnection, type Frame } from '../api/stream'
import { decoded } from '../parts/addresses'
import { store, stored } from '../parts/storage'

export type Turn = Schemas['VisibleTurn']
type OnFrame = (frame: Frame) => void

const SESSION = '/api/participants/session'
const RENEW_MS = 60_000 // before the token expires
const RETRY_MS = 1_000 // doubled with each failure
const RETRY_MS_MAX = 30_000
const SENDS_MAX = 6
const PAGE = 50

/** Return the link of this page's address. */
export function linkOfPage(): string {
  return decoded(location.pathname.split('/')[2] ?? '')
}

const secretKey = (link: string) => `cuebook.resume.${link}`

/** Return the secret by which this device comes back to its session of a link. */
export function secretOf(link: string): string | null {
  return stored(secretKey(link))
}

export function forgetSecret(link: string) {
  store(secretKey(link), null)
}

export class Participant {
  #entry: Schemas['TokenView']
  #timer: ReturnType<typeof setTimeout> | undefined

  private constructor(
    readonly link: string,
    entry: Schemas['EntryView'],
  ) {
    this.#entry = entry
    if (entry.resume) store(secretKey(link), entry.resume)
    this.#renewInTime()
  }

  /** Enter by a link: for the first time, or with the secret of an earlier entry. Throws ApiProblem. */
  static async enter(link: string, entry: { code?: string; resume?: string }): Promise<Participant> {
    return new Participant(link, await enter(link, entry))
  }

  /** Begin the session, or return the turn at which it is. */
  begin(onFrame: OnFrame): Promise<Turn> {
    return this.#run(SESSION, {}, onFrame, {})
  }

  /** Send a message until the server has answered; with the same key it is processed once. Throws ApiProblem. */
  send(message: Schemas['NewMessage'], key: string, onFrame: OnFrame): Promise<Turn> {
    return this.#run(`${SESSION}/messages`, message, onFrame, { 'Idempotency-Key': key })
  }

  async messages(cursor: string | undefined): Promise<Schemas['VisibleMessageList']> {
    const headers = await this.#authorization()
    const params = { query: { limit: PAGE, cursor } }
    return dataOf(await api.GET('/api/participants/session/messages', { params, headers }).catch(unanswered))
  }

  /** Follow the session from an event on, across lost connections, until it ends. Throws ApiProblem if access ends. */
  async follow(after: string, onFrame: OnFrame, onConnection: (isOnline: boolean) => void, stop: AbortSignal) {
    for (let wait = RETRY_MS; !stop.aborted; wait = Math.min(wait * 2, RETRY_MS_MAX)) {
      const connection = watchedConnection(stop)
      try {
        const headers = { Accept: 'text/event-stream', 'Last-Event-ID': after, ...(await this.#authorization()) }
        const response = await fetch(`${SESSION}/events`, { headers, signal: connection.signal }).catch(unanswered)
        if (response.status === 204) return
        if (!response.ok) throw problemOf(response.status, await response.json().catch(() => undefined))
        onConnection(true)
        wait = RETRY_MS
        for await (const frame of framesOf(response, connection.hear)) {
          after = frame.id || after
          onFrame(frame)
        }
      } catch (problem) {
        if (stop.aborted) return
        if (!isPassing(problem)) throw problem
        onConnection(false)
      } finally {
        connection.end()
      }
      await pause(wait, stop)
    }
  }

  /** The key with which this browser can subscribe to reminders; null if the server sends none. */
  get pushKey(): string | null {
    return this.#entry.pushKey
  }

  async subscribe(subscription: PushSubscription) {
    const headers = await this.#authorization()
    const body = subscription.toJSON() as Schemas['NewPush']
    await api.PUT('/api/participants/session/push', { headers, body }).catch(unanswered).then(dataOf)
  }

  async unsubscribe() {
    const headers = await this.#authorization()
    await api.DELETE('/api/participants/session/push', { headers }).catch(unanswered).then(dataOf)
  }

  /** Stop the renewal of the token. */
  leave() {
    clearTimeout(this.#timer)
  }

  async #run(path: string, body: unknown, onFrame: OnFrame, headers: Record<string, string>): Promise<Turn> {
    for (let send = 1, wait = RETRY_MS; ; send++, wait *= 2) {
      try {
        return await runTurn<Turn>(path, body, onFrame, { ...headers, ...(await this.#authorization()) })
      } catch (problem) {
        if (!isPassing(problem) || send === SENDS_MAX) throw problem
      }
      await pause(wait)
    }
  }

  /** Return the header of a valid token: a device that slept too long enters again with its secret. */
  async #authorization(): Promise<{ Authorization: string }> {
    const resume = secretOf(this.link)
    if (Date.parse(this.#entry.expiresAt) <= Date.now() && resume) {
      this.#entry = await enter(this.link, { resume })
      this.#renewInTime()
    }
    return { Authorization: `Bearer ${this.#entry.token}` }
  }

  #renewInTime() {
    clearTimeout(this.#timer)
    const left = Date.parse(this.#entry.expiresAt) - Date.now()
    if (left > 0) this.#timer = setTimeout(() => void this.#renew(), Math.max(left - RENEW_MS, left / 2))
  }

  async #renew() {
    try {
      const headers = { Authorization: `Bearer ${this.#entry.token}` }
      this.#entry = dataOf(await api.POST('/api/participants/renew', { headers }).catch(unanswered))
    } catch (problem) {
      if (!isPassing(problem)) return // the session or the access has ended, which the next request reports
    }
    this.#renewInTime()
  }
}

async function enter(link: string, entry: { code?: string; resume?: string }): Promise<Schemas['EntryView']> {
  const params = { path: { linkId: link } }
  const timezone = Intl.DateTimeFormat().resolvedOptions().timeZone
  const body = { ...entry, ...(entry.resume ? {} : { locale: navigator.language, timezone }) }
  return dataOf(await api.POST('/api/links/{linkId}/sessions', { params, body }).catch(unanswered))
}

/** Return what a page shows of a link before anybody enters. Throws ApiProblem. */
export async function readLink(link: string): Promise<Schemas['LinkPage']> {
  const params = { path: { linkId: link }, query: { locale: navigator.language } }
  return dataOf(await api.GET('/api/links/{linkId}/page', { params }).catch(unanswered))
}

/** Whether the same request may succeed later: the connection, a restart of the server, too many requests. */
export function isPassing(problem: unknown): boolean {
  return problem instanceof ApiProblem && [0, 429, 502, 503, 504].includes(problem.status)
}

/** Wait, at random between half of the time and all of it, so that clients do not come back at once; less when online. */
function pause(ms: number, stop?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms * (0.5 + Math.random() / 2))
    function done() {
      clearTimeout(timer)
      window.removeEventListener('online', done)
      stop?.removeEventListener('abort', done)
      resolve()
    }
    window.addEventListener('online', done)
    stop?.addEventListener('abort', done)
  })
}
