"""Files of a server besides its database: written completely or not at all, its keys, its settings."""
