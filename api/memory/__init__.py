"""Long-term memory in use: units from turns and from outside, what is recalled of them, and work off the turn."""
