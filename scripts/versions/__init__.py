"""Two versions of a script: differences, breaking changes and renames."""
