"""Runs analytics jobs in worker processes: a few at a time, with limits, and killed when no request waits for them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec
from msgspec import Struct

from api.analytics.jobs import Job, WorkRequest
from api.analytics.worker_process import GRACE_S, WorkerProcesses
from store.interface.errors import QueryStopped, StoreBusy

PROCESSES = 2
WAITING_MAX = 32
"""Maximum number of waiting jobs."""
WAIT_S = 10.0
MEMORY_BYTES = 1_000_000_000
A = TypeVar("A", bound=Struct)


class Processes:
    """Runs jobs."""

    def __init__(self, processes_max: int = PROCESSES, *, wait_s: float = WAIT_S) -> None:
        self._free = asyncio.Semaphore(processes_max)
        self._wait_s = wait_s
        self._waiting = 0
        self._workers = WorkerProcesses()

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
            worker = await self._workers.start()
            try:
                async with asyncio.timeout(timeout_s + GRACE_S):
                    done = await worker.ask(request)
            except TimeoutError:
                raise QueryStopped(f"it took longer than {timeout_s:g} s and was stopped") from None
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
