"""The circuit breaker of an endpoint: after several failures in a row, it is not called for a while."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from runtime.models.hosted.failures import AttemptFailure
from runtime.state.circuit import BreakerState, Circuit


class Breaker:
    """Guards the calls of one endpoint."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._circuit = Circuit(clock)
        self._cause = ""  # the kind of the first failure in the row

    @property
    def state(self) -> BreakerState:
        """Return the current state."""
        return self._circuit.state

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Guard one call. Raises AttemptFailure `resting` if the call is not made; its cause is the first failure."""
        if not self._circuit.begin():
            raise AttemptFailure("resting", cause=self._cause)
        is_down: bool | None = None
        try:
            yield
            is_down = False
        except AttemptFailure as failure:
            is_down = failure.meaning.down
            if is_down:
                self._cause = self._cause or failure.kind
            raise
        finally:
            if is_down is False:  # an endpoint that refuses a request is not down
                self._cause = ""
            self._circuit.end(is_down=is_down)
