"""Detectors as far as they need no model: their parts, how they judge what is said, and how they are checked."""
