"""The format of a detector in a file of its own, with examples."""
