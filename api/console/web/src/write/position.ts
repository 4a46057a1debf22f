// Where in an outline a session is.
import type { Schemas } from '../api/client'

type Item = Schemas['OutlineItem']
export type Position = Schemas['SessionView']['position']
const KINDS = ['phase', 'topic', 'action']

/** Return the index of the action at which a session is, else of its topic or phase; -1 if the script has none of them. */
export function indexOfPosition(items: Item[], { phaseId, topicId, actionId }: Position): number {
  let found = -1
  for (const [depth, id] of [phaseId, topicId, actionId].entries()) {
    const inside = items.findIndex((each, index) => index > found && each.kind === KINDS[depth] && each.id === id)
    const end = items.findIndex((each, index) => index > found && KINDS.indexOf(each.kind) < depth)
    if (inside < 0 || (end >= 0 && end < inside)) break
    found = inside
  }
  return found
}
