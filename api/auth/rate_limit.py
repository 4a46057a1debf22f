"""Limits how often a key, a participant or an address may do something."""

import math
import time

from cachetools import LRUCache

from api.errors import ApiError

BUCKETS_MAX = 10_000
"""Retained buckets, the most recently used; a dropped bucket starts full again."""


class RateLimiter:
    """Token buckets: each has the capacity of one minute and refills evenly."""

    def __init__(self, a_minute: int, setting: str) -> None:
        self._a_minute = a_minute
        self._setting = setting
        self.share(1)
        self._buckets: LRUCache[str, tuple[float, float]] = LRUCache(BUCKETS_MAX)  # tokens left, and at what time

    def share(self, servers: int) -> None:
        """Divide the limit by the number of servers."""
        self._capacity = max(1.0, self._a_minute / servers)
        self._a_second = self._capacity / 60

    def wait_s(self, name: str, now: float) -> float:
        """Take a token; return 0, or the seconds until one is available."""
        left, at = self._buckets.get(name, (self._capacity, now))
        left = min(self._capacity, left + (now - at) * self._a_second)
        wait_s = 0.0 if left >= 1 else (1 - left) / self._a_second
        self._buckets[name] = (left - 1 if left >= 1 else left, now)
        return wait_s

    def take(self, name: str, counted: str) -> None:
        """Take a token; `counted` says of what, in the plural. Raises ApiError RATE_LIMITED."""
        wait_s = self.wait_s(name, time.monotonic())
        if wait_s:
            message = f"too many {counted}: at most {int(self._capacity)} in a minute (`{self._setting}`)"
            raise ApiError("RATE_LIMITED", message, retry_after_s=math.ceil(wait_s))
