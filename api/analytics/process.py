"""Runs analytics jobs in worker processes: a few at a time, with limits, and killed when no request waits for them."""

import asyncio
import os
import signal
import sys
import time
from asyncio import IncompleteReadError, StreamReader, StreamWriter
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar, cast

import msgspec
import structlog
from msgspec import Struct

from api.analytics.jobs import ANSWER_BYTES_MAX, SPARE_S, Done, Failed, Job, Said, WorkRequest
from store.interface.errors import (
    AnalyticsUnreadable,
    DatabaseUnreadable,
    QueryRefused,
    QueryStopped,
    StoreBusy,
    StoreError,
    StoreUnavailable,
)

PROCESSES = 2
WAITING_MAX = 32
"""Maximum number of waiting jobs."""
WAIT_S = 10.0
MEMORY_BYTES = 1_000_000_000
GRACE_S = 2.0
"""Time for a job to report its own time-out, and for a killed process to end."""

A = TypeVar("A", bound=Struct)

log = structlog.get_logger()

_READ_BYTES = 1 << 20  # of an answer, before reading pauses until they are taken
_ROOT = Path(__file__).parents[2]  # the folder of the packages
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT")
"""Environment variables passed to workers; others may contain keys and addresses."""
_ERRORS: dict[str, type[StoreError]] = {
    kind.__name__: kind
    for kind in (AnalyticsUnreadable, DatabaseUnreadable, QueryRefused, QueryStopped, StoreBusy, StoreUnavailable)
}


class Processes:
    """Runs jobs. With `keeps_spare` a started process waits for the next job, which saves its start-up time."""

    def __init__(self, processes_max: int = PROCESSES, *, wait_s: float = WAIT_S, keeps_spare: bool = False) -> None:
        self._free = asyncio.Semaphore(processes_max)
        self._wait_s = wait_s
        self._waiting = 0
        self._keeps_spare = keeps_spare
        self._spare: _Worker | None = None

    async def run(
        self,
        job: Job,
        answer: type[A],
        *,
        timeout_s: float,
        memory_bytes_max: int = MEMORY_BYTES,
    ) -> A:
        """Run a job and return its result. Cancellation ends the process.

        Raises StoreBusy if too many jobs run, QueryStopped if the job exceeds a limit, the StoreError of the job, and
        StoreUnavailable.
        """
        request = WorkRequest(job, cpu_s=int(timeout_s + GRACE_S) + 1, memory_bytes_max=memory_bytes_max)
        async with self._place():
            worker = await self._take_spare() or await _start()
            try:
                async with asyncio.timeout(timeout_s + GRACE_S):
                    done = await worker.ask(request)
            except TimeoutError:
                raise QueryStopped(f"it took longer than {timeout_s:g} s and was stopped") from None
            finally:
                await worker.end()  # before the place is free for another
                await self._refill()
        return msgspec.msgpack.decode(done.answer, type=answer)

    async def close(self) -> None:
        """End the waiting process; running ones end with their requests."""
        self._keeps_spare = False
        if self._spare is not None:
            await self._spare.end()

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """Wait for one of the places of running jobs. Raises StoreBusy."""
        if self._waiting >= WAITING_MAX:
            raise StoreBusy(f"{WAITING_MAX} queries are waiting already; try again later")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._wait_s):
                await self._free.acquire()
        except TimeoutError:
            raise StoreBusy(f"no running query ended within {self._wait_s:g} s; try again later") from None
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._free.release()

    async def _take_spare(self) -> "_Worker | None":
        spare, self._spare = self._spare, None
        if spare is None or spare.is_fresh:
            return spare
        await spare.end()
        return None

    async def _refill(self) -> None:
        """Start the next process, if one is wanted."""
        if self._wants_spare():
            worker = await _start()
            if self._wants_spare():  # no other job has started one in the meantime
                self._spare = worker
            else:
                await worker.end()

    def _wants_spare(self) -> bool:
        return self._keeps_spare and self._spare is None


async def _start() -> "_Worker":
    """Start a worker process."""
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-P", "-m", "api.analytics.worker", str(os.getpid())),
        stdin=PIPE,
        stdout=PIPE,
        env=passed_on | {"PYTHONPATH": str(_ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd="/",
        limit=_READ_BYTES,
    )
    # With a lower priority turns get nine tenths of the CPU of a busy machine. With a still lower one short jobs would
    # not finish; long jobs lower theirs further (see worker.py).
    with suppress(OSError):  # the process has ended, or a container forbids it
        os.setpriority(os.PRIO_PROCESS, process.pid, 10)
    return _Worker(process)


class _Worker:
    """One worker process, which handles one request."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._started = time.monotonic()
        self._requests = cast(StreamWriter, process.stdin)
        self._answers = cast(StreamReader, process.stdout)

    @property
    def is_fresh(self) -> bool:
        """Return whether it waits for a request, and will wait long enough."""
        return self._process.returncode is None and time.monotonic() - self._started < SPARE_S / 2

    async def ask(self, request: WorkRequest) -> Done:
        """Send the request and return the answer. Raises StoreError."""
        with suppress(ConnectionError):  # then there is no answer either
            self._requests.write(msgspec.msgpack.encode(request))
            await self._requests.drain()
        self._requests.close()
        content = b""
        try:
            await self._answers.readexactly(ANSWER_BYTES_MAX)  # a longer answer is none
            self._process.kill()
        except IncompleteReadError as end:
            content = end.partial
        code = await self._process.wait()
        try:
            reply: Said = msgspec.msgpack.decode(content, type=Said)
        except msgspec.DecodeError:  # it has ended during the job, or while it answered
            log.warning("an analytics process ended unexpectedly", exit_code=code)
            raise _why(code) from None
        match reply:
            case Done():
                return reply
            case Failed(error=""):
                raise StoreUnavailable("an analytics job failed; see the log for the reason")
            case Failed():
                raise _ERRORS.get(reply.error, StoreUnavailable)(reply.message)

    async def end(self) -> None:
        """Kill the process if it runs."""
        self._requests.close()
        with suppress(ProcessLookupError):
            self._process.kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                await self._process.wait()


def _why(code: int) -> QueryStopped:
    """Return the error for an exit code without an answer."""
    if code == -signal.SIGXCPU:
        return QueryStopped("it exceeded its time limit and was stopped")
    if code == -signal.SIGKILL:
        return QueryStopped("its process was killed, probably because the machine ran out of memory; try again")
    return QueryStopped("it failed: it needs more memory than its limit, or is nested too deeply")
