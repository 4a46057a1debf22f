// The text editor: CodeMirror in a shadow root, where its styles are constructed sheets, which the policy permits.
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { yaml } from '@codemirror/lang-yaml'
import { bracketMatching, foldGutter, foldKeymap, HighlightStyle, indentOnInput, syntaxHighlighting } from '@codemirror/language'
import { lintGutter, lintKeymap, setDiagnostics, type Diagnostic } from '@codemirror/lint'
import { highlightSelectionMatches, searchKeymap } from '@codemirror/search'
import { EditorState } from '@codemirror/state'
import {
  drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers,
} from '@codemirror/view'
import { tags } from '@lezer/highlight'
import type { Schemas } from '../api/client'
import { meaning, t } from '../strings/index.svelte'
import { completion } from './completion'
import { insertionFor } from './snippets'

/** A problem of the text; `line` and `column` count from 1. */
export type Fault = Schemas['ProblemView']

type Wiring = {
  parent: HTMLElement
  label: string
  onText: (text: string) => void
  onLine: (line: number) => void
}

const theme = EditorView.theme({
  '&': { backgroundColor: 'var(--surface)', color: 'var(--text)', fontSize: '14px', height: '100%' },
  '&.cm-focused': { outline: 'none' }, // its numbers of lines would cover the outline, which its host has
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.55' },
  '.cm-content': { caretColor: 'var(--text)', paddingBlock: '0.6rem' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': { backgroundColor: 'var(--surface)', color: 'var(--muted)', border: 'none' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'color-mix(in srgb, var(--accent) 9%, transparent)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    backgroundColor: 'color-mix(in srgb, var(--accent) 28%, transparent)',
  },
  '.cm-tooltip, .cm-panels': { backgroundColor: 'var(--surface)', color: 'var(--text)', border: '1px solid var(--line)' },
  '.cm-meaning, .cm-completionInfo': { padding: '0.4rem 0.6rem', maxWidth: '26rem', whiteSpace: 'pre-wrap' },
  '.cm-tooltip-autocomplete ul li[aria-selected]': { backgroundColor: 'var(--accent)', color: 'var(--accent-text)' },
  '.cm-diagnostic': { whiteSpace: 'pre-wrap', maxWidth: '32rem' },
  '.cm-panel input, .cm-panel button': { color: 'inherit', background: 'var(--sunken)', border: '1px solid var(--line)' },
  '.cm-searchMatch': { backgroundColor: 'var(--warn-soft)' },
})

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--accent)' },
  { tag: tags.comment, color: 'var(--muted)', fontStyle: 'italic' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--good)' },
  { tag: [tags.keyword, tags.bool, tags.number, tags.null], color: 'var(--warn)' },
  { tag: [tags.punctuation, tags.separator, tags.bracket, tags.squareBracket, tags.brace], color: 'var(--muted)' },
])

export class Editor {
  private view: EditorView

  constructor(text: string, private wiring: Wiring) {
    const root = wiring.parent.shadowRoot ?? wiring.parent.attachShadow({ mode: 'open' })
    this.view = new EditorView({ parent: root, root, state: this.stateOf(text) })
  }

  private stateOf(text: string): EditorState {
    return EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(), foldGutter(), lintGutter(), history(), drawSelection(), indentOnInput(), bracketMatching(),
        highlightActiveLine(), highlightActiveLineGutter(), highlightSelectionMatches(), yaml(), theme,
        syntaxHighlighting(colours), EditorView.lineWrapping, completion,
        keymap.of([...defaultKeymap, ...searchKeymap, ...historyKeymap, ...foldKeymap, ...lintKeymap]),
        EditorView.contentAttributes.of({ 'aria-label': this.wiring.label, spellcheck: 'true', tabindex: '0' }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) this.wiring.onText(update.state.doc.toString())
          if (update.docChanged || update.selectionSet) this.wiring.onLine(this.line)
        }),
      ],
    })
  }

  get line(): number {
    return this.view.state.doc.lineAt(this.view.state.selection.main.head).number
  }

  show(faults: Fault[]) {
    const { doc } = this.view.state
    const found = faults.map((each): Diagnostic => {
      const line = doc.line(Math.min(Math.max(each.line, 1), doc.lines))
      const from = this.positionOf(each.line, each.column)
      const end = /^[^\s,:}\]]+/.exec(doc.sliceString(from, line.to))?.[0].length ?? 0
      const severity = each.severity === 'error' || each.severity === 'warning' ? each.severity : 'info'
      const actions = each.patch ? [{ name: t().write.patch(each.patch.text), apply: () => this.patch(each.patch!) }] : []
      return { from, to: from + end, severity, source: each.code, message: [meaning('problems', each.code), each.message, each.fix].filter(Boolean).join('\n'), actions }
    })
    this.view.dispatch(setDiagnostics(this.view.state, found.sort((a, b) => a.from - b.from)))
  }

  /** Replace the part of a line that a problem is about, unless the line has changed since. */
  patch({ line, column, written, text }: NonNullable<Fault['patch']>) {
    const from = this.positionOf(line, column)
    const to = from + written.length
    this.view.focus()
    if (this.view.state.sliceDoc(from, to) !== written) return
    this.view.dispatch({ changes: { from, to, insert: text }, selection: { anchor: from + text.length }, scrollIntoView: true })
  }

  /** Return the position of a line and of a column in characters, of which some take two units of the text. */
  private positionOf(line: number, column: number): number {
    const { doc } = this.view.state
    const { from, text } = doc.line(Math.min(Math.max(line, 1), doc.lines))
    return from + [...text].slice(0, Math.max(column, 1) - 1).join('').length
  }

  goTo(line: number) {
    const at = this.view.state.doc.line(Math.min(Math.max(line, 1), this.view.state.doc.lines))
    this.view.dispatch({ selection: { anchor: at.from }, effects: EditorView.scrollIntoView(at.from, { y: 'center' }) })
    this.view.focus()
  }

  /** Insert an action after the one at the cursor. */
  insert(lines: string) {
    const { position, text } = insertionFor(this.view.state.doc.toString(), this.line, lines)
    const first = this.view.state.doc.lineAt(position).number + (text.startsWith('\n') ? 1 : 0)
    this.view.dispatch({ changes: { from: position, insert: text } })
    this.goTo(first)
  }

  destroy() {
    this.view.destroy()
  }
}
