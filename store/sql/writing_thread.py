"""A thread that writes: writes wait in its queue, it takes all that wait at once, and answers their callers."""

import asyncio
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import structlog

from store.interface.admission import Entry, ProposedTurn
from store.interface.debug_logging import is_debugging
from store.interface.errors import StoreBusy, StoreError, StoreUnavailable

QUEUE_MAX = 4_096
"""Maximum number of queued writes; in groups of 64, they take about half a second."""
GROUP_MAX = 256
"""Maximum number of writes that are taken at once; more would delay the first one for little gain."""
CLOSE_TIMEOUT_S = 30.0

log = structlog.get_logger()

J = TypeVar("J")


class WritingThread(ABC, Generic[J]):
    """The queue and the thread. A subclass starts the thread when it is ready, and writes the jobs in `_drain`."""

    def __init__(self, name: str) -> None:
        self._queue: queue.SimpleQueue[J | None] = queue.SimpleQueue()
        self._is_closed = False
        self._working_since: float | None = None
        self._thread = threading.Thread(target=self._drain, name=name, daemon=True)

    @property
    def lag_s(self) -> float:
        """Seconds since the writing of the current group began; 0 when idle. Grows without limit if the disk hangs."""
        since = self._working_since
        return 0.0 if since is None else time.monotonic() - since

    @property
    def waiting(self) -> int:
        """The approximate number of writes that wait for the thread."""
        return self._queue.qsize()

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    async def close(self) -> None:
        """Write the queued writes, end the thread. Raises StoreUnavailable after CLOSE_TIMEOUT_S."""
        self._is_closed = True  # set in the event loop, so that nothing is queued after the end marker
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        self._queue.put(None)
        self._thread.join(CLOSE_TIMEOUT_S)
        if self._thread.is_alive():
            raise StoreUnavailable(f"the writer did not end within {CLOSE_TIMEOUT_S:.0f} s")

    def _submit(self, job: J) -> None:
        """Queue a job. Raises StoreBusy, StoreUnavailable."""
        if self._is_closed or not self._thread.is_alive():
            raise StoreUnavailable("the database is closed")
        if self._queue.qsize() >= QUEUE_MAX:
            raise StoreBusy(f"{QUEUE_MAX} writes are already waiting")
        self._queue.put(job)

    def _next_jobs(self, timeout_s: float) -> tuple[list[J], bool]:
        """Wait for jobs; return all that wait, none after `timeout_s`, and whether the thread must end after them."""
        jobs: list[J] = []
        try:
            job = self._queue.get(timeout=timeout_s)
            while job is not None:
                jobs.append(job)
                if len(jobs) == GROUP_MAX:
                    return jobs, False
                job = self._queue.get_nowait()
        except queue.Empty:
            return jobs, False
        return jobs, True

    def _log_group(self, entries: Sequence[Entry], outcomes: Sequence[object]) -> None:
        """Log a group of turns and calls, and the milliseconds since its writing began."""
        if is_debugging():
            log.debug(
                "a group was committed",
                writes=len(entries),
                turns=sum(isinstance(entry, ProposedTurn) for entry in entries),
                refused=sum(isinstance(outcome, StoreError) for outcome in outcomes),
                waiting=self.waiting,
                ms=round(self.lag_s * 1_000, 1),
            )

    @abstractmethod
    def _drain(self) -> None:
        """Write the queued jobs until the queue is closed. Runs in the thread."""


Outcome: TypeAlias = tuple[asyncio.Future[Any], object]
"""The future of a write, and its result or StoreError."""


def answer(outcomes: Iterable[Outcome]) -> None:
    """Resolve the futures of a group of writes, with one wake-up of each event loop for all of its callers."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Outcome]] = {}
    for done, outcome in outcomes:
        by_loop.setdefault(done.get_loop(), []).append((done, outcome))
    for loop, answers in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, answers)
        except RuntimeError:  # the loop was closed, so no caller waits
            continue


def _resolve(answers: list[Outcome]) -> None:
    for done, outcome in answers:
        if done.done():  # its caller was cancelled
            continue
        if isinstance(outcome, StoreError):
            done.set_exception(outcome)
        else:
            done.set_result(outcome)
