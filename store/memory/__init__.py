"""Storage of long-term memory."""
