"""The console: the pages for browsers, built from `web/` into `static/`."""
