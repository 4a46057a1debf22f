"""Parse a script's text into a checked Script: format detection, include files, folders, conversion."""
