"""The language server of scripts (`cuebook lsp`): what `scripts.editing` knows, over the Language Server Protocol."""
