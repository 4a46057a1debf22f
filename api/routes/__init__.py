"""One file a group of routes."""
