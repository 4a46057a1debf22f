"""The command line: one module per group of commands, on top of the API's own code."""
