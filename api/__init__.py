"""The edges: HTTP, command line and settings; the only place that knows everything below."""
