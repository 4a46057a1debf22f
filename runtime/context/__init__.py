"""Context strategies: they select the part of a conversation that a model sees, without changing the transcript."""
