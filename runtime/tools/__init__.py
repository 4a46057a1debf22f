"""Tools for turns: replacements that reach nothing, and the checks of results that all have in common."""
