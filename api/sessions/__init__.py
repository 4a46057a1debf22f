"""Sessions: submitting turns, live turns, caching, views, history, search and statistics."""
