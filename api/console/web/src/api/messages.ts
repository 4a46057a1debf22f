// The messages of a session, which are read from the newest to the oldest.
import { api, dataOf } from './client'

const PAGE = 200

/** Return the newest messages, or those before a cursor, the newest first. Throws ApiProblem. */
export async function messagesBefore(sessionId: string, cursor?: string) {
  const query = { order: 'desc' as const, limit: PAGE, cursor }
  return dataOf(await api.GET('/api/sessions/{sessionId}/messages', { params: { path: { sessionId }, query } }))
}

/** Return the newest messages after those before them that are shown. */
export function withNewest<T extends { number: number }>(shown: T[], newest: T[]): T[] {
  const first = newest[0]?.number ?? 0
  return [...shown.filter((each) => each.number < first), ...newest]
}
