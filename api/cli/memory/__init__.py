"""``cuebook memory``: the commands for memories, one module per group of commands."""
