import { api, ApiProblem, dataOf, type Schemas } from './client'

export type Caller = Schemas['CallerView']
type Role = Caller['roles'][number]

/** Who the pages act for: `state` is `needed` while a key must be entered, also in place of one that is refused since; then
 * `view` is still that of the key before. `since`: when a key was entered last, in milliseconds of the page. */
export const caller = $state<{ state: 'loading' | 'known' | 'needed' | 'failed'; view: Caller | null; error: unknown; since: number }>({
  state: 'loading',
  view: null,
  error: null,
  since: 0,
})

export async function readCaller() {
  try {
    caller.view = dataOf(await api.GET('/api/me'))
    caller.state = 'known'
  } catch (error) {
    caller.error = error
    caller.state = error instanceof ApiProblem && error.status === 401 ? 'needed' : 'failed'
  }
}

export async function signIn(key: string) {
  caller.view = dataOf(await api.POST('/api/sign-in', { body: { key } }))
  caller.since = performance.now()
  caller.state = 'known'
}

export async function signOut() {
  dataOf(await api.POST('/api/sign-out'))
  caller.view = null
  caller.state = 'needed'
}

export function hasRole(...roles: Role[]): boolean {
  return [...roles, 'admin' as const].some((role) => caller.view?.roles.includes(role))
}
