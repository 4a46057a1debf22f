"""How many requests there may be: a bucket of tokens for each key, or address, in memory.

Litestar's own limiter keeps a list of times for each client as JSON, reads and writes all of it with every request
under one lock, and forgets no client.
"""

from collections import OrderedDict

BUCKETS_MAX = 10_000
"""Those used last; one that was let go begins full again."""


class Rates:
    """The buckets: each holds what a minute may take, and fills up evenly."""

    def __init__(self, a_minute: int) -> None:
        self._capacity = float(a_minute)
        self._a_second = a_minute / 60
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what is left, and when that was

    def wait_s(self, name: str, now: float) -> float:
        """Takes a token; 0 if there was one, else the seconds until there is."""
        left, at = self._buckets.get(name, (self._capacity, now))
        left = min(self._capacity, left + (now - at) * self._a_second)
        wait_s = 0.0 if left >= 1 else (1 - left) / self._a_second
        self._buckets[name] = (left - 1 if left >= 1 else left, now)
        self._buckets.move_to_end(name)
        if len(self._buckets) > BUCKETS_MAX:
            self._buckets.popitem(last=False)
        return wait_s
