"""The circuit breaker: after several failures in a row, an endpoint is not called for a while, then tried once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

from runtime.models.hosted.failures import AttemptFailure

FAILURES_MAX = 5  # in a row
PAUSE_S = 15.0

BreakerState: TypeAlias = Literal["closed", "open", "half-open"]


class Breaker:
    """Closed: all calls are made. Open: none is. Half-open, after the pause: one is, and its result decides."""

    def __init__(self, clock: Callable[[], float], failures_max: int = FAILURES_MAX, pause_s: float = PAUSE_S) -> None:
        self._clock = clock
        self._failures_max = failures_max
        self._pause_s = pause_s
        self._failures = 0
        self._cause = ""  # the kind of the first failure in the row
        self._opened_at: float | None = None
        self._is_tried = False

    @property
    def state(self) -> BreakerState:
        """Return the current state."""
        if self._opened_at is None:
            return "closed"
        return "open" if self._clock() < self._opened_at + self._pause_s else "half-open"

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Guard one call. Raises AttemptFailure `resting` if the call is not made; its cause is the first failure."""
        state = self.state
        if state == "open" or (state == "half-open" and self._is_tried):
            raise AttemptFailure("resting", cause=self._cause)
        self._is_tried = state == "half-open"
        try:
            yield
        except AttemptFailure as failure:
            if failure.meaning.down:
                self._failed(failure)
            else:
                self._answered()
            raise
        else:
            self._answered()
        finally:
            if state == "half-open":
                self._is_tried = False

    def _failed(self, failure: AttemptFailure) -> None:
        self._failures += 1
        self._cause = self._cause or failure.kind
        if self._failures >= self._failures_max or self._opened_at is not None:
            self._opened_at = self._clock()

    def _answered(self) -> None:
        """Close the breaker: an endpoint that refuses a request is not down."""
        self._failures, self._cause, self._opened_at = 0, "", None
