"""The session format: session, phases, topics, actions."""
