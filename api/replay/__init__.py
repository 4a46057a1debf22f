"""Replay of recorded sessions, on their own or another version of their script."""
