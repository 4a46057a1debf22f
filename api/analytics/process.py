"""Work for analysts in processes of their own: a few at a time, each bounded, and killed when nobody waits for it."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

import msgspec
import structlog
from msgspec import Struct

from api.analytics.jobs import SPARE_S, Done, Failed, Job, Order, Said, read_frame, write_frame
from store.errors import (
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
"""Jobs that may wait for a process."""
WAIT_S = 10.0
MEMORY_BYTES = 1_000_000_000
GRACE_S = 2.0
"""For a job with a time limit of its own to say that it is over, and for a process that was killed to be gone."""

A = TypeVar("A", bound=Struct)

log = structlog.get_logger()

_ROOT = Path(__file__).parents[2]  # where this very code is
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT")
"""Of the environment; keys and addresses are in the rest."""
_ERRORS: dict[str, type[StoreError]] = {
    kind.__name__: kind
    for kind in (AnalyticsUnreadable, DatabaseUnreadable, QueryRefused, QueryStopped, StoreBusy, StoreUnavailable)
}


class Processes:
    """Has jobs done. With `keeps_spare` a process waits for the next one: it need not start first."""

    def __init__(self, processes_max: int = PROCESSES, *, wait_s: float = WAIT_S, keeps_spare: bool = False) -> None:
        self._free = asyncio.Semaphore(processes_max)
        self._wait_s = wait_s
        self._waiting = 0
        self._spare = _Spare(is_kept=keeps_spare)
        self._pool = ThreadPoolExecutor(processes_max, thread_name_prefix="cuebook-analytics")

    async def run(
        self,
        job: Job,
        answer: type[A],
        *,
        timeout_s: float,
        memory_bytes_max: int = MEMORY_BYTES,
    ) -> A:
        """What a job comes to. Cancelled, it ends the process.

        Raises StoreBusy where too much is under way, QueryStopped where the job takes more than it may, the StoreError
        that the job raises, and StoreUnavailable.
        """
        order = Order(job, cpu_s=int(timeout_s + GRACE_S) + 1, memory_bytes_max=memory_bytes_max)
        loop = asyncio.get_running_loop()
        labour = _Labour(self._spare, order)
        await self._wait_for_place()
        working = loop.run_in_executor(self._pool, labour.do)
        working.add_done_callback(lambda _: self._free.release())  # not before the process is gone
        try:
            async with asyncio.timeout(timeout_s + GRACE_S):
                done = await asyncio.shield(working)
        except TimeoutError:
            raise QueryStopped(f"it took longer than {timeout_s:g} s and was stopped") from None
        finally:
            if not working.done():
                labour.stop()
                await asyncio.wait([working], timeout=GRACE_S)
            if working.done() and not working.cancelled():
                working.exception()  # looked at, so that asyncio does not report what nobody waits for
        return msgspec.msgpack.decode(done.answer, type=answer)

    async def close(self) -> None:
        """End the process that waits for a job; those under way end with who waits for them."""
        await asyncio.to_thread(self._spare.close)
        self._pool.shutdown(wait=False)

    async def _wait_for_place(self) -> None:
        if self._waiting >= WAITING_MAX:
            raise StoreBusy(f"{WAITING_MAX} queries are waiting already")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._wait_s):
                await self._free.acquire()
        except TimeoutError:
            raise StoreBusy(f"no query under way ended within {self._wait_s:g} s") from None
        finally:
            self._waiting -= 1


class _Process:
    """One process, which takes one order."""

    def __init__(self) -> None:
        kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        self._popen = subprocess.Popen(
            [sys.executable, "-P", "-m", "api.analytics.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=kept | {"PYTHONPATH": str(_ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
            cwd="/",
            process_group=0,  # Ctrl-C is for the one who waits; a session of its own would undo `_stand_back` on Linux
        )
        _stand_back(self._popen.pid)
        self._started = time.monotonic()
        self.orders = cast(BinaryIO, self._popen.stdin)
        self.answers = cast(BinaryIO, self._popen.stdout)

    @property
    def is_fresh(self) -> bool:
        """Whether it waits for an order, and does so for long enough yet."""
        return self._popen.poll() is None and time.monotonic() - self._started < SPARE_S / 2

    def kill(self) -> None:
        self._popen.kill()

    def end(self) -> int:
        """Its exit code, once it is gone; killed where it is not going by itself."""
        with suppress(BrokenPipeError):
            self.orders.close()
        self.answers.close()
        try:
            return self._popen.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            return self._popen.wait()


class _Spare:
    """The process that waits for the next order, if one is kept. It ends by itself when none comes for long."""

    def __init__(self, *, is_kept: bool) -> None:
        self._is_kept = is_kept
        self._lock = threading.Lock()
        self._process: _Process | None = None

    def take(self) -> _Process:
        """It, or a new one."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            if process.is_fresh:
                return process
            process.end()
        return _Process()

    def refill(self) -> None:
        """Start the next one, where none waits."""
        with self._lock:
            if self._is_kept and self._process is None:
                self._process = _Process()

    def close(self) -> None:
        """No more of them."""
        with self._lock:
            process, self._process, self._is_kept = self._process, None, False
        if process is not None:
            process.end()


class _Labour:
    """One order under way. `do` blocks; `stop` makes it end soon, from another thread."""

    def __init__(self, spare: _Spare, order: Order) -> None:
        self._spare = spare
        self._order = order
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._is_stopped = False

    def do(self) -> Done:
        """What comes of it. Raises StoreError."""
        process = self._spare.take()
        with self._lock:
            self._process = process
            if self._is_stopped:
                process.kill()
        try:
            with suppress(BrokenPipeError):  # then there is no answer either
                write_frame(process.orders, self._order)
            said = _heard(process)
        finally:
            with self._lock:
                self._process = None
            code = process.end()
            self._spare.refill()
        match said:
            case Done():
                return said
            case Failed(error=""):
                raise StoreUnavailable("work for an analyst failed; the log says why")
            case Failed():
                raise _ERRORS.get(said.error, StoreUnavailable)(said.message)
            case None:
                if not self._is_stopped:
                    log.warning("a process for analysts broke off", exit_code=code)
                raise _why(code)

    def stop(self) -> None:
        """End the process."""
        with self._lock:
            self._is_stopped = True
            if self._process is not None:
                self._process.kill()


def _heard(process: _Process) -> Done | Failed | None:
    """What it says; None where it ends without a word."""
    frame = read_frame(process.answers)
    return None if frame is None else msgspec.msgpack.decode(frame, type=Said)


def _stand_back(pid: int) -> None:
    """Have it come after turns, to which it leaves nine tenths of a busy machine.

    With less, short work would not end there; long work steps back further by itself (see worker.py).
    """
    with suppress(OSError):  # it is gone already, or a container forbids it
        os.setpriority(os.PRIO_PROCESS, pid, 10)


def _why(code: int) -> QueryStopped:
    """What an exit code without an answer means."""
    if code == -signal.SIGXCPU:
        return QueryStopped("it took more time than it may and was stopped")
    if code == -signal.SIGKILL:
        return QueryStopped("its process was killed from outside, as by a machine that runs out of memory; ask again")
    return QueryStopped("it broke off: it needs more memory than there may be, or is nested too deeply")
