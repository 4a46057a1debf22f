"""The writer thread: it commits all queued writes as one group, and resolves their futures once that is on disk."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeAlias, TypeVar

import duckdb
import structlog

from store.duckdb.committer import TurnCommitter
from store.duckdb.connection import DuckDBConnection, with_cursor
from store.duckdb.database import Database
from store.duckdb.database_file import MERGES_AT_CLOSE
from store.duckdb.statements import roll_back
from store.duckdb.variable_cache import UserVariableCache
from store.duckdb.variables import MERGE_TURNS, merge_writes, unmerged_turns
from store.interface.admission import Entry
from store.interface.errors import (
    DatabaseFileLost,
    RestartNeeded,
    RowRefused,
    StoreError,
    StoreUnavailable,
    WriteFailed,
    describe_error,
)
from store.interface.global_writes import global_writes
from store.sql.repository import ChangedIds
from store.sql.writing_thread import Outcome, WritingThread, answer

LOOK_S = 1.0
"""How often the files are checked while nothing is written, since the log with the last commits may be deleted."""

CHECKPOINT_RETRY_S = 5.0

LINGER_MAX_S = 0.01
LINGER_STEP_S = 0.001
LINGER_CALLERS = 4
"""Fewer callers never wait."""

log = structlog.get_logger()

T = TypeVar("T")
_BAD_ROW = (duckdb.DataError, duckdb.IntegrityError, duckdb.ProgrammingError, duckdb.NotSupportedError)
"""Errors that the rows cause; all other errors come from the disk, the memory or the database."""


class _Entry(NamedTuple):
    """A turn or a call in the queue."""

    entry: Entry
    done: asyncio.Future[None]


class _Statements(NamedTuple):
    """Any other write in the queue; it runs in a transaction of its own."""

    run: Callable[[DuckDBConnection], Any]
    done: asyncio.Future[Any]
    changed: Callable[[Any], ChangedIds]


class _Pause(NamedTuple):
    """A pause in the queue: nothing is written until `over` is set."""

    over: threading.Event
    done: asyncio.Future[None]


_Job: TypeAlias = _Entry | _Statements | _Pause


class Writer(WritingThread[_Job]):
    """Owner of the writing thread. A future is resolved in the event loop that submitted it."""

    def __init__(self, database: Database) -> None:
        super().__init__("cuebook-writer")
        self._database = database
        self._connection = database.connection()
        self._committer = TurnCommitter(self._connection)
        self.variables = UserVariableCache()
        self._unmerged = unmerged_turns(self._connection.cursor)
        self._failure: str | None = None
        self._last_commit = database.last_commit
        self._checkpoint_after = 0.0  # time.monotonic()
        self._is_durable = True
        self._is_stopped = False
        self._last_writes = 0
        self._thread.start()

    async def commit(self, entry: Entry) -> None:
        """Commit a turn, or a call for the journal; return after it is on disk.

        If the caller is cancelled, the queued entry is still committed, or refused, with its group.
        Raises TurnConflict, KeyTaken, RowRefused, StoreBusy, StoreUnavailable.
        """
        done = asyncio.get_running_loop().create_future()
        self._submit(_Entry(entry, done))
        await done

    async def run(
        self, statements: Callable[[DuckDBConnection], T], changed: Callable[[T], ChangedIds] = lambda _: ChangedIds()
    ) -> T:
        """Run `statements` in a transaction of their own, in the writing thread; return the result after it is on disk.

        `changed` returns from the result what the caches must forget. Raises the StoreError that `statements` raises.
        """
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._submit(_Statements(statements, done, changed))
        return await done

    async def ensure_durable(self) -> None:
        """Return once all commits that readers see are on disk; at once unless the sync of the last one failed or is in
        progress. Raises StoreBusy, StoreUnavailable.
        """
        if not self._is_durable:
            await self.run(lambda _: None)

    @asynccontextmanager
    async def pause(self) -> AsyncIterator[None]:
        """Pause all writes and close the writer's cursor; submitted writes wait in the queue."""
        pause = _Pause(threading.Event(), asyncio.get_running_loop().create_future())
        self._submit(pause)
        try:
            await pause.done
            yield
        finally:
            pause.over.set()

    @property
    def failure(self) -> str | None:
        """The error of the last write if the disk or the database caused it, otherwise None."""
        return self._failure if self._thread.is_alive() else "the writing thread has ended"

    def _drain(self) -> None:
        jobs: list[_Job] = []
        last = False
        try:
            while not last:
                jobs, last = self._next_jobs(LOOK_S)
                if not jobs and not last:
                    self._look()
                    continue
                self._working_since = time.monotonic()
                for group in _group(jobs):
                    if isinstance(group, _Pause):
                        self._wait_until_over(group)
                    else:
                        answer(self._write(group))
                self._checkpoint_if_due()
                self._merge_writes()
                self._linger(len(jobs))
                self._working_since = None
            self._checkpoint_at_end()
        finally:
            self._abandon(jobs)
            self._connection.cursor.close()

    def _checkpoint_if_due(self) -> None:
        """Make a checkpoint if the log is large. If that fails, the log grows, and it is tried again after a while."""
        if self._is_stopped or time.monotonic() < self._checkpoint_after:
            return
        try:
            self._database.checkpoint_if_due(self._connection.cursor)
        except duckdb.FatalException as error:
            self._note_failure(error)
        except (duckdb.Error, OSError, StoreUnavailable) as error:
            self._checkpoint_after = time.monotonic() + CHECKPOINT_RETRY_S
            if not isinstance(error, duckdb.TransactionException):  # a read is in progress, as often on a busy server
                log.warning("the log could not be written to the database file", problem=_problem(error))

    def _merge_writes(self) -> None:
        """Merge the writes of global variables if there were MERGE_TURNS turns since; try again after as many."""
        if self._unmerged >= MERGE_TURNS and not self._is_stopped:
            self._unmerged = 0
            self._run(with_cursor(merge_writes))

    def _linger(self, writes: int) -> None:
        """Wait until half of the recent callers wait again, since a small group takes nearly as long as a large one.

        It waits at most as long as the last one took. See docs/decisions/0337.
        """
        callers, self._last_writes = self._last_writes + writes, writes
        if callers < LINGER_CALLERS:
            return
        until = time.monotonic() + min(self.lag_s, LINGER_MAX_S)
        while self.waiting < callers // 2 and time.monotonic() < until:
            time.sleep(LINGER_STEP_S)

    def _look(self) -> None:
        """Check the files. After a failed write, write again: who asks `/ready` first sends no write until it works."""
        if self._failure is not None and not self._is_stopped:
            self._run(lambda _: None)
        else:
            self._durably([], None)

    def _wait_until_over(self, pause: _Pause) -> None:
        """Wait until the pause is over, then open a new cursor, because the file may have been replaced.

        There is no time limit: `pause` always ends the pause.
        """
        self._connection.cursor.close()
        answer([(pause.done, None)])
        pause.over.wait()
        self._connection = self._database.connection()
        self._committer = TurnCommitter(self._connection)

    def _write(self, group: list[_Entry] | _Statements) -> list[Outcome]:
        try:
            self._require_writable()
        except StoreUnavailable as lost:
            return [(job.done, type(lost)(*lost.args)) for job in (group if isinstance(group, list) else [group])]
        if isinstance(group, _Statements):
            return [(group.done, self._run(group.run, group.changed))]
        number, entries = self._next_commit(), [job.entry for job in group]
        try:
            outcomes, turns = self._committer.commit(entries, number)
        except _BAD_ROW as error:
            if len(group) == 1:
                return [(group[0].done, RowRefused(f"the database refused the row: {describe_error(error)}"))]
            return [outcome for job in group for outcome in self._write([job])]
        except duckdb.Error as error:
            return [(job.done, self._note_failure(error)) for job in group]
        self._database.heads.note_turns(turns)
        outcomes_stored = self._durably(outcomes, number if turns else None)
        # if the sync failed, nothing is cached any more
        self.variables.apply(global_writes([each.turn for each in turns]))
        self._unmerged += len(turns)
        self._log_group(entries, outcomes_stored)
        return list(zip((job.done for job in group), outcomes_stored, strict=True))

    def _require_writable(self) -> None:
        """Raise DatabaseFileLost or StoreUnavailable if the file is gone, RestartNeeded after a failed sync."""
        if self._is_stopped:
            raise RestartNeeded(self._failure)
        self._database.require_file()

    def _run(
        self, statements: Callable[[DuckDBConnection], T], changed: Callable[[T], ChangedIds] = lambda _: ChangedIds()
    ) -> object:
        """Run the statements; return their result, or the StoreError if they were not committed."""
        number = self._next_commit()
        self._connection.changed.clear()
        try:
            self._connection.cursor.execute("BEGIN")
            result = statements(self._connection)
            self._connection.cursor.execute("UPDATE commits SET number = ?", [number])
            self._connection.cursor.execute("COMMIT")
        except _BAD_ROW as error:
            roll_back(self._connection.cursor)
            return RowRefused(f"the database refused the row: {describe_error(error)}")
        except StoreError as refused:
            roll_back(self._connection.cursor)
            return refused
        except duckdb.Error as error:
            roll_back(self._connection.cursor)
            return self._note_failure(error)
        self._database.heads.note_changes(self._connection.changed)
        outcome = self._durably([result], number)[0]
        sessions, users = changed(result)
        self._committer.forget(sessions)
        self.variables.forget(users)
        return outcome

    def _next_commit(self) -> int:
        """Return the number of the commit that begins. A number is not used twice, even if its commit fails."""
        self._is_durable = False
        self._last_commit += 1
        return self._last_commit

    def _durably(self, outcomes: Sequence[object], number: int | None) -> Sequence[object]:
        """Make the commit durable; return the outcomes, or a StoreError for each if that failed.

        `number` is the number of the commit if the tables contain it.
        """
        try:
            self._require_writable()
            self._database.sync_log(self._connection.cursor)
            if number is not None:
                self._database.mark(number)
        except DatabaseFileLost as lost:
            self._forget()
            return [type(lost)(*lost.args) for _ in outcomes]
        except (OSError, duckdb.Error, StoreUnavailable) as error:
            failed = self._note_failure(error)
            return [type(failed)(*failed.args) for _ in outcomes]
        if any(not isinstance(outcome, StoreError) for outcome in outcomes):
            self._note_success()
        self._is_durable = True
        return outcomes

    def _note_failure(self, error: duckdb.Error | OSError | StoreUnavailable) -> StoreUnavailable:
        """Remember a failure, log it if the last write did not fail, and return its StoreError.

        All that is cached is dropped, because the state of the database is unknown: the tables are read next.
        After a failed sync nothing more is written: the system may have dropped the pages that it could not write, and
        another sync would succeed without them. DuckDB reports a failed sync of its files as a fatal error.
        """
        self._forget()
        problem = _problem(error)
        if isinstance(error, duckdb.FatalException | RestartNeeded):
            if not self._is_stopped:
                self._is_stopped = True
                self._failure = f"{problem}. Nothing is written any more: check the disk, then restart the server"
                log.critical("the database cannot be written until a restart", problem=self._failure)
            return RestartNeeded(self._failure)
        if self._failure is None:
            log.error("the database cannot be written", problem=problem)
        self._failure = problem
        return WriteFailed(f"the write failed: {problem}")

    def _forget(self) -> None:
        self._committer.forget()
        self._database.heads.forget()
        self.variables.forget()

    def _note_success(self) -> None:
        if self._failure is not None:
            log.warning("the database can be written again")
        self._failure = None

    def _abandon(self, jobs: list[_Job]) -> None:
        """Resolve the futures of all remaining jobs with an error, in case a defect has ended the thread."""
        self._is_closed = True
        while not self._queue.empty():
            waiting = self._queue.get()
            jobs = jobs if waiting is None else [*jobs, waiting]
        answer([(job.done, StoreUnavailable("the writing thread has ended")) for job in jobs])

    def _checkpoint_at_end(self) -> None:
        try:
            self._connection.cursor.execute(f"SET GLOBAL max_vacuum_tasks = {MERGES_AT_CLOSE}")
            self._database.empty_log(self._connection.cursor)
        except (StoreUnavailable, duckdb.Error) as error:  # the log stays, and is read at the next open
            self._failure = _problem(error)


def _problem(error: Exception) -> str:
    return str(error) if isinstance(error, StoreUnavailable) else describe_error(error)


def _group(jobs: list[_Job]) -> list[list[_Entry] | _Statements | _Pause]:
    """Group consecutive turns and calls; every other job is alone. The order is unchanged."""
    groups: list[list[_Entry] | _Statements | _Pause] = []
    for job in jobs:
        if not isinstance(job, _Entry):
            groups.append(job)
        elif groups and isinstance(groups[-1], list):
            groups[-1].append(job)
        else:
            groups.append([job])
    return groups
