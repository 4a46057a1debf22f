// The client of our own API; its types are generated from the server's schema.
import createClient from 'openapi-fetch'
import type { components, paths } from './schema'

export type Schemas = components['schemas']

const client = createClient<paths>({ baseUrl: '' })

/** An answer of the server that is an error, or that did not come. */
export class ApiProblem extends Error {
  readonly time = performance.now() // milliseconds of the page

  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly fix: string,
    /** Whether the same request can succeed later. */
    readonly canRetry = status === 0,
  ) {
    super(message)
  }
}

type Answer<T> = { data?: T; error?: unknown; response: Response }

/** Return the data of an answer. Throws ApiProblem. */
export function dataOf<T>({ data, error, response }: Answer<T>): T {
  if (!response.ok) throw problemOf(response.status, error)
  return data as T
}

export function problemOf(status: number, body: unknown): ApiProblem {
  const error = (body as { error?: Record<string, unknown> } | undefined)?.error
  const recovery = error?.recovery as { canRetry?: boolean; retryAction?: string; suggestion?: string } | undefined
  return new ApiProblem(
    status,
    String(error?.code ?? 'UNKNOWN'),
    String(error?.message ?? `HTTP ${status}`),
    recovery?.retryAction === 'resend' ? '' : (recovery?.suggestion ?? ''), // pages have a button to send again
    recovery?.canRetry,
  )
}

/** For a request without an answer: `.catch(unanswered)`. */
export function unanswered(): never {
  throw new ApiProblem(0, 'OFFLINE', 'the server did not answer', '')
}

export const api = client
