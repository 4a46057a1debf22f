"""The state that a session stores between turns, and the values that turns exchange."""
