"""The routes, one module per group."""
