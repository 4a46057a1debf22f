// The scripts of the tenant, for lists and choices.
import { allPages } from '../parts/pages.svelte'
import { api, dataOf, type Schemas } from './client'

const PAGE = 200

/** Return all scripts, each with its last version. Throws ApiProblem. */
export function allScripts(): Promise<Schemas['ScriptEntry'][]> {
  return allPages(async (cursor) => dataOf(await api.GET('/api/scripts', { params: { query: { limit: PAGE, cursor } } })))
}
