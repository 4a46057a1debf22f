// The scripts of the tenant, for lists and choices.
import { allPages } from '../parts/pages.svelte'
import { api, dataOf, type Schemas } from './client'

const PAGE = 200

/** Return all scripts, each with its last version; with `status` those that have one, with the last such version. Throws ApiProblem. */
export function allScripts(status?: 'published'): Promise<Schemas['ScriptEntry'][]> {
  return allPages(async (cursor) => dataOf(await api.GET('/api/scripts', { params: { query: { status, limit: PAGE, cursor } } })))
}
