// What this browser stores for us. A private window, or a frame in a page of another site, may refuse it: then nothing
// is stored, and everything else works.

type Area = 'localStorage' | 'sessionStorage' // the latter lasts as long as the tab

export function stored(key: string, area: Area = 'localStorage'): string | null {
  try {
    return window[area].getItem(key)
  } catch {
    return null
  }
}

/** Keep a text under a key; null removes it. */
export function store(key: string, value: string | null, area: Area = 'localStorage') {
  try {
    if (value === null) window[area].removeItem(key)
    else window[area].setItem(key, value)
  } catch {
    return
  }
}
