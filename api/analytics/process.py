"""Runs analytics jobs in worker processes: a few at a time, with limits, and killed when no request waits for them.

This is the server's side: it starts workers through a fork server, sends requests and receives answers.
"""

import asyncio
import itertools
import os
import signal
import socket
import subprocess
import sys
from asyncio import IncompleteReadError, StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog
from msgspec import Struct

from api.analytics.jobs import ANSWER_BYTES_MAX, EXIT_CODE, NUMBER, Done, Failed, Job, Said, WorkRequest
from api.background import within
from store.interface.errors import (
    AnalyticsUnreadable,
    DatabaseUnreadable,
    DiskFull,
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
GRACE_S = 2.0
"""Time for a job to report its own time-out, and for a killed process to end."""

log = structlog.get_logger()

_READ_BYTES = 1 << 20  # of an answer, before reading pauses until they are taken
_SEND_S = 10.0  # for a message to the fork server, which follows messages within milliseconds
_ROOT = Path(__file__).parents[2]  # the folder of the packages
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT")
"""Environment variables passed to workers; others may contain keys and addresses."""
_ERRORS: dict[str, type[StoreError]] = {
    kind.__name__: kind
    for kind in (
        AnalyticsUnreadable,
        DatabaseUnreadable,
        DiskFull,
        QueryRefused,
        QueryStopped,
        StoreBusy,
        StoreUnavailable,
    )
}

A = TypeVar("A", bound=Struct)


class Processes:
    """Runs jobs."""

    def __init__(self, processes_max: int = PROCESSES, *, wait_s: float = WAIT_S) -> None:
        self._free = asyncio.Semaphore(processes_max)
        self._wait_s = wait_s
        self._waiting = 0
        self._workers = WorkerProcesses()

    async def run(self, job: Job, answer: type[A], *, timeout_s: float) -> A:
        """Run a job and return its result. Cancellation ends the process.

        Raises StoreBusy if too many jobs run, QueryStopped if the job exceeds a limit, the StoreError of the job, and
        StoreUnavailable.
        """
        request = WorkRequest(job, cpu_s=int(timeout_s + GRACE_S) + 1)
        async with self._place():
            worker = await self._workers.start()
            try:
                error = QueryStopped(f"it took longer than {timeout_s:g} s and was stopped")
                async with within(timeout_s + GRACE_S, error):
                    done = await worker.ask(request)
            finally:
                await worker.end()  # before the place is free for another
        return msgspec.msgpack.decode(done.answer, type=answer)

    def close(self) -> None:
        """End all processes."""
        self._workers.close()

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """Wait for one of the places of running jobs. Raises StoreBusy."""
        if self._waiting >= WAITING_MAX:
            raise StoreBusy(f"{WAITING_MAX} queries are waiting already; try again later")
        self._waiting += 1
        try:
            error = StoreBusy(f"no running query ended within {self._wait_s:g} s; try again later")
            async with within(self._wait_s, error):
                await self._free.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._free.release()


class WorkerProcesses:
    """Starts worker processes. The first one also starts the fork server, which ends with this process."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._fork_server: _ForkServer | None = None

    async def start(self) -> "WorkerProcess":
        """Start a worker, which waits for its request."""
        own, of_worker = socket.socketpair()
        with of_worker:
            number = next(self._numbers)
            fork_server = self._fork_server = self._fork_server or _ForkServer()
            try:
                fork_server.send(number, of_worker)
            except OSError:  # it was killed
                fork_server.close()
                fork_server = self._fork_server = _ForkServer()
                fork_server.send(number, of_worker)
        reader, writer = await asyncio.open_unix_connection(sock=own, limit=_READ_BYTES)
        return WorkerProcess(number, fork_server, reader, writer)

    def close(self) -> None:
        """End the fork server, and with it all workers."""
        if self._fork_server is not None:
            self._fork_server.close()
            self._fork_server = None


class _ForkServer:
    """The process of fork_server.py, and the socket on which it takes messages."""

    def __init__(self) -> None:
        passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        self._messages, served = socket.socketpair()
        self._messages.settimeout(_SEND_S)
        with served:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "api.analytics.fork_server"],
                stdin=served.fileno(),
                stdout=subprocess.DEVNULL,
                env=passed_on | {"PYTHONPATH": str(_ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
                cwd="/",
            )

    def send(self, number: int, job: socket.socket) -> None:
        """Start the worker of a job. Raises OSError if the process has ended."""
        socket.send_fds(self._messages, [NUMBER.pack(number)], [job.fileno()])

    def kill(self, number: int) -> None:
        """Kill the worker of a job, if it still runs."""
        with suppress(OSError):  # the process has ended, and its workers with it
            self._messages.send(NUMBER.pack(number))

    def close(self) -> None:
        """Let the process end and take its workers along; kill it if it does not."""
        self._messages.close()
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class WorkerProcess(Struct, frozen=True):
    """One worker process, which handles one request."""

    number: int
    fork_server: _ForkServer
    answers: StreamReader
    requests: StreamWriter

    async def ask(self, request: WorkRequest) -> Done:
        """Send the request and return the answer. Raises StoreError."""
        with suppress(ConnectionError):  # then there is no answer either
            self.requests.write(msgspec.msgpack.encode(request))
            self.requests.write_eof()
            await self.requests.drain()
        content = await self._read()
        answer, code = content[: -EXIT_CODE.size], content[-EXIT_CODE.size :]
        try:
            reply: Said = msgspec.msgpack.decode(answer, type=Said)
        except msgspec.DecodeError:  # it has ended during the job, or while it answered
            (exit_code,) = EXIT_CODE.unpack(code) if len(code) == EXIT_CODE.size else (None,)
            log.warning("an analytics process ended unexpectedly", exit_code=exit_code)
            raise _why(exit_code) from None
        match reply:
            case Done():
                return reply
            case Failed(error=""):
                raise StoreUnavailable("an analytics job failed; see the log for the reason")
            case Failed():
                raise _ERRORS.get(reply.error, StoreUnavailable)(reply.message)

    async def _read(self) -> bytes:
        """Return the answer and the exit code, or nothing of an answer that is too long."""
        try:
            await self.answers.readexactly(ANSWER_BYTES_MAX)
        except IncompleteReadError as end:
            return end.partial
        except ConnectionError:
            return b""
        return EXIT_CODE.pack(1)

    async def end(self) -> None:
        """Kill the process if it runs, and wait until it has ended."""
        self.fork_server.kill(self.number)
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(GRACE_S):
                while await self.answers.read(_READ_BYTES):
                    pass
        self.requests.close()


def _why(code: int | None) -> QueryStopped:
    """Return the error for the exit code of a process that did not answer, or for none."""
    if code == -signal.SIGXCPU:
        return QueryStopped("it exceeded its time limit and was stopped")
    if code is None or code == -signal.SIGKILL:
        return QueryStopped("its process was killed, probably because the machine ran out of memory; try again")
    return QueryStopped("it failed: it needs more memory than its limit, or is nested too deeply")
