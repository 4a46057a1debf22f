// The parts of a dashboard: what each shows, and where its result comes from.
import { api, dataOf, type Schemas } from '../api/client'
import { language } from '../strings/index.svelte'
import { whenReady } from './when_ready'

export type Tile = Schemas['Tile']
type Answer = Schemas['QueryAnswer']

/** Return the address of a report's result in a format; saved queries have none. */
export function addressOf(tile: Tile, format: string): string {
  const query = new URLSearchParams({ ...tile.parameters, masked: 'true', format, language: language() })
  return `/api/analytics/reports/${encodeURIComponent(tile.report ?? '')}?${query}`
}

/** Tiles that run at once: a browser has six connections to a server, of which changes need one, and the server runs few queries. */
const RUNNING_MAX = 2
const waiting: (() => void)[] = []
let running = 0

/** Run what a tile shows, after the tiles before it. */
export async function run(tile: Tile): Promise<Answer> {
  if (running === RUNNING_MAX) await new Promise<void>((resolve) => waiting.push(resolve))
  else running += 1
  try {
    return await resultOf(tile)
  } finally {
    const next = waiting.shift() // takes the place of this one
    if (next) next()
    else running -= 1
  }
}

async function resultOf(tile: Tile): Promise<Answer> {
  if (tile.report) {
    const params = { path: { report: tile.report }, query: { ...tile.parameters, masked: true } }
    return whenReady(async () => dataOf(await api.GET('/api/analytics/reports/{report}', { params })) as Answer)
  }
  const query = dataOf(await api.GET('/api/analytics/queries/{queryId}', { params: { path: { queryId: tile.queryId ?? '' } } }))
  const body = { sql: query.sql, format: 'json' as const, masked: true, rowsMax: 200, timeoutS: 60, maxAgeS: 60, title: tile.title, language: language() }
  return whenReady(async () => dataOf(await api.POST('/api/analytics/query', { body })) as Answer)
}

/** Return the tiles with one moved by a number of places. */
export function moved(tiles: Tile[], at: number, by: number): Tile[] {
  const others = tiles.toSpliced(at, 1)
  return others.toSpliced(at + by, 0, tiles[at]!)
}
