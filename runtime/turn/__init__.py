"""One turn: its context, model calls, budgets, streamed text, recall and validation."""
