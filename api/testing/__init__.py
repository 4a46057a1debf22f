"""Tools that exercise scripts: test cases, the player, prompt preview and simulation."""
