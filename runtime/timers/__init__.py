"""Time in a session: when its waits end, its reminders are due, and its questions expire."""
