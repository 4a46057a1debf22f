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
      // the pages of the site share what both use; the widget and the worker are files at addresses that stay
      input: { index: 'index.html', chat: 'chat.html', widget: 'src/widget.ts', push: 'src/push.ts' },
      output: { entryFileNames: ({ name }) => (name === 'widget' || name === 'push' ? `${name}.js` : 'assets/[name]-[hash].js') },
    },
  },
  server: { proxy: { '/api': 'http://127.0.0.1:8000' } },
})
