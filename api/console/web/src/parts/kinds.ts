// The kinds of events: their names, and groups that the timeline can show alone.
import { t, timeText } from '../strings/index.svelte'

export const GROUPS = {
  messages: ['message'],
  variables: ['variable'],
  flow: [
    'scope_entered', 'scope_left', 'scope_skipped', 'action_entered', 'action_left', 'action_skipped', 'variant', 'judged',
    'exit', 'jump', 'wait', 'interrupted', 'repaired', 'migrated', 'milestone', 'ended', 'intervention', 'timer',
  ],
  calls: ['call'],
  tools: ['tool_call', 'tool_result'],
  others: ['warning', 'detected', 'emitted', 'exposed', 'remembered', 'recalled', 'resized'],
} as const

export type Group = keyof typeof GROUPS
export const EVENT_KINDS: string[] = Object.values(GROUPS).flat().filter((kind) => kind !== 'call')

export function groupOf(kind: string): Group {
  return (Object.keys(GROUPS) as Group[]).find((group) => (GROUPS[group] as readonly string[]).includes(kind)) ?? 'others'
}

/** Return the name of a kind; in English it is the kind itself. */
export function nameOf(kind: string): string {
  return t().session.events[kind] ?? kind.replaceAll('_', ' ')
}

/** Return one line that says what an event was; the details of an event show all of it. */
export function summaryOf(kind: string, data: Record<string, any>): string {
  switch (kind) {
    case 'message': return data.content || JSON.stringify(data.metadata ?? {})
    case 'variable': return `${data.scope}.${data.name} = ${JSON.stringify(data.new)}`
    case 'wait': return line(t().session.waits[data.wait?.kind] ?? data.wait?.kind, timeText(data.wait?.until))
    case 'tool_call': return `${data.tool} ${JSON.stringify(data.arguments ?? {})}`
    case 'tool_result': return `${data.tool} ${JSON.stringify(data.failure ?? data.result ?? null)}`
    case 'warning': return `${data.code}: ${data.message ?? ''}`
    case 'detected': return `${data.detector} ${data.label ?? ''} ${data.score ?? ''}`
    case 'recalled': return `${data.query ?? ''} · ${data.units?.length ?? 0}`
    case 'scope_entered': case 'scope_left': case 'scope_skipped': return `${data.scope} ${data.id}`
    case 'jump': return [data.phaseId, data.topicId, data.actionId].filter(Boolean).join(' › ')
    case 'timer': return line(data.timer, data.moment, timeText(data.due))
    case 'intervention': return `${data.what} ${data.reason ?? ''}`
    case 'judged': return line(data.actionId, data.progress, data.reason)
    case 'remembered': return line(data.actionId, data.text)
    case 'exposed': return line(data.experiment, data.arm, data.actionId)
    case 'migrated': return line(data.verdict, data.newPlace)
    default: return line(data.name ?? data.event ?? data.interrupt ?? data.repair, data.actionId, data.actionType, data.outcome, data.reason)
  }
}

function line(...parts: unknown[]): string {
  return parts.filter(Boolean).join(' · ')
}
