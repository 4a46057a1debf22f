// Server-sent events: of a turn, which is a POST, and of a session, which reconnects by itself.
import { ApiProblem, problemOf, unanswered, type Schemas } from './client'

export type Frame = { id: string; event: string; data: any }
export type SessionEvent = Schemas['EventView']

/** A message on its way: `shown` is how it appears, and with the same `key` the server processes it once. */
export type Outgoing = { message: Schemas['NewMessage']; shown: string; key: string }

/** Return a key that no other message has; `crypto.randomUUID` is missing on pages without TLS. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (each) => each.toString(16).padStart(2, '0')).join('')
}

/** Return the frames of a text of whole lines; the rest, which is not complete, is second. */
export function readFrames(text: string): [Frame[], string] {
  const blocks = text.split('\n\n')
  const rest = blocks.pop() ?? ''
  return [blocks.flatMap(readFrame), rest]
}

function readFrame(block: string): Frame[] {
  const values: Record<string, string> = {}
  for (const line of block.split('\n')) {
    const [, name, value] = /^(id|event|data): ?(.*)$/.exec(line) ?? []
    if (name) values[name] = value ?? ''
  }
  if (values.event === undefined || values.data === undefined) return []
  return [{ id: values.id ?? '', event: values.event, data: JSON.parse(values.data) }]
}

const SILENCE_MS = 60_000 // the server writes every `keep_alive_s`

/** A connection that is given up when nothing comes for long, or when the device is offline, for which a browser may wait for
 * ever; or on `stop`. */
export function watchedConnection(stop?: AbortSignal) {
  const lost = new AbortController()
  const lose = () => lost.abort()
  let timer = setTimeout(lose, SILENCE_MS)
  addEventListener('offline', lose)
  stop?.addEventListener('abort', lose) // `AbortSignal.any` is missing on older phones
  return {
    signal: lost.signal,
    hear() {
      clearTimeout(timer)
      timer = setTimeout(lose, SILENCE_MS)
    },
    end() {
      clearTimeout(timer)
      removeEventListener('offline', lose)
      stop?.removeEventListener('abort', lose)
    },
  }
}

/** Yield the frames of a stream until the server ends it. Throws ApiProblem if the connection breaks. */
export async function* framesOf(response: Response, hear: () => void): AsyncGenerator<Frame> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  let buffer = ''
  for (;;) {
    const { done, value } = await reader.read().catch(unanswered)
    if (done) return
    hear()
    const [frames, rest] = readFrames(buffer + value)
    buffer = rest
    yield* frames
  }
}

/** Run a turn and pass on its frames as they arrive; return the answer, also one that needed no turn. Throws ApiProblem. */
export async function runTurn<T>(
  path: string,
  body: unknown,
  onFrame: (frame: Frame) => void,
  headers: Record<string, string> = {},
): Promise<T> {
  const connection = watchedConnection()
  try {
    const response = await fetch(path, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Accept: 'text/event-stream', ...headers },
      body: JSON.stringify(body),
      signal: connection.signal,
    }).catch(unanswered)
    if (!response.ok || !response.body) throw problemOf(response.status, await response.json().catch(() => undefined))
    if (response.headers.get('Content-Type')?.startsWith('application/json')) return await response.json().catch(unanswered)
    for await (const frame of framesOf(response, connection.hear)) {
      onFrame(frame)
      if (frame.event === 'error') throw problemOf(frame.data.status, frame.data)
      if (frame.event === 'turn') return frame.data as T
    }
  } finally {
    connection.end()
  }
  throw new ApiProblem(0, 'OFFLINE', 'the connection ended before the answer', '')
}

const AGAIN_MS = 3000

/**
 * Follow a session from an event on; returns the function that stops. The browser reconnects by itself, unless there is no
 * stream: a server that stops answers 503, and a session that has ended has none. Then `again` is called, after a pause. A page
 * that nobody sees has no stream, as a browser has six connections to a server for all its pages; `again` is called when it is
 * seen.
 */
export function followSession(session: string, after: number, kinds: string[], onFrame: (frame: Frame) => void, again: () => void) {
  let source: EventSource | undefined
  let timer: ReturnType<typeof setTimeout> | undefined

  function open() {
    const opened = new EventSource(`/api/sessions/${encodeURIComponent(session)}/events?after=${after}`)
    opened.onerror = () => {
      if (opened.readyState === EventSource.CLOSED) timer = setTimeout(again, AGAIN_MS)
    }
    for (const kind of kinds) {
      opened.addEventListener(kind, (message) => {
        if (!(message instanceof MessageEvent)) return // the browser's own `error`
        onFrame({ id: message.lastEventId, event: kind, data: JSON.parse(message.data) })
      })
    }
    source = opened
  }

  function close() {
    clearTimeout(timer)
    source?.close()
  }

  const onVisibility = () => (document.hidden ? close() : again())
  document.addEventListener('visibilitychange', onVisibility)
  if (!document.hidden) open()
  return () => {
    document.removeEventListener('visibilitychange', onVisibility)
    close()
  }
}
