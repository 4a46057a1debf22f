"""The one typed model of a script, whatever format it was written in."""
