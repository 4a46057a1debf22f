import { mount } from 'svelte'
import Chat from './chat/Chat.svelte'
import './parts/base.css'
import { applyTheme } from './parts/theme.svelte'

applyTheme()
mount(Chat, { target: document.getElementById('app')! })
