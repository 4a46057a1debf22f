"""The one thread that writes: it commits all that waits as one group, and answers once the commit is on disk."""

import asyncio
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeAlias, TypeVar

import duckdb
import structlog

from store.commit import Entry, Ledger, Proposal, SessionId
from store.database import Database
from store.debugging import is_debugging
from store.errors import RowRefused, StoreBusy, StoreError, StoreUnavailable, told
from store.insert import roll_back

QUEUE_MAX = 4_096
"""Writes that may wait; at 64 to a group about half a second's work."""
GROUP_MAX = 256
"""Turns and calls in one transaction; more would delay the first for little gain."""
CLOSE_TIMEOUT_S = 30.0
LOOK_S = 1.0
"""How often the files are looked at while nothing is written: what is committed may be in a log that was deleted."""

log = structlog.get_logger()

Cursor: TypeAlias = duckdb.DuckDBPyConnection
T = TypeVar("T")
_BAD_ROW = (duckdb.DataError, duckdb.IntegrityError, duckdb.ProgrammingError, duckdb.NotSupportedError)
"""Errors of what is written; every other is one of the disk, the memory or the database."""


class _Entry(NamedTuple):
    """A turn or a call in the queue."""

    entry: Entry
    done: asyncio.Future[None]


class _Statements(NamedTuple):
    """Any other write in the queue; it gets a transaction of its own."""

    run: Callable[[Cursor], Any]
    done: asyncio.Future[Any]
    removed: Callable[[Any], Iterable[SessionId]]  # the sessions that are no more, by what it gave


class _Hold(NamedTuple):
    """A pause in the queue: nothing is written from its turn until it is over."""

    over: threading.Event
    done: asyncio.Future[None]


_Job: TypeAlias = _Entry | _Statements | _Hold
_Outcome: TypeAlias = tuple[asyncio.Future[Any], object]
"""Who waits, and what came of it: the result, or a StoreError."""


class Writer:
    """Owns the writing thread. Futures resolve in the event loop that submitted them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cursor = database.cursor()
        self._ledger = Ledger(self._cursor)
        self._queue: queue.Queue[_Job | None] = queue.Queue(QUEUE_MAX)
        self._closed = False
        self._working_since: float | None = None
        self._failure: str | None = None
        self._thread = threading.Thread(target=self._drain, name="cuebook-writer", daemon=True)
        self._thread.start()

    async def commit(self, entry: Entry) -> None:
        """Commit a turn, or a call for the journal; returns once it is durable.

        A cancelled caller loses only the answer: what was queued is still committed, or refused, with its group.
        Raises TurnConflict, KeyTaken, RowRefused, StoreBusy, StoreUnavailable.
        """
        done = asyncio.get_running_loop().create_future()
        self._submit(_Entry(entry, done))
        await done

    async def run(
        self, statements: Callable[[Cursor], T], removed: Callable[[T], Iterable[SessionId]] = lambda _: ()
    ) -> T:
        """Run `statements` in a transaction of their own, in the writing thread; gives their result once it is durable.

        `removed` are the sessions of which nothing is recorded any more. Raises the StoreError that they raise.
        """
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._submit(_Statements(statements, done, removed))
        return await done

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Nothing is written meanwhile, and the writer has no cursor; what is submitted waits in the queue."""
        hold = _Hold(threading.Event(), asyncio.get_running_loop().create_future())
        self._submit(hold)
        try:
            await hold.done
            yield
        finally:
            hold.over.set()

    @property
    def lag_s(self) -> float:
        """Seconds the group being written has taken so far; 0 when idle. Grows without end where the disk hangs."""
        since = self._working_since
        return 0.0 if since is None else time.monotonic() - since

    @property
    def waiting(self) -> int:
        """Writes that wait for the thread, about."""
        return self._queue.qsize()

    @property
    def failure(self) -> str | None:
        """Why the last write failed, if it was the disk or the database; None when all is well."""
        return self._failure if self._thread.is_alive() else "the writing thread has ended"

    async def close(self) -> None:
        """Write what waits, checkpoint, end the thread. Raises StoreUnavailable after CLOSE_TIMEOUT_S."""
        self._closed = True  # in the event loop, so that nothing is queued behind the end
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        try:
            self._queue.put(None, timeout=CLOSE_TIMEOUT_S)
        except queue.Full:
            raise StoreUnavailable(f"the writer took nothing for {CLOSE_TIMEOUT_S:.0f} s") from None
        self._thread.join(CLOSE_TIMEOUT_S)
        if self._thread.is_alive():
            raise StoreUnavailable(f"the writer did not end within {CLOSE_TIMEOUT_S:.0f} s")

    def _submit(self, job: _Job) -> None:
        if self._closed or not self._thread.is_alive():
            raise StoreUnavailable("the record is closed")
        try:
            self._queue.put_nowait(job)
        except queue.Full:
            raise StoreBusy(f"{QUEUE_MAX} writes are waiting already") from None

    def _drain(self) -> None:
        jobs: list[_Job] = []
        last = False
        try:
            while not last:
                jobs, last = self._next_jobs()
                self._working_since = time.monotonic()
                for group in _grouped(jobs):
                    if isinstance(group, _Hold):
                        self._stand_still(group)
                    else:
                        _answer(self._write(group))
                self._working_since = None
            self._checkpoint()
        finally:
            self._abandon(jobs)
            self._cursor.close()

    def _next_jobs(self) -> tuple[list[_Job], bool]:
        """Everything that waits, at least one job unless closed; and whether it is the last there will be."""
        jobs: list[_Job] = []
        job = self._first_job()
        while job is not None:
            jobs.append(job)
            if len(jobs) == GROUP_MAX or self._queue.empty():
                return jobs, False
            job = self._queue.get()
        return jobs, True

    def _first_job(self) -> _Job | None:
        """The next job, or None for the end; while it waits, it looks after the files."""
        while True:
            try:
                return self._queue.get(timeout=LOOK_S)
            except queue.Empty:
                self._durably([])

    def _stand_still(self, hold: _Hold) -> None:
        """Until the hold is over; whoever has it sees to that. The file may be another one then."""
        self._cursor.close()
        _answer([(hold.done, None)])
        hold.over.wait()
        self._cursor = self._database.cursor()
        self._ledger = Ledger(self._cursor)

    def _write(self, group: list[_Entry] | _Statements) -> list[_Outcome]:
        try:
            self._database.require_file()
        except StoreUnavailable as lost:
            return [(job.done, type(lost)(*lost.args)) for job in (group if isinstance(group, list) else [group])]
        if isinstance(group, _Statements):
            return [(group.done, self._run(group))]
        try:
            outcomes = self._ledger.commit([job.entry for job in group])
        except _BAD_ROW as error:
            if len(group) == 1:
                return [(group[0].done, RowRefused(f"the database refused the row: {told(error)}"))]
            return [outcome for job in group for outcome in self._write([job])]
        except duckdb.Error as error:
            return [(job.done, self._failed(error)) for job in group]
        kept = self._durably(outcomes)
        if is_debugging():
            self._log_group(group, kept)
        return list(zip((job.done for job in group), kept, strict=True))

    def _log_group(self, group: list[_Entry], kept: Sequence[object]) -> None:
        log.debug(
            "a group was committed",
            writes=len(group),
            turns=sum(isinstance(job.entry, Proposal) for job in group),
            refused=sum(isinstance(outcome, StoreError) for outcome in kept),
            waiting=self.waiting,
            ms=round(self.lag_s * 1_000, 1),
        )

    def _run(self, job: _Statements) -> object:
        """What the statements give, or the StoreError of why they were not kept."""
        try:
            self._cursor.execute("BEGIN")
            result = job.run(self._cursor)
            self._cursor.execute("COMMIT")
        except _BAD_ROW as error:
            roll_back(self._cursor)
            return RowRefused(f"the database refused the row: {told(error)}")
        except StoreError as refused:
            roll_back(self._cursor)
            return refused
        except duckdb.Error as error:
            roll_back(self._cursor)
            return self._failed(error)
        self._ledger.forget(job.removed(result))
        return self._durably([result])[0]

    def _durably(self, outcomes: Sequence[object]) -> Sequence[object]:
        """The outcomes of what was committed, or why it is not durable."""
        try:
            self._database.require_file()
            self._database.sync_log(self._cursor)
        except StoreUnavailable as lost:
            self._ledger.forget()
            return [type(lost)(*lost.args) for _ in outcomes]
        except (OSError, duckdb.Error) as error:
            return [self._failed(error) for _ in outcomes]
        if outcomes:
            self._failure = None
        return outcomes

    def _failed(self, error: duckdb.Error | OSError) -> StoreUnavailable:
        """After a failure nothing in memory is trusted: the next commit looks at the tables."""
        self._ledger.forget()
        self._failure = told(error)
        return StoreUnavailable(f"the write failed: {told(error)}")

    def _abandon(self, jobs: list[_Job]) -> None:
        """Leave nobody waiting for a thread that ends: should it end by a defect, some were not answered."""
        self._closed = True
        while not self._queue.empty():
            waiting = self._queue.get()
            jobs = jobs if waiting is None else [*jobs, waiting]
        _answer([(job.done, StoreUnavailable("the writing thread has ended")) for job in jobs])

    def _checkpoint(self) -> None:
        try:
            self._database.require_file()  # a checkpoint deletes the log by its name, be it another database's
            self._cursor.execute("CHECKPOINT cuebook")
        except (StoreUnavailable, duckdb.Error) as error:  # the log stays, and is read at the next open
            self._failure = told(error)


def _grouped(jobs: list[_Job]) -> list[list[_Entry] | _Statements | _Hold]:
    """Neighbouring turns and calls together, everything else alone, in the order they came."""
    groups: list[list[_Entry] | _Statements | _Hold] = []
    for job in jobs:
        if not isinstance(job, _Entry):
            groups.append(job)
        elif groups and isinstance(groups[-1], list):
            groups[-1].append(job)
        else:
            groups.append([job])
    return groups


def _answer(outcomes: list[_Outcome]) -> None:
    """Wake each event loop once for all of its callers in the group."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Outcome]] = {}
    for done, outcome in outcomes:
        by_loop.setdefault(done.get_loop(), []).append((done, outcome))
    for loop, answers in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, answers)
        except RuntimeError:  # the loop was closed: nobody waits any more
            continue


def _resolve(answers: list[_Outcome]) -> None:
    for done, outcome in answers:
        if done.done():  # its caller was cancelled
            continue
        if isinstance(outcome, StoreError):
            done.set_exception(outcome)
        else:
            done.set_result(outcome)
