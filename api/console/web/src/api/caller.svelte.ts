import { t } from '../strings/index.svelte'
import { api, ApiProblem, dataOf, type Schemas } from './client'

export type Caller = Schemas['CallerView']
type Role = Caller['roles'][number]
/** Who may use a part of the console: keys with one of the roles; of those that are bound to a user only with `isOfUser`. */
export type Access = { roles: Role[]; isOfUser?: boolean }

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

/** With `keepsTenant` a key of another tenant is refused. Throws ApiProblem, or Error for that. */
export async function signIn(key: string, keepsTenant = false) {
  const view = dataOf(await api.POST('/api/sign-in', { body: { key } }))
  const tenant = caller.view?.tenant ?? view.tenant
  if (keepsTenant && tenant !== view.tenant) {
    dataOf(await api.POST('/api/sign-out'))
    throw new Error(t().otherTenant(tenant))
  }
  caller.view = view
  caller.since = performance.now()
  caller.state = 'known'
}

export async function signOut() {
  dataOf(await api.POST('/api/sign-out'))
  caller.view = null
  caller.state = 'needed'
}

/** The user that the key is bound to; null: it is for all users. */
export function boundUser(): string | null {
  return caller.view?.userId ?? null
}

export function hasRole(...roles: Role[]): boolean {
  return [...roles, 'admin' as const].some((role) => caller.view?.roles.includes(role))
}

/** Return whether the key may use a part of the console. */
export function isPermitted({ roles, isOfUser = false }: Access): boolean {
  return hasRole(...roles) && (isOfUser || boundUser() === null)
}
