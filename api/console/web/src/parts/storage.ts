// What this browser stores for us. A private window, or a frame in a page of another site, may refuse it: then nothing
// is stored, and everything else works.

export function stored(key: string): string | null {
  try {
    return localStorage.getItem(key)
  } catch {
    return null
  }
}

/** Keep a text under a key; null removes it. */
export function store(key: string, value: string | null) {
  try {
    if (value === null) localStorage.removeItem(key)
    else localStorage.setItem(key, value)
  } catch {
    return
  }
}
