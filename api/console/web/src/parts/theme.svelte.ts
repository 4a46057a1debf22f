import { store, stored } from './storage'

export type Theme = 'system' | 'light' | 'dark'

const KEY = 'cuebook.theme'
const chosen = stored(KEY)

export const theme = $state({ name: (chosen === 'light' || chosen === 'dark' ? chosen : 'system') as Theme })

export function applyTheme() {
  const root = document.documentElement
  if (theme.name === 'system') delete root.dataset.theme
  else root.dataset.theme = theme.name
}

export function setTheme(name: Theme) {
  theme.name = name
  store(KEY, name)
  applyTheme()
}

export const isDark = () =>
  theme.name === 'dark' || (theme.name === 'system' && matchMedia('(prefers-color-scheme: dark)').matches)
