export type Theme = 'system' | 'light' | 'dark'

const KEY = 'cuebook.theme'
const stored = localStorage.getItem(KEY)

export const theme = $state({ name: (stored === 'light' || stored === 'dark' ? stored : 'system') as Theme })

export function applyTheme() {
  const root = document.documentElement
  if (theme.name === 'system') delete root.dataset.theme
  else root.dataset.theme = theme.name
}

export function setTheme(name: Theme) {
  theme.name = name
  localStorage.setItem(KEY, name)
  applyTheme()
}
