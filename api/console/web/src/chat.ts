import { mount } from 'svelte'
import Chat from './chat/Chat.svelte'
import './parts/base.css'
import { applyTheme } from './parts/theme.svelte'

applyTheme()
if (window.parent !== window) {
  // in the frame of the widget: the page around it closes the frame
  window.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') window.parent.postMessage('cuebook.close', '*')
  })
}
mount(Chat, { target: document.getElementById('app')! })
