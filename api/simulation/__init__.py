"""Traffic as visitors make it: random conversations, taken by the engine and kept as a server keeps them."""
