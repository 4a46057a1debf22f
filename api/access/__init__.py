"""Who may do what: keys, tokens, roles, limits."""
