import { ApiProblem } from '../api/client'

const LIMIT_MS = 600_000 // to build the tables of a very large database
const PAUSE_MS = 1_000 // before the server is asked again, which itself waits some seconds before it refuses

/** Ask until the tables of analytics are built; the page shows how far they are. Throws what `ask` throws otherwise. */
export async function whenReady<T>(ask: () => Promise<T>): Promise<T> {
  const until = performance.now() + LIMIT_MS
  for (;;) {
    try {
      return await ask()
    } catch (problem) {
      const isEarly = problem instanceof ApiProblem && problem.code === 'ANALYTICS_NOT_READY'
      if (!isEarly || performance.now() > until) throw problem
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
  }
}
