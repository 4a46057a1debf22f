// Completion of keys, values and names, and the meaning of a key under the pointer.
import { autocompletion, type CompletionContext, type CompletionResult } from '@codemirror/autocomplete'
import { hoverTooltip } from '@codemirror/view'
import type { Extension } from '@codemirror/state'
import { Language } from './language'
import { placeOf } from './place'

const KEY = /^\s*(?:-\s+)*([\w]*)$/
const VALUE = /^\s*(?:-\s+)*(\w+):\s+(\S*)$/
/** By the key of a reference, the key with which what it names is declared. */
const NAMED: Record<string, string[]> = {
  goto: ['topic'], call: ['skill'], tool: ['tool'], form: ['form'], role: ['role'], then: ['topic'], on_message: ['topic'],
}

let language: Promise<Language> | undefined

function loaded(): Promise<Language> {
  language ??= Language.load().catch((error) => {
    language = undefined // the next key tries again
    throw error
  })
  return language
}

async function complete(context: CompletionContext): Promise<CompletionResult | null> {
  const { state, pos } = context
  const line = state.doc.lineAt(pos)
  const before = line.text.slice(0, pos - line.from)
  const after = line.text.slice(pos - line.from)
  const lines = state.doc.toString().split('\n')
  const key = KEY.exec(before)
  if (key && !after.trim() && (context.explicit || key[1])) {
    const found = (await loaded()).keysAt(placeOf(lines.with(line.number - 1, before || ' '), line.number - 1))
    const options = found.map(({ label, detail }) => ({ label, info: detail, type: 'property', apply: `${label}: ` }))
    return { from: pos - key[1]!.length, options, validFor: /^\w*$/ }
  }
  const value = VALUE.exec(before)
  if (!value || (!context.explicit && !value[2])) return null
  const fixed = (await loaded()).valuesOf(placeOf(lines, line.number - 1), value[1]!)
  const names = namesOf(lines, NAMED[value[1]!] ?? [])
  const options = [...fixed.map((each) => each.label), ...names].map((label) => ({ label, type: 'enum' }))
  return options.length ? { from: pos - value[2]!.length, options, validFor: /^\S*$/ } : null
}

/** Return the names that the text declares with one of these keys. */
function namesOf(lines: string[], keys: string[]): string[] {
  const found = lines.map((each) => /^\s*-\s+(\w+):\s+(\S+)\s*$/.exec(each)).filter((each) => each && keys.includes(each[1]!))
  return [...new Set(found.map((each) => each![2]!))]
}

export const completion: Extension = [
  autocompletion({ override: [complete], icons: false }),
  hoverTooltip(async (view, pos) => {
    const line = view.state.doc.lineAt(pos)
    const found = /^(\s*(?:-\s+)*)([\w]+):/.exec(line.text)
    const from = line.from + (found?.[1]?.length ?? 0)
    if (!found || pos < from || pos > from + found[2]!.length) return null
    const place = placeOf(view.state.doc.toString().split('\n'), line.number - 1)
    const meaning = (await loaded().catch(() => null))?.meaningAt(place, found[2]!)
    if (!meaning) return null
    const dom = Object.assign(document.createElement('div'), { className: 'cm-meaning', textContent: meaning })
    return { pos: from, end: from + found[2]!.length, above: true, create: () => ({ dom }) }
  }),
]
