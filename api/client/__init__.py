"""The client of the HTTP API, asynchronous and synchronous; applications import it from `cuebook`."""
