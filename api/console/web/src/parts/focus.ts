/** Focus a control again that was disabled while its request was under way: what is disabled loses the focus. */
export function keepFocus() {
  let waiting: EventTarget | null = null
  const onChange = ({ target }: MutationRecord) => {
    if (!(target instanceof HTMLElement)) return
    const isDisabled = target.hasAttribute('disabled')
    if (isDisabled && target === document.activeElement) waiting = target // still, in some browsers
    if (isDisabled || target !== waiting) return
    waiting = null
    if (document.activeElement === document.body) target.focus({ preventScroll: true })
  }
  document.addEventListener('focusout', ({ target }) => {
    if (target instanceof HTMLElement && target.hasAttribute('disabled')) waiting = target
  })
  new MutationObserver((changes) => changes.forEach(onChange)).observe(document, { subtree: true, attributeFilter: ['disabled'] })
}

/** Focus what the keyboard was at, or the content of the page if that is gone or disabled. */
export function returnFocus(to: Element | null | undefined) {
  if (to instanceof HTMLElement) to.focus()
  if (document.activeElement === document.body) document.getElementById('content')?.focus()
}
