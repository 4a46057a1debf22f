// Texts of the pages in the languages of the console; a text that a language lacks does not compile.
import { store, stored } from '../parts/storage'
import { en, type Strings } from './en'
import { zh } from './zh'

export const languages = { en, zh }
export type Language = keyof typeof languages

const KEY = 'cuebook.language'

function first(): Language {
  const name = stored(KEY)
  if (name === 'en' || name === 'zh') return name
  return navigator.languages.find((name) => /^(en|zh)\b/.test(name))?.startsWith('zh') ? 'zh' : 'en'
}

const chosen = $state({ language: first() })

/** Return the texts of the chosen language. */
export function t(): Strings {
  return languages[chosen.language]
}

export function language(): Language {
  return chosen.language
}

function show(name: Language) {
  chosen.language = name
  document.documentElement.lang = name
}

export function setLanguage(name: Language) {
  show(name)
  store(KEY, name)
}

document.documentElement.lang = chosen.language

/** Show a page in the language of a locale, if it is one of ours, without choosing it for other visits. */
export function showIn(locale: string) {
  const name = locale.split('-')[0]
  if (name === 'en' || name === 'zh') show(name)
}

type Meanings = { problems: Record<string, string>; errors: Record<string, string> }
let meanings: Meanings | undefined = $state.raw()
let reading: Promise<void> | undefined

/** Return what a problem of a script, or an error of the server, means in the chosen language, and what to do. Empty in
 * English, whose words come from the server, and until the texts are read. */
export function meaning(kind: keyof Meanings, code: string): string {
  if (chosen.language === 'en') return ''
  reading ??= import('./meanings.zh.json').then((file) => void (meanings = file.default), () => void (reading = undefined))
  return meanings?.[kind][code] ?? ''
}

export function timeText(value: string | null | undefined): string {
  if (!value) return ''
  return new Intl.DateTimeFormat(chosen.language, { dateStyle: 'medium', timeStyle: 'short' }).format(new Date(value))
}

/** Return a number of bytes in megabytes, or in gigabytes. */
export function bytesText(count: number): string {
  const [size, unit] = count < 1e9 ? [count / 1e6, 'MB'] : [count / 1e9, 'GB']
  return `${size.toLocaleString(chosen.language, { maximumFractionDigits: 1 })} ${unit}`
}

/** Return a score with two decimals, or if it is smaller than these show, with two significant digits. */
export function scoreText(score: number): string {
  const digits = Math.abs(score) < 0.1 ? { maximumSignificantDigits: 2 } : { minimumFractionDigits: 2, maximumFractionDigits: 2 }
  return score.toLocaleString(chosen.language, digits)
}
