/** Focus what the keyboard was at, or the content of the page if that is gone or disabled. */
export function returnFocus(to: Element | null | undefined) {
  if (to instanceof HTMLElement) to.focus()
  if (document.activeElement === document.body) document.getElementById('content')?.focus()
}
