// A button in a corner of any page that opens the chat page of a link, by
// <script src="https://SERVER/widget.js" data-link="LINK" defer></script>. The conversation is in a frame, which scripts
// and styles of the page do not reach into; the button is in a shadow root for the same reason.
{
  const WIDE = 'min(24rem, calc(100vw - 2rem))'
  const TALL = 'min(40rem, calc(100dvh - 6rem))'
  const STYLE = `
    :host { all: initial; }
    button { font: 600 15px/1.3 system-ui, sans-serif; cursor: pointer; border: 0; border-radius: 99px; min-height: 48px;
      padding: 0 1.3rem; background: #3049c4; color: #fff; box-shadow: 0 2px 10px rgb(0 0 0 / 30%); }
    button:focus-visible { outline: 3px solid #9fb0ff; outline-offset: 2px; }
    button, .panel { position: fixed; bottom: 1rem; inset-inline-end: 1rem; z-index: 2147483000; }
    .start button, .start .panel { inset-inline: 1rem auto; }
    .panel { bottom: 5rem; width: ${WIDE}; height: ${TALL}; border: 1px solid rgb(128 128 128 / 50%); border-radius: 12px;
      overflow: hidden; box-shadow: 0 4px 24px rgb(0 0 0 / 30%); background: Canvas; color-scheme: light dark; }
    .panel[hidden] { display: none; }
    iframe { width: 100%; height: 100%; border: 0; }
    @media (max-width: 30rem) {
      .panel, .start .panel { inset: 0 0 5rem 0; width: auto; height: auto; border-radius: 0; border: 0; }
    }
  `

  /** Add the button to the page. `script` has the link and the words of the button. */
  const addWidget = (script: HTMLScriptElement, link: string) => {
    const { label = 'Chat', closeLabel = 'Close', side = 'end' } = script.dataset
    const host = document.createElement('div')
    const root = host.attachShadow({ mode: 'open' })
    const sheet = new CSSStyleSheet() // a style element may be forbidden by the policy of the page
    sheet.replaceSync(STYLE)
    root.adoptedStyleSheets = [sheet]
    const place = document.createElement('div')
    place.className = side === 'start' ? 'start' : ''
    const panel = document.createElement('div')
    panel.className = 'panel'
    panel.hidden = true
    const button = document.createElement('button')
    place.append(panel, button)
    root.append(place)
    const frame = document.createElement('iframe')
    frame.title = label
    frame.referrerPolicy = 'no-referrer'

    function show(isOpen: boolean) {
      if (isOpen && !frame.src) {
        frame.src = new URL(`/chat/${encodeURIComponent(link)}`, script.src).href
        panel.append(frame)
      }
      panel.hidden = !isOpen
      button.textContent = isOpen ? closeLabel : label
      button.setAttribute('aria-expanded', String(isOpen))
      if (isOpen) frame.focus()
      else if (document.activeElement === host) button.focus()
    }

    button.addEventListener('click', () => show(panel.hidden))
    root.addEventListener('keydown', (event) => (event as KeyboardEvent).key === 'Escape' && show(false))
    window.addEventListener('message', (event) => {
      if (event.source === frame.contentWindow && event.data === 'cuebook.close') show(false)
    })
    show(false)
    document.body.append(host)
  }

  const script = document.currentScript
  if (script instanceof HTMLScriptElement && script.dataset.link) {
    const link = script.dataset.link
    if (document.body) addWidget(script, link)
    else document.addEventListener('DOMContentLoaded', () => addWidget(script, link))
  } else {
    console.error('widget.js needs the link to open: <script src="…/widget.js" data-link="LINK" defer></script>')
  }
}
