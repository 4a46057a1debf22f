"""How often the tests that repeat something do so: kills of a process, examples of a property, random seeds.

`TEST_EFFORT` is a factor: `make test` sets 0.1, `make test-all` 1 and `make soak` 10.
"""

import os

EFFORT = float(os.environ.get("TEST_EFFORT", "1"))


def repeats(count: int) -> int:
    """Return how often to repeat what is repeated `count` times in `make test-all`; at least once."""
    return max(1, round(count * EFFORT))
