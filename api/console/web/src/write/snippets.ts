// Actions that can be inserted into a script, and where an inserted one goes.

import { language } from '../strings/index.svelte'

/** By the name in the menu, the lines of an action. */
const english = {
  say: '- say: Hello.',
  ask: '- ask: What is your name?\n  into: name',
  number: '- ask: How old are you?\n  into: {var: age, type: number, min: 0, max: 120}',
  choose: '- choose: How are you today?\n  into: mood\n  choices:\n    - good: Good\n    - low: Not so good',
  aiAsk: '- ai_ask: Find out what the visitor would like to talk about.\n  into: subject\n  exit: they named a subject',
  chat: '- chat: Talk about the subject.\n  rounds: 5\n  exit: they have no more questions',
  set: '- set: {score: =score + 1}',
  condition: '- if: mood == "low"\n  then:\n    - say: I am sorry to hear that.\n  else:\n    - say: I am glad.',
  wait: '- wait: 1 day',
  end: '- end: {reason: the end, outcome: completed}',
} as const
export type SnippetName = keyof typeof english

const chinese: Record<SnippetName, string> = {
  say: '- say: 您好。',
  ask: '- ask: 您叫什么名字？\n  into: name',
  number: '- ask: 您今年多大？\n  into: {var: age, type: number, min: 0, max: 120}',
  choose: '- choose: 您今天感觉怎么样？\n  into: mood\n  choices:\n    - good: 好\n    - low: 不太好',
  aiAsk: '- ai_ask: 了解来访者想谈什么。\n  into: subject\n  exit: 来访者说出了一个话题',
  chat: '- chat: 围绕这个话题交谈。\n  rounds: 5\n  exit: 来访者没有更多问题',
  set: english.set,
  condition: '- if: mood == "low"\n  then:\n    - say: 听到这些我很难过。\n  else:\n    - say: 我很高兴。',
  wait: english.wait,
  end: '- end: {reason: 结束, outcome: completed}',
}

export const snippetNames = Object.keys(english) as SnippetName[]

/** Return the lines of an action, with texts in the language of the page. */
export function snippet(name: SnippetName): string {
  return (language() === 'zh' ? chinese : english)[name]
}

/** Return the text of a first case: the beginning of a script. */
export function newCases(id: string): string {
  return `script: ${id}.yaml
cases:
  - name: the beginning
    turns:
      - expect: ["*"]
      # - say: hello
      #   expect: ["*"]
    end: {status: waiting_input}
`
}

/** Return the beginning of a new script, in the language of the page. */
export function newScript(id: string): string {
  if (language() === 'zh')
    return `cuebook: 1\nscript: ${id}\nlocale: zh\nactions:\n  - ask: 您叫什么名字？\n    into: name\n  - say: "您好，{{ name }}！"\n`
  return `cuebook: 1\nscript: ${id}\nactions:\n  - ask: What is your name?\n    into: name\n  - say: "Hello, {{ name }}!"\n`
}

const ITEM = /^(\s*)- /

/** Return where to insert an action after the one at a line (from 1), else after the last one, and the text. */
export function insertionFor(text: string, line: number, action: string): { position: number; text: string } {
  const lines = text.split('\n')
  let start = Math.min(line, lines.length) - 1
  while (start >= 0 && !isItem(lines, start)) start--
  if (start < 0) start = lines.findLastIndex((_, index) => isItem(lines, index)) // the cursor is above all actions
  if (start < 0) return atEnd(text, action)
  const indent = ITEM.exec(lines[start]!)![1]!
  let end = start + 1
  while (end < lines.length && (lines[end]!.trim() === '' || indentOf(lines[end]!) > indent.length)) end++
  while (lines[end - 1]!.trim() === '') end-- // blank lines stay below
  const position = lines.slice(0, end).join('\n').length
  return { position, text: `\n${indented(action, indent)}` }
}

/** Whether a line begins an action, not a choice or a value of one. */
function isItem(lines: string[], index: number): boolean {
  const found = ITEM.exec(lines[index]!)
  if (!found) return false
  for (let above = index - 1; above >= 0; above--) {
    const each = lines[above]!
    if (each.trim() === '' || indentOf(each) > found[1]!.length || ITEM.exec(each)?.[1] === found[1]) continue
    return /^\s*(- )?(actions|then|else|do):\s*(#.*)?$/.test(each)
  }
  return false
}

function atEnd(text: string, action: string): { position: number; text: string } {
  const last = text.split('\n').findLast((each) => each.trim() !== '') ?? ''
  const opened = /^(\s*)(- )?(actions|then|else|do):\s*$/.exec(last)
  const indent = opened ? ' '.repeat(opened[1]!.length + (opened[2]?.length ?? 0) + 2) : '  '
  return { position: text.trimEnd().length, text: `\n${opened ? '' : 'actions:\n'}${indented(action, indent)}\n` }
}

function indentOf(line: string): number {
  return line.length - line.trimStart().length
}

function indented(action: string, indent: string): string {
  return action.split('\n').map((each) => indent + each).join('\n')
}
