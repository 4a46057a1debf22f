"""When a delivery is tried again, and how long a receiver that is down is left alone."""

from datetime import datetime, timedelta
from random import Random

from api.webhooks.sending import Outcome

DELAY_MAX_S = 21_600.0
DELAY_GROWTH = 4.0
JITTER = 0.2  # of a delay, either way
FAILURES_MAX = 5  # in a row, then the receiver rests
REST_MAX_S = 300.0
RESTS_OF_DELAY = 3.0  # how much longer the first rest is than the first delay


def delay_s(first_s: float, attempts: int, retry_after_s: float | None, chance: Random) -> float:
    """How long to wait after so many attempts; 10 of them with 5 s at first take about 20 hours."""
    usual = min(first_s * DELAY_GROWTH ** (attempts - 1), DELAY_MAX_S) * chance.uniform(1 - JITTER, 1 + JITTER)
    return max(usual, min(retry_after_s or 0.0, DELAY_MAX_S))


class Pace:
    """Of one receiver: after failures in a row it rests, then a single delivery tries whether it is back."""

    def __init__(self, first_s: float) -> None:
        self.resting_until: datetime | None = None
        self._rest_s = first_s * RESTS_OF_DELAY
        self._next_rest_s = self._rest_s
        self._failures = 0

    def places(self, now: datetime, places_max: int) -> int:
        """How many deliveries may be under way."""
        if self.resting_until is not None and now < self.resting_until:
            return 0
        return 1 if self._failures >= FAILURES_MAX else places_max

    def note(self, outcome: Outcome, now: datetime) -> None:
        """Learns from what came of a delivery."""
        if not outcome.is_down:  # an answer that refuses one delivery is an answer
            self._failures, self._next_rest_s, self.resting_until = 0, self._rest_s, None
            return
        self._failures += 1
        was_resting = self.resting_until is not None and now < self.resting_until
        rest_s = min(outcome.retry_after_s or 0.0, DELAY_MAX_S)
        if self._failures >= FAILURES_MAX and not was_resting:
            rest_s = max(rest_s, self._next_rest_s)
            self._next_rest_s = min(2 * self._next_rest_s, REST_MAX_S)
        if rest_s:
            until = now + timedelta(seconds=rest_s)
            self.resting_until = until if self.resting_until is None else max(until, self.resting_until)
