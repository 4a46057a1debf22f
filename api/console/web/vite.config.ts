import { svelte } from '@sveltejs/vite-plugin-svelte'
import { defineConfig } from 'vite'

export default defineConfig({
  plugins: [svelte()],
  build: {
    outDir: '../static',
    emptyOutDir: true,
    assetsInlineLimit: 0, // the content security policy permits no inline content
    modulePreload: { polyfill: false },
    sourcemap: false,
    rollupOptions: {
      // the pages of the site share what both use; the widget is one file at an address that stays
      input: { index: 'index.html', chat: 'chat.html', widget: 'src/widget.ts' },
      output: { entryFileNames: ({ name }) => (name === 'widget' ? 'widget.js' : 'assets/[name]-[hash].js') },
    },
  },
  server: { proxy: { '/api': 'http://127.0.0.1:8000' } },
})
