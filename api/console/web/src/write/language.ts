// What may be written where: the keys, values and their meanings, from the schema of the language.
import url from './language.json?url'
import type { Place } from './place'

type Schema = {
  $ref?: string; title?: string; description?: string; type?: string | string[]; enum?: unknown[]; const?: unknown
  anyOf?: Schema[]; oneOf?: Schema[]; items?: Schema; properties?: Record<string, Schema>; additionalProperties?: Schema | boolean
}

/** A key or value that may be written, with its meaning. */
export type Offer = { label: string; detail: string }

const ACTIONS_MIN = 10 // a choice of so many kinds of mappings is that of an action

export class Language {
  private constructor(private definitions: Record<string, Schema>) {}

  static async load(): Promise<Language> {
    return new Language(await (await fetch(url)).json())
  }

  /** Return the keys that may be added at a place: for a new action the types of actions. */
  keysAt(place: Place): Offer[] {
    const kinds = this.kindsAt(place)
    if (kinds.length >= ACTIONS_MIN) return kinds.map((each) => ({ label: each.title ?? '', detail: each.description ?? '' }))
    const offers = new Map<string, string>()
    for (const [key, schema] of kinds.flatMap((each) => Object.entries(each.properties ?? {}))) {
      if (!place.beside.includes(key) && !offers.get(key)) offers.set(key, this.meaningOf(schema))
    }
    return [...offers].map(([label, detail]) => ({ label, detail }))
  }

  /** Return the values that a key at a place may have, as far as they are fixed. */
  valuesOf(place: Place, key: string): Offer[] {
    const found = this.kindsAt({ ...place, beside: [...place.beside, key] }).flatMap((each) => this.kindsOf(each.properties?.[key]))
    const values = found.flatMap((each) => each.enum ?? (each.const !== undefined ? [each.const] : each.type === 'boolean' ? [true, false] : []))
    return [...new Set(values)].filter((each) => each !== null).map((each) => ({ label: String(each), detail: '' }))
  }

  /** Return the meaning of a key at a place; empty if it has none. */
  meaningAt(place: Place, key: string): string {
    const own = this.kindsAt({ ...place, beside: [...place.beside, key] }).map((each) => each.properties?.[key]).find((each) => each)
    return own ? this.meaningOf(own) : ''
  }

  private meaningOf(schema: Schema): string {
    return schema.description ?? (schema.$ref ? (this.definitionOf(schema.$ref)?.description ?? '') : '')
  }

  /** Return the kinds of mappings at a place; those with all keys beside it, if there are any. */
  private kindsAt(place: Place): Schema[] {
    let kinds = this.kindsOf({ $ref: '#/$defs/Script' })
    for (const step of place.path) {
      kinds = kinds.flatMap((each) =>
        step === '[]' ? this.kindsOf(each.items) : this.kindsOf(each.properties?.[step] ?? valueOf(each)))
    }
    const mappings = kinds.filter((each) => each.properties)
    const fitting = mappings.filter((each) => place.beside.every((key) => each.properties![key]))
    return place.beside.length && fitting.length ? fitting : mappings
  }

  /** Return the alternatives of a schema, without references. */
  private kindsOf(schema: Schema | undefined, depth = 0): Schema[] {
    if (!schema || depth > 8) return []
    if (schema.$ref) return this.kindsOf(this.definitionOf(schema.$ref), depth + 1)
    const inner = schema.anyOf ?? (schema.properties ? undefined : schema.oneOf)
    return inner ? inner.flatMap((each) => this.kindsOf(each, depth + 1)) : [schema]
  }

  private definitionOf(reference: string): Schema | undefined {
    return this.definitions[reference.split('/').at(-1)!]
  }
}

function valueOf(schema: Schema): Schema | undefined {
  return typeof schema.additionalProperties === 'object' ? schema.additionalProperties : undefined
}
