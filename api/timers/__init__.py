"""Timers: what sessions do by themselves, when it is due, and the scheduler that lets it happen."""
