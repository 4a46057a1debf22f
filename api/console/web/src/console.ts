import { mount } from 'svelte'
import './parts/base.css'
import { keepFocus } from './parts/focus'
import { applyTheme } from './parts/theme.svelte'
import Console from './screens/Console.svelte'

applyTheme()
keepFocus()
mount(Console, { target: document.getElementById('app')! })
