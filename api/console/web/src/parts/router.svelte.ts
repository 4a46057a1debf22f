// Addresses of the console: the first part of the path is the screen, the second what it shows.
import { t } from '../strings/index.svelte'
import { decoded } from './addresses'

function read() {
  const [screen = '', ...rest] = location.pathname.split('/').filter(Boolean).map(decoded)
  return { screen, place: rest.join('/'), query: new URLSearchParams(location.search) }
}

export const route = $state(read())
/** Whether the page has something that could not be saved: it does not go before the user has confirmed it. */
export const leaving = { isUnsaved: false }
let shown = location.pathname + location.search

export function go(path: string, { replace = false } = {}) {
  if (replace) history.replaceState(null, '', path)
  else history.pushState(null, '', path)
  show()
}

function show() {
  shown = location.pathname + location.search
  Object.assign(route, read())
}

// also after a link within the page, such as to its content, which must not load the screen again
addEventListener('popstate', () => {
  if (shown === location.pathname + location.search) return
  if (leaving.isUnsaved && !confirm(t().leaveUnsaved)) history.pushState(null, '', shown)
  else show()
})

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
