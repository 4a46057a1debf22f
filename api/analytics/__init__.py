"""Analytics: files with analytics tables, and the worker processes that run queries over them."""
