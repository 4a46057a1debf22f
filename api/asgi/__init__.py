"""ASGI and wire formats: server-sent events, encoded slashes, HEAD and OPTIONS."""
