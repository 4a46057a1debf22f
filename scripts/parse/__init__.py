"""Parse a script's text into a checked Script: format detection, side files, folders, conversion."""
