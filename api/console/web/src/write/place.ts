// Where a line of a script is: by the indents, so that a text with errors has places too.

/** The keys that lead to the mapping at a line, the outermost first, with `[]` for an item; and the keys beside it. */
export type Place = { path: string[]; beside: string[] }

type Line = { dash: number | null; indent: number; key: string }

const LINE = /^(\s*)((?:-\s+)*)(?:["']?([^\s#:"'{[][^:#"'{[]*?)["']?\s*:(?=\s|$))?/

/** Return the position of the last dash that begins an item, and of the key after it; null for a blank line. */
function parse(text: string): Line | null {
  if (!text.trim() || text.trimStart().startsWith('#')) return null
  const [, spaces = '', dashes = '', key = ''] = LINE.exec(text)!
  const dash = dashes ? spaces.length + dashes.trimEnd().length - 1 : null
  return { dash, indent: spaces.length + dashes.length, key }
}

/** Return the place of a line, counted from 0, in the lines of a text. */
export function placeOf(lines: string[], index: number): Place {
  const at = parse(lines[index]!) ?? { dash: null, indent: lines[index]!.length, key: '' }
  const place: Place = { path: [], beside: keysBelow(lines, index, at.indent) }
  let isBeside = true // the lines above are still those of the same mapping
  let wanted = { inList: at.dash !== null, indent: at.dash ?? at.indent }
  if (at.dash !== null) {
    place.path.unshift('[]')
    isBeside = false
  }
  for (let above = index - 1; above >= 0; above--) {
    const line = parse(lines[above]!)
    if (!line) continue
    if (wanted.inList) {
      if (line.dash === wanted.indent || line.indent > wanted.indent) continue
      if (!line.key) continue
    } else if (line.indent > wanted.indent) {
      continue
    } else if (line.indent === wanted.indent) {
      if (isBeside && line.key) place.beside.push(line.key)
      if (line.dash === null) continue
      place.path.unshift('[]')
      isBeside = false
      wanted = { inList: true, indent: line.dash }
      continue
    } else if (!line.key) {
      continue
    }
    place.path.unshift(line.key) // the mapping or list is the value of this key
    isBeside = false
    if (line.dash !== null) place.path.unshift('[]')
    wanted = { inList: line.dash !== null, indent: line.dash ?? line.indent }
  }
  return place
}

/** Return the keys of the same mapping on the lines below. */
function keysBelow(lines: string[], index: number, indent: number): string[] {
  const found: string[] = []
  for (let below = index + 1; below < lines.length; below++) {
    const line = parse(lines[below]!)
    if (!line || line.indent > indent) continue
    if (line.indent < indent || line.dash !== null) break
    if (line.key) found.push(line.key)
  }
  return found
}
