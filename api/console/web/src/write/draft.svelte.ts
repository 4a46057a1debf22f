// The text of one script as its author writes it: saved as a draft on the server, checked, published, shared.
import { api, ApiProblem, dataOf, type Schemas } from '../api/client'
import { newScript } from './snippets'

const SAVE_MS = 800 // after the last key
const CHECK_MS = 350
const CHECK_AGAIN_MS = 5_000 // after the server did not answer
export const CASE_SUFFIX = '.case.yaml'

export type Saving = 'saved' | 'waiting' | 'saving' | 'conflict' | 'failed'

export class Draft {
  text = $state('')
  files: Record<string, string> = $state({})
  saving: Saving = $state('saved')
  /** Whether the last save failed, also while it is tried again: only this page has the text. */
  hasFailed = $state(false)
  error: unknown = $state.raw(null)
  /** The last version, whose text the draft changes; null for a script without one. */
  version: Schemas['ScriptEntry'] | null = $state.raw(null)
  /** The version that new sessions run. */
  published: number | undefined = $state()
  problems: Schemas['ProblemView'][] = $state.raw([])
  outline: Schemas['Outline'] | null = $state.raw(null)
  report: Schemas['CaseReport'] | null = $state.raw(null)
  caseError = $state('') // why the cases could not be run
  isValid = $state(false)
  isChecked = $state(false)
  revision = $state(0) // 0: there is no draft
  private savedText = ''
  private unanswered = '' // the text of a save whose answer did not come
  private saveTimer = 0
  private checkTimer = 0
  private isDisposed = false
  private isWriting: Promise<boolean> | null = null

  constructor(readonly id: string) {}

  /** Whether the text differs from the last version. */
  get isChanged(): boolean {
    return this.version === null || this.revision > 0 || this.saving !== 'saved'
  }

  /** Whether the server has nothing of this script: it is new, or its address is wrong. */
  get isUnwritten(): boolean {
    return this.version === null && this.revision === 0 && this.saving === 'saved'
  }

  /** The id that the text names, if it is that of another script, of which it then becomes a version. */
  get otherScript(): string {
    const named = /^script:[ \t]+(["']?)([^"'\s#]+)\1/m.exec(this.text)?.[2] ?? this.id
    return named === this.id ? '' : named
  }

  /** The files with test cases. */
  get caseFiles(): string[] {
    return Object.keys(this.files).filter((name) => name.endsWith(CASE_SUFFIX))
  }

  get hasUnsaved(): boolean {
    return this.saving !== 'saved'
  }

  async load() {
    const versions = await api.GET('/api/scripts/{scriptId}/versions', { params: { path: { scriptId: this.id }, query: { limit: 200 } } })
    const stored = versions.response.status === 404 ? [] : dataOf(versions).data
    this.version = stored[0] ?? null
    this.published = stored.find((each) => each.status === 'published')?.version
    const found = await api.GET('/api/drafts/{draftId}', { params: { path: { draftId: this.id } } })
    if (found.response.status === 404) {
      await this.loadVersion()
    } else {
      const draft = dataOf(found)
      this.revision = draft.revision
      this.begin(draft.yamlContent, draft.files)
    }
  }

  /** Take the text of the last version, or of a new script. */
  private async loadVersion() {
    this.revision = 0
    if (!this.version) return this.begin(newScript(this.id), {})
    const path = { scriptId: this.id, version: this.version.version }
    const script = dataOf(await api.GET('/api/scripts/{scriptId}/versions/{version}', { params: { path } }))
    this.begin(script.yamlContent, script.files)
  }

  private begin(text: string, files: Record<string, string>) {
    this.text = text
    this.files = { ...files }
    this.savedText = this.whole
    this.saving = 'saved'
    this.hasFailed = false
    this.error = null
    void this.check()
  }

  private get whole(): string {
    return JSON.stringify([this.text, this.files])
  }

  /** Take a changed text; an empty `file` is the script's own. */
  edit(file: string, text: string) {
    if (file) this.files[file] = text
    else this.text = text
    if (this.saving !== 'conflict') this.saving = 'waiting'
    this.isChecked = false
    clearTimeout(this.saveTimer)
    clearTimeout(this.checkTimer)
    this.saveTimer = window.setTimeout(() => void this.save(), SAVE_MS)
    this.checkTimer = window.setTimeout(() => void this.check(), CHECK_MS)
  }

  removeFile(file: string) {
    const { [file]: _, ...rest } = this.files
    this.files = rest
    this.edit('', this.text)
  }

  /** Save what is not saved; return whether everything is. With `overwrites` also over the changes of somebody else. */
  async save(overwrites = false): Promise<boolean> {
    clearTimeout(this.saveTimer)
    while (this.isWriting) await this.isWriting
    if (this.whole === this.savedText && this.saving !== 'conflict') {
      this.saving = 'saved'
      this.hasFailed = false
      return true
    }
    if (this.saving === 'conflict' && !overwrites) return false
    this.isWriting = this.write(overwrites)
    const isSaved = await this.isWriting
    this.isWriting = null
    return isSaved && (this.whole === this.savedText || (await this.save()))
  }

  private async write(overwrites: boolean): Promise<boolean> {
    const whole = this.whole
    this.saving = 'saving'
    this.error = null
    try {
      const header = overwrites ? {} : { 'If-Match': `"${this.revision}"` }
      const saved = dataOf(
        await api.PUT('/api/drafts/{draftId}', {
          params: { path: { draftId: this.id }, header },
          body: { yamlContent: this.text, files: this.files, baseVersion: this.version?.version ?? null },
        }),
      )
      this.revision = saved.revision
      this.savedText = whole
      this.saving = this.whole === whole ? 'saved' : 'waiting'
      this.hasFailed = false
      return true
    } catch (problem) {
      const isConflict = problem instanceof ApiProblem && problem.code === 'DRAFT_CONFLICT'
      if (isConflict && (await this.isOwnSave())) return this.write(overwrites)
      if (!(problem instanceof ApiProblem)) this.unanswered = whole
      this.error = problem
      this.saving = isConflict ? 'conflict' : 'failed'
      this.hasFailed = true
      return false
    }
  }

  /** Return whether the draft is that of a save whose answer did not come; the next save then begins from it. */
  private async isOwnSave(): Promise<boolean> {
    if (!this.unanswered) return false
    const params = { path: { draftId: this.id } }
    const draft = await api.GET('/api/drafts/{draftId}', { params }).then(dataOf).catch(() => null)
    const isOwn = draft !== null && JSON.stringify([draft.yamlContent, draft.files]) === this.unanswered
    this.unanswered = ''
    if (isOwn) this.revision = draft.revision
    return isOwn
  }

  /** Drop the changes that are not published. */
  async discard() {
    if (this.revision) await this.deleteDraft(null)
    await this.load()
  }

  private async deleteDraft(revision: number | null) {
    const header = revision === null ? {} : { 'If-Match': `"${revision}"` }
    const answer = await api.DELETE('/api/drafts/{draftId}', { params: { path: { draftId: this.id }, header } })
    if (answer.response.status !== 404) dataOf(answer)
    this.revision = 0
  }

  private async check() {
    const whole = this.whole
    const body = { yamlContent: this.text || ' ', files: this.files }
    const found = await api.POST('/api/scripts/validate', { body }).then(dataOf).catch(() => null)
    if (whole !== this.whole || this.isDisposed) return // an edit checks again
    if (!found) {
      this.checkTimer = window.setTimeout(() => void this.check(), CHECK_AGAIN_MS)
      return
    }
    this.problems = found.diagnostics
    this.isValid = found.valid
    this.isChecked = true
    if (!found.valid) return
    const outline = await api.POST('/api/scripts/outline', { body }).then(dataOf).catch(() => null)
    if (outline && whole === this.whole) this.outline = outline
  }

  /** Run the test cases on the text as it is. */
  async runCases() {
    const whole = this.whole
    const body = { yamlContent: this.text || ' ', files: this.files }
    try {
      const report = dataOf(await api.POST('/api/scripts/test', { body }))
      if (whole === this.whole) [this.report, this.caseError] = [report, '']
    } catch (problem) {
      if (whole === this.whole) this.caseError = problem instanceof Error ? problem.message : String(problem)
    }
  }

  /** Store the text as a version, which new sessions run if it is published; return the version. */
  async store(publish: boolean): Promise<Schemas['ScriptView']> {
    if (!(await this.save())) throw this.error
    const revision = this.revision
    const body = { yamlContent: this.text, files: this.files, publish, tags: this.version?.tags ?? [] }
    const stored = dataOf(await api.POST('/api/scripts/import', { body }))
    if (publish && revision) await this.deleteDraft(revision)
    if (stored.scriptKey === this.id) {
      this.version = stored
      if (publish) this.published = stored.version
    }
    return stored
  }

  dispose() {
    this.isDisposed = true
    clearTimeout(this.saveTimer)
    clearTimeout(this.checkTimer)
    if (this.saving === 'waiting') void this.save()
  }
}
