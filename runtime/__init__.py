"""The machine: a script, a state and a reply become a new state and events. No database, no server."""
