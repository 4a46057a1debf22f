import { mount } from 'svelte'
import './parts/base.css'
import { applyTheme } from './parts/theme.svelte'
import Console from './screens/Console.svelte'

applyTheme()
mount(Console, { target: document.getElementById('app')! })
