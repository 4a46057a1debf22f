"""HTTP API, command line and settings: the top layer, which depends on all other packages."""
