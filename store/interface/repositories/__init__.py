"""The repositories of the store as protocols: each reads and writes one kind of data, in any database."""
