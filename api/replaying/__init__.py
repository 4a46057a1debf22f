"""Recorded sessions run again: as they were, or on another version of their script."""
