"""Simulated traffic: random sessions that the engine runs and the store records, as on a server."""
