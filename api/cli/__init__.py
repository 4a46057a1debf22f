"""The command line: one file a group of commands, over the same code as the API."""
