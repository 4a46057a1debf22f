// The texts of reports in the language of the page: English is the server's, the others are those of `strings`.
import type { Schemas } from '../api/client'
import { language, type Language } from '../strings/index.svelte'
import zh from '../../../../analytics/report_texts.zh.json'

type Report = Schemas['ReportView']
type Parameter = Report['parameters'][number]
type Translation = {
  reports: Record<string, { title: string; says: string; parameters: Record<string, string> }>
  parameters: Record<string, { title: string; says: string }>
  choices: Record<string, string>
  columns: Record<string, string>
}
const translations: Partial<Record<Language, Translation>> = { zh }

const translation = () => translations[language()]

export function reportTitle(report: Report): string {
  return translation()?.reports[report.name]?.title ?? report.title
}

export function reportDescription(report: Report): string {
  return translation()?.reports[report.name]?.says ?? report.says
}

export function parameterTitle(parameter: Parameter): string {
  return translation()?.parameters[parameter.name]?.title ?? parameter.name.replaceAll('_', ' ')
}

/** A parameter such as `since` means something else in some reports. */
export function parameterDescription(report: Report, parameter: Parameter): string {
  const { reports, parameters } = translation() ?? {}
  return reports?.[report.name]?.parameters[parameter.name] ?? parameters?.[parameter.name]?.says ?? parameter.says
}

export function choiceTitle(choice: string): string {
  return translation()?.choices[choice] ?? choice
}

/** English pages show the name by which SQL knows the column. */
export function columnTitle(column: string): string {
  return translation()?.columns[column] ?? column
}

/** Return the values of all parameters of a report as texts: those that are given, else its defaults. */
export function valuesOf(report: Report, given: Record<string, string>): Record<string, string> {
  return Object.fromEntries(report.parameters.map((each) => [each.name, given[each.name] ?? String(each.default ?? '')]))
}

/** Return the values that a report needs: those that are not its defaults. */
export function givenOf(report: Report, values: Record<string, string>): Record<string, string> {
  const texts = report.parameters.map((each) => [each.name, String(values[each.name] ?? '').trim(), String(each.default ?? '')] as const)
  return Object.fromEntries(texts.filter(([, value, usual]) => value && value !== usual).map(([name, value]) => [name, value]))
}
