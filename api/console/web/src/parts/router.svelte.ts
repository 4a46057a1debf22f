// Addresses of the console: the first part of the path is the screen, the second what it shows.
import { t } from '../strings/index.svelte'
import { decoded } from './addresses'

function read() {
  const [screen = '', ...rest] = location.pathname.split('/').filter(Boolean).map(decoded)
  return { screen, place: rest.join('/'), query: new URLSearchParams(location.search) }
}

export const route = $state(read())
/** Whether the page has something that could not be saved: it does not go before the user has confirmed it. */
export const leaving = $state({ isUnsaved: false })
let shown = location.pathname + location.search

/** What the back button finds again of a page: how far it was scrolled, in pixels, and how many rows its list had. */
type Visit = { top?: number; rows?: number }

export const visit = (): Visit => history.state ?? {}
export const noteVisit = (changes: Visit) => history.replaceState({ ...visit(), ...changes }, '')

export function go(path: string, { replace = false } = {}) {
  if (replace) history.replaceState(null, '', path)
  else {
    noteVisit({ top: scrollY })
    history.pushState(null, '', path)
  }
  show()
}

/** Note in the address what the page shows, for a reload or a link; the page is not read again. */
export function noteQuery(name: string, value: string) {
  const query = new URLSearchParams(location.search)
  if ((query.get(name) ?? '') === value) return
  if (value) query.set(name, value)
  else query.delete(name)
  history.replaceState(history.state, '', query.size ? `${location.pathname}?${query}` : location.pathname)
  shown = location.pathname + location.search
}

function show() {
  shown = location.pathname + location.search
  Object.assign(route, read())
}

// also after a link within the page, such as to its content, which must not load the screen again
addEventListener('popstate', () => {
  if (shown === location.pathname + location.search) return
  if (leaving.isUnsaved && !confirm(t().leaveUnsaved)) return history.pushState(null, '', shown)
  show()
  scrollBack(visit().top ?? 0)
})

const SCROLL_MS = 10_000 // the longest time in which a page is read again
const OF_THE_READER = ['wheel', 'touchstart', 'pointerdown', 'keydown']
let stopScrolling = () => {}

/** Scroll to where the page was left, once it is that long again; not after the reader has begun to. */
function scrollBack(top: number) {
  stopScrolling()
  const sizes = new ResizeObserver(() => {
    if (document.documentElement.scrollHeight < top + innerHeight) return
    stopScrolling()
    scrollTo({ top })
  })
  sizes.observe(document.getElementById('app')!)
  const timer = setTimeout(() => stopScrolling(), SCROLL_MS)
  stopScrolling = () => {
    sizes.disconnect()
    clearTimeout(timer)
    for (const each of OF_THE_READER) removeEventListener(each, stopScrolling)
  }
  for (const each of OF_THE_READER) addEventListener(each, stopScrolling)
}

/** Follow links to these screens without loading the page again. */
export function followLinks(event: MouseEvent, screens: string[]) {
  const link = (event.target as Element | null)?.closest('a')
  if (!link || link.target || link.origin !== location.origin || link.hasAttribute('download')) return
  if (link.hash && link.pathname === location.pathname) return // within the page
  if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
  if (leaving.isUnsaved) return // the browser asks before it loads the other page
  if (!screens.includes(link.pathname.split('/')[1]!)) return
  event.preventDefault()
  go(link.pathname + link.search)
}
