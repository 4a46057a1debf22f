"""When a failed delivery is sent again, and for how long a receiver that is down is left alone."""

from datetime import datetime, timedelta
from random import Random

from api.webhooks.sender import DeliveryOutcome

DELAY_MAX_S = 21_600.0
DELAY_GROWTH = 4.0
JITTER = 0.2  # share of a delay, in either direction
FAILURES_MAX = 5  # consecutive failures before a pause
REST_MAX_S = 300.0
RESTS_OF_DELAY = 3.0  # length of the first pause in first delays


def delay_s(first_s: float, attempts: int, retry_after_s: float | None, chance: Random) -> float:
    """Return the seconds until the next attempt; 10 attempts with 5 s at first take about 20 hours."""
    usual = min(first_s * DELAY_GROWTH ** (attempts - 1), DELAY_MAX_S) * chance.uniform(1 - JITTER, 1 + JITTER)
    return max(usual, min(retry_after_s or 0.0, DELAY_MAX_S))


class Backoff:
    """The pauses of one webhook: after consecutive failures it pauses, then one delivery tests whether it is back."""

    def __init__(self, first_s: float) -> None:
        self.paused_until: datetime | None = None
        self._rest_s = first_s * RESTS_OF_DELAY
        self._next_rest_s = self._rest_s
        self._failures = 0

    def places(self, now: datetime, places_max: int) -> int:
        """Return how many deliveries may run."""
        if self.paused_until is not None and now < self.paused_until:
            return 0
        return 1 if self._failures >= FAILURES_MAX else places_max

    def note(self, outcome: DeliveryOutcome, now: datetime) -> None:
        """Update the state from the outcome of a delivery."""
        if not outcome.is_down:  # a response that rejects one delivery shows that the receiver is up
            self._failures, self._next_rest_s, self.paused_until = 0, self._rest_s, None
            return
        self._failures += 1
        was_paused = self.paused_until is not None and now < self.paused_until
        rest_s = min(outcome.retry_after_s or 0.0, DELAY_MAX_S)
        if self._failures >= FAILURES_MAX and not was_paused:
            rest_s = max(rest_s, self._next_rest_s)
            self._next_rest_s = min(2 * self._next_rest_s, REST_MAX_S)
        if rest_s:
            until = now + timedelta(seconds=rest_s)
            self.paused_until = until if self.paused_until is None else max(until, self.paused_until)
