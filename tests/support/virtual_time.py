"""An event loop whose clock jumps to the next timer: hours pass at once, and a seeded run repeats exactly."""

import asyncio
import selectors
from collections.abc import Callable
from typing import Any


class JumpingSelector(selectors.SelectSelector):
    """A selector that advances a clock instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        """Return the ready files at once. Raises RuntimeError if nothing could ever happen."""
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("every task waits, and no timer is set")
        if not ready and timeout is not None:
            self.now += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time. What would run in another thread runs at once, in this one."""

    def __init__(self) -> None:
        self._clock = JumpingSelector()
        super().__init__(self._clock)

    def time(self) -> float:
        """Return the seconds since the loop was created."""
        return self._clock.now

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Call `func` now; return a future that is done."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  # passed on to the task that awaits the future
            future.set_exception(error)
        return future
