import { existsSync } from 'node:fs'
import { svelte } from '@sveltejs/vite-plugin-svelte'
import { defineConfig } from 'vite'

// the pages of the site; each has an entry of its own and shares what both use
const pages = ['index.html', 'chat.html'].filter((page) => existsSync(page))

export default defineConfig({
  plugins: [svelte()],
  build: {
    outDir: '../static',
    emptyOutDir: true,
    assetsInlineLimit: 0, // the content security policy permits no inline content
    modulePreload: { polyfill: false },
    sourcemap: false,
    rollupOptions: { input: pages },
  },
  server: { proxy: { '/api': 'http://127.0.0.1:8000' } },
})
