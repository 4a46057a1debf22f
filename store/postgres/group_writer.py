"""The thread that commits turns: it commits all that wait as one group, and resolves their futures."""

import asyncio
import random
import time
from collections.abc import Sequence
from typing import NamedTuple

import structlog

from store.interface.admission import Entry, SessionId
from store.interface.errors import StoreError, StoreUnavailable
from store.interface.rows import CallRow
from store.postgres import claims
from store.postgres.committer import GroupCommitter, SessionLocked
from store.postgres.engine import PAUSE_S, RETRY_S, PostgresEngine
from store.sql.writing_thread import WritingThread, answer

log = structlog.get_logger()


class _Job(NamedTuple):
    entry: Entry
    done: asyncio.Future[None]
    until: float
    """How long it waits for another transaction that has locked its session, by the monotonic clock."""


class GroupWriter(WritingThread[_Job]):
    """Owner of the committing thread, which also prolongs the claims of turns whose calls are in progress."""

    def __init__(self, engine: PostgresEngine) -> None:
        super().__init__("cuebook-committer")
        self._engine = engine
        self._committer = GroupCommitter(engine)
        self._locked: list[_Job] = []  # of sessions that another transaction has locked; committed with the next ones
        self._calling: dict[str, SessionId] = {}  # the calls in progress, by id
        self._prolonged_at = time.monotonic()
        self._thread.start()

    async def commit(self, entry: Entry) -> None:
        """Commit a turn, or a call for the journal; return after it is on disk.

        If the caller is cancelled, the queued entry is still committed, or refused, with its group.
        Raises TurnConflict, TurnClaimed, KeyTaken, RowRefused, StoreBusy, StoreUnavailable, StoreReadOnly.
        """
        self._engine.require_writable()
        done = asyncio.get_running_loop().create_future()
        self._submit(_Job(entry, done, time.monotonic() + RETRY_S))
        await done

    def _drain(self) -> None:
        is_closed = False
        while self._locked or not is_closed:
            jobs, is_last = self._next_jobs(PAUSE_S * random.random() if self._locked else claims.PROLONG_S)  # noqa: S311
            is_closed = is_closed or is_last
            if self._locked or jobs:
                self._commit([*self._locked, *jobs])
            self._prolong_claims()

    def _commit(self, jobs: list[_Job]) -> None:
        self._working_since = time.monotonic()
        try:
            entries = [job.entry for job in jobs]
            outcomes = self._committer.commit(entries)
            self._log_group(entries, outcomes)
        except BaseException:  # a defect; without answers, its callers would wait for ever
            answer((job.done, StoreUnavailable("the writing thread has a defect")) for job in jobs)
            raise
        finally:
            self._working_since = None
        self._locked, results, now = [], [], time.monotonic()
        for job, outcome in zip(jobs, outcomes, strict=True):
            if isinstance(outcome, SessionLocked) and now < job.until:
                self._locked.append(job)
            else:
                results.append((job, outcome))
        self._note_calls(results)
        answer((job.done, outcome) for job, outcome in results)

    def _note_calls(self, results: Sequence[tuple[_Job, StoreError | None]]) -> None:
        for job, outcome in results:
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
