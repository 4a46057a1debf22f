import { tick } from 'svelte'

/** A reader who is further up than this, in pixels, is not moved when something is said. */
export const NEAR_PX = 160

/** Whether an element shows its end, or nearly. */
export const isNearEnd = (element: Element) => element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_PX

/** Add what comes before what an element shows; what was read stays where it is. */
export async function keepPlace(element: Element, add: () => Promise<unknown>) {
  const below = element.scrollHeight - element.scrollTop
  await add()
  await tick()
  element.scrollTo({ top: element.scrollHeight - below })
}
