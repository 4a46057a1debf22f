"""Finds units of memory: one bank an owner, searched by words and by meaning, ranked by a linear model."""
