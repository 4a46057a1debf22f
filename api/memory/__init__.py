"""Memory over time: what joins its rows, its vectors and its models."""
