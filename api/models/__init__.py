"""Language models of a server: the configured ones, the journal of their calls, their usage and budgets."""
