"""Search of memory units: one index for each owner, by words and by meaning, ranked by a linear model."""
