"""The session format of seed 004: session, phases, topics, actions."""
