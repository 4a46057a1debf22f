"""The thread that commits turns: it commits all that wait as one group, and resolves their futures."""

import asyncio
import queue
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

import structlog

from store.interface.admission import SessionId
from store.interface.errors import StoreBusy, StoreError, StoreUnavailable
from store.interface.rows import CallRow
from store.interface.turn_group import Entry
from store.postgres import claims
from store.postgres.committer import GroupCommitter
from store.postgres.engine import PostgresEngine
from store.sql.answers import answer

QUEUE_MAX = 4_096
"""Maximum number of queued entries."""
GROUP_MAX = 256
"""Maximum number of entries in one transaction; more would delay the first one for little gain."""
CLOSE_TIMEOUT_S = 30.0

log = structlog.get_logger()


class _Job(NamedTuple):
    entry: Entry
    done: asyncio.Future[None]


class GroupWriter:
    """Owner of the committing thread, which also prolongs the claims of turns whose calls are in progress."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine
        self._committer = GroupCommitter(engine)
        self._queue: queue.Queue[_Job | None] = queue.Queue(QUEUE_MAX)
        self._is_closed = False
        self._working_since: float | None = None
        self._calling: dict[str, SessionId] = {}  # the calls in progress, by id
        self._prolonged_at = time.monotonic()
        self._thread = threading.Thread(target=self._drain, name="cuebook-committer", daemon=True)
        self._thread.start()

    async def commit(self, entry: Entry) -> None:
        """Commit a turn, or a call for the journal; return after it is on disk.

        If the caller is cancelled, the queued entry is still committed, or refused, with its group.
        Raises TurnConflict, TurnClaimed, KeyTaken, RowRefused, StoreBusy, StoreUnavailable, StoreReadOnly.
        """
        self._engine.require_writable()
        done = asyncio.get_running_loop().create_future()
        if self._is_closed or not self._thread.is_alive():
            raise StoreUnavailable("the database is closed")
        try:
            self._queue.put_nowait(_Job(entry, done))
        except queue.Full:
            raise StoreBusy(f"{QUEUE_MAX} writes are already waiting") from None
        await done

    @property
    def lag_s(self) -> float:
        """Seconds since the writing of the current group began; 0 when idle."""
        since = self._working_since
        return 0.0 if since is None else time.monotonic() - since

    @property
    def waiting(self) -> int:
        """The approximate number of entries that wait for the thread."""
        return self._queue.qsize()

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    async def close(self) -> None:
        """Write the queued entries, end the thread. Raises StoreUnavailable after CLOSE_TIMEOUT_S."""
        self._is_closed = True
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        try:
            self._queue.put(None, timeout=CLOSE_TIMEOUT_S)
        except queue.Full:
            raise StoreUnavailable(f"the writer accepted no write for {CLOSE_TIMEOUT_S:.0f} s") from None
        self._thread.join(CLOSE_TIMEOUT_S)
        if self._thread.is_alive():
            raise StoreUnavailable(f"the writer did not end within {CLOSE_TIMEOUT_S:.0f} s")

    def _drain(self) -> None:
        is_last = False
        while not is_last:
            jobs, is_last = self._next_jobs()
            if jobs:
                self._commit(jobs)
            self._prolong_claims()

    def _commit(self, jobs: list[_Job]) -> None:
        self._working_since = time.monotonic()
        try:
            outcomes = self._committer.commit([job.entry for job in jobs])
        except BaseException:  # a defect; without answers, its callers would wait for ever
            answer((job.done, StoreUnavailable("the writing thread has a defect")) for job in jobs)
            raise
        finally:
            self._working_since = None
        self._note_calls(jobs, outcomes)
        answer((job.done, outcome) for job, outcome in zip(jobs, outcomes, strict=True))

    def _next_jobs(self) -> tuple[list[_Job], bool]:
        """Wait for jobs; return all that wait, and whether the thread must end after them."""
        jobs: list[_Job] = []
        try:
            job = self._queue.get(timeout=claims.PROLONG_S)
            while job is not None:
                jobs.append(job)
                if len(jobs) == GROUP_MAX:
                    return jobs, False
                job = self._queue.get_nowait()
        except queue.Empty:
            return jobs, False
        return jobs, True

    def _note_calls(self, jobs: list[_Job], outcomes: Sequence[StoreError | None]) -> None:
        for job, outcome in zip(jobs, outcomes, strict=True):
            if isinstance(job.entry, CallRow):
                if job.entry.ended_at is not None:
                    self._calling.pop(job.entry.call_id, None)
                elif outcome is None:
                    self._calling[job.entry.call_id] = (job.entry.tenant, job.entry.session_id)

    def _prolong_claims(self) -> None:
        if not self._calling or time.monotonic() - self._prolonged_at < claims.PROLONG_S:
            return
        self._prolonged_at = time.monotonic()
        sessions = sorted(set(self._calling.values()))
        try:
            self._engine.run(lambda connection: claims.prolong(connection, self._engine.owner, sessions))
        except StoreUnavailable as error:
            log.warning("claims of turns could not be prolonged", problem=str(error))
