const RIGHT_TO_LEFT = new Set(['ar', 'arc', 'ckb', 'dv', 'fa', 'he', 'iw', 'ks', 'ps', 'sd', 'ug', 'ur', 'yi'])
const RIGHT_TO_LEFT_SCRIPTS = /-(Adlm|Arab|Hebr|Mand|Nkoo|Rohg|Samr|Syrc|Thaa)\b/i

/** Return the direction in which a language is written; browsers do not agree on `Intl.Locale` for it yet. */
export function directionOf(locale: string): 'rtl' | 'ltr' {
  const hasScript = /^[a-z]+-[a-z]{4}\b/i.test(locale)
  const isRightToLeft = hasScript
    ? RIGHT_TO_LEFT_SCRIPTS.test(locale)
    : RIGHT_TO_LEFT.has(locale.split('-')[0]!.toLowerCase())
  return isRightToLeft ? 'rtl' : 'ltr'
}
