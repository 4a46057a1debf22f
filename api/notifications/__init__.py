"""Reminders to people whose page is closed."""
