"""Retention: redacts or deletes sessions that are due by the policies of the settings, on request and on schedule.

A session with a running turn is left for the next run. Few sessions are changed in one transaction, and the writer is
then free for turns for as long as the transaction took. An interrupted run resumes, as processed sessions are no
longer due.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import groupby

import structlog
from msgspec import Struct

from api.background import wait_at_most
from api.errors import ApiError
from api.sessions.chat import Chat
from api.sessions.turn_runner import TurnRunner
from store.interface.errors import StoreError
from store.interface.retention_rows import Due, DueByPolicy, RetentionResult

SESSIONS_MAX = 100
"""Sessions in one transaction, during which turns wait."""
TURNS_MAX = 1_000
"""Turns of the sessions in one transaction; a session with more turns has a transaction of its own."""
REST_S_MAX = 5.0  # between two transactions
FIRST_S = 60.0  # after the start of a server
LOOK_S = 60.0  # interval of looking whether a run is due, and after a run that failed
JOB = "retention"

log = structlog.get_logger()


class Progress(Struct):
    """The progress of a run, with the number of policies."""

    policy_count: int
    sessions_due: int
    redacted: int = 0
    deleted: int = 0
    passed: int = 0
    """Sessions with a running turn, left for the next run."""


class Retention:
    """Retention runs of one server, one at a time."""

    def __init__(self, chat: Chat, runner: TurnRunner) -> None:
        self.policies = runner.settings.retention
        self.progress: Progress | None = None
        """The progress of the current run."""
        self._chat = chat
        self._runner = runner
        self._store = runner.store.retention
        self._shared = runner.store.shared
        self._every_h = runner.settings.retention_every_h
        self._stopping = asyncio.Event()
        self._ended: float | None = None
        """When the last scheduled run ended, where no other server runs any, as a time of the event loop."""

    async def look(self) -> list[DueByPolicy]:
        """Return what each policy would redact or delete now, without a change."""
        return await self._store.counts(self.policies, self._runner.clock())

    async def apply(self) -> Progress:
        """Redact and delete all due sessions, also if the caller is cancelled.

        Raises ApiError RETENTION_RUNNING, StoreError.
        """
        if self.progress is not None:
            raise ApiError("RETENTION_RUNNING", "a retention run is in progress already")
        self.progress = Progress(len(self.policies), 0)
        return await self._chat.run_shielded(self._apply(self.progress))

    async def _apply(self, progress: Progress) -> Progress:
        try:
            progress.sessions_due = await self._store.count_due(self.policies, self._runner.clock())
            passed: set[tuple[str, str]] = set()
            while due := [each for each in await self._due() if (each.tenant, each.session_id) not in passed]:
                for group in _groups(due):
                    if self._stopping.is_set():
                        return progress
                    passed |= await self._apply_to(group, progress)
        finally:
            self.progress = None
            log.info("retention", redacted=progress.redacted, deleted=progress.deleted, passed=progress.passed)
        return progress

    async def _due(self) -> list[Due]:
        return await self._store.due(self.policies, self._runner.clock())

    async def _apply_to(self, group: list[Due], progress: Progress) -> set[tuple[str, str]]:
        """Apply the policies to sessions of one tenant in one transaction, then rest. Return the sessions left out."""
        started = asyncio.get_running_loop().time()
        result = await self._apply_to_idle(group[0].tenant, group)
        processed = {*result.redacted, *result.deleted}
        progress.redacted += len(result.redacted)
        progress.deleted += len(result.deleted)
        progress.passed += len(group) - len(processed)
        self._runner.metrics.retention.labels("redact").inc(len(result.redacted))
        self._runner.metrics.retention.labels("delete").inc(len(result.deleted))
        await wait_at_most(min(asyncio.get_running_loop().time() - started, REST_S_MAX), self._stopping)
        return {(each.tenant, each.session_id) for each in group if each.session_id not in processed}

    async def _apply_to_idle(self, tenant: str, group: list[Due]) -> RetentionResult:
        """Apply the policies to sessions without a running turn, and evict them from the cache."""
        async with AsyncExitStack() as locks:
            free: list[Due] = []
            for each in group:
                try:
                    await locks.enter_async_context(self._chat.locks.hold((tenant, each.session_id), queue=False))
                except ApiError:
                    continue
                free.append(each)
            for user_id in sorted({each.user_id for each in free}):
                await locks.enter_async_context(self._runner.memory_system.cache.exclusive(tenant, user_id))
            session_ids = [each.session_id for each in free]
            try:
                result = await self._store.apply(tenant, session_ids, self.policies, self._runner.clock())
            finally:
                for session_id in session_ids:
                    self._chat.evict(tenant, session_id)
        for user_id in result.users:
            self._runner.memory_system.worker.enqueue(tenant, user_id)
        return result

    # -- schedule ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self, *, by_itself: bool, leads: Callable[[], bool] = lambda: True) -> AsyncIterator[None]:
        """Run on schedule while the context lasts, if `by_itself` and while this server `leads`.

        A run stops at the end of the context.
        """
        again = asyncio.create_task(self._again(leads)) if by_itself and self.policies and self._every_h else None
        try:
            yield
        finally:
            self._stopping.set()
            if again is not None:
                await asyncio.wait({again})

    async def _again(self, leads: Callable[[], bool]) -> None:
        await wait_at_most(FIRST_S, self._stopping)
        while not self._stopping.is_set():
            try:
                if leads() and await self._is_due():
                    await self.apply()
                    await self._note_end()
            except ApiError:  # a requested run has just started
                log.info("a retention run is in progress already")
            except StoreError as error:
                log.warning("retention failed and is retried later", problem=type(error).__name__)
            await wait_at_most(LOOK_S, self._stopping)

    async def _is_due(self) -> bool:
        """Return whether the last run ended long ago: of any server, so that restarts do not delay the next one."""
        every_s = self._every_h * 3_600
        if self._shared is not None:
            return await self._shared.is_due(JOB, every_s)
        return self._ended is None or asyncio.get_running_loop().time() - self._ended >= every_s

    async def _note_end(self) -> None:
        if self._stopping.is_set():  # the run was interrupted
            return
        self._ended = asyncio.get_running_loop().time()
        if self._shared is not None:
            await self._shared.note_end(JOB)


def _groups(due: list[Due]) -> Iterator[list[Due]]:
    """Group sessions of one tenant into transactions, in order."""
    for _, of_tenant in groupby(sorted(due, key=lambda each: each.tenant), key=lambda each: each.tenant):
        group: list[Due] = []
        turns = 0
        for each in of_tenant:
            if group and (len(group) == SESSIONS_MAX or turns + each.turns > TURNS_MAX):
                yield group
                group, turns = [], 0
            group.append(each)
            turns += each.turns
        yield group
