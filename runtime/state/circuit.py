"""A circuit: after several failures in a row, a service is not called for a while, then tried once."""

from collections.abc import Callable
from typing import Literal, TypeAlias

FAILURES_MAX = 5  # in a row
PAUSE_S = 15.0

BreakerState: TypeAlias = Literal["closed", "open", "half-open"]


class Circuit:
    """Closed: all calls are made. Open: none is. Half-open, after the pause: one is, and its result decides."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = 0
        self._opened_at: float | None = None
        self._is_tried = False

    @property
    def state(self) -> BreakerState:
        """Return the current state."""
        if self._opened_at is None:
            return "closed"
        return "open" if self._clock() < self._opened_at + PAUSE_S else "half-open"

    def begin(self) -> bool:
        """Return whether a call may be made; `end` must follow if so."""
        state = self.state
        if state == "open" or (state == "half-open" and self._is_tried):
            return False
        self._is_tried = state == "half-open"
        return True

    def end(self, *, is_down: bool | None) -> None:
        """Count the result of a call; None if it says nothing about the service."""
        self._is_tried = False
        if is_down:
            self._failures += 1
            if self._failures >= FAILURES_MAX or self._opened_at is not None:
                self._opened_at = self._clock()
        elif is_down is not None:
            self._failures, self._opened_at = 0, None
