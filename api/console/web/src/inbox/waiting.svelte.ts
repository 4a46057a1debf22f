// How many sessions wait for a person: in the navigation and in the title of the page, whatever is shown.
import { api, dataOf } from '../api/client'

const EVERY_MS = 10_000 // browsers make it a minute while another tab is shown
const COUNT_MAX = 99

/** The number of sessions that wait, at most COUNT_MAX. */
export const waiting = $state({ count: 0 })

/** Count them again and again, until the function that is returned is called. */
export function watchWaiting() {
  const params = { query: { status: 'requested', limit: COUNT_MAX } } as const
  const read = async () => {
    const page = await api.GET('/api/hand-overs', { params }).then(dataOf).catch(() => null) // the screens report errors
    if (page) waiting.count = page.data.filter((each) => !each.hasEnded).length
  }
  void read()
  const timer = setInterval(read, EVERY_MS)
  return () => {
    clearInterval(timer)
    waiting.count = 0
  }
}
