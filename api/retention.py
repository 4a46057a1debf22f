"""Retention: what is due by the policies of the settings is dropped, when it is asked for and by itself.

A session is dropped while nobody talks to it; one that is being talked to is left for the next time. Few go at once,
and the writer has as long for turns as it had for them. Who stops in the midst of it, or is killed, goes on where it
was: what is dropped is not due any more.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import groupby

import structlog
from msgspec import Struct

from api.chat import Chat
from api.errors import ApiError
from api.running import Running
from store.errors import StoreError
from store.retention import Dropped, Due, DueByPolicy

SESSIONS_MAX = 100
"""Sessions in one transaction, for which turns wait."""
TURNS_MAX = 2_000
"""Turns of them; a session that has more goes alone."""
REST_S_MAX = 5.0  # between two transactions
FIRST_S = 60.0  # after the start of a server

log = structlog.get_logger()


class Progress(Struct):
    """How far a run is."""

    sessions_due: int
    texts: int = 0
    """Sessions whose text has been dropped."""
    sessions: int = 0
    """Sessions that have been deleted."""
    passed: int = 0
    """Sessions that are being talked to, and left for the next time."""


class Retention:
    """The runs of one server, of which there is one at a time."""

    def __init__(self, chat: Chat, running: Running) -> None:
        self.policies = running.settings.retention
        self.progress: Progress | None = None
        """Of the run that is under way."""
        self._chat = chat
        self._record = running.record.retention
        self._clock = running.clock
        self._house = running.house
        self._metrics = running.metrics
        self._every_h = running.settings.retention_every_h
        self._stopping = asyncio.Event()

    async def look(self) -> list[DueByPolicy]:
        """What each policy would drop now; nothing is changed."""
        return await self._record.counts(self.policies, self._clock()) if self.policies else []

    async def apply(self) -> Progress:
        """Drops all that is due; goes on when whoever asked is gone. Raises ApiError RETENTION_RUNNING, StoreError."""
        if self.progress is not None:
            raise ApiError("RETENTION_RUNNING", "what is due is being dropped already")
        self.progress = Progress(0)
        return await self._chat.to_its_end(self._apply(self.progress))

    async def _apply(self, progress: Progress) -> Progress:
        try:
            progress.sessions_due = sum(each.sessions for each in await self.look())
            passed: set[tuple[str, str]] = set()
            while due := [each for each in await self._due() if (each.tenant, each.session_id) not in passed]:
                for group in _groups(due):
                    if self._stopping.is_set():
                        return progress
                    passed |= await self._drop(group, progress)
        finally:
            self.progress = None
            log.info("retention", texts=progress.texts, sessions=progress.sessions, passed=progress.passed)
        return progress

    async def _due(self) -> list[Due]:
        return await self._record.due(self.policies, self._clock()) if self.policies else []

    async def _drop(self, group: list[Due], progress: Progress) -> set[tuple[str, str]]:
        """Drops sessions of one tenant in one transaction, and rests; those of them that are not dropped."""
        begun = asyncio.get_running_loop().time()
        dropped = await self._drop_free(group[0].tenant, group)
        gone = {*dropped.texts, *dropped.sessions}
        progress.texts += len(dropped.texts)
        progress.sessions += len(dropped.sessions)
        progress.passed += len(group) - len(gone)
        self._metrics.count_dropped("text", len(dropped.texts))
        self._metrics.count_dropped("session", len(dropped.sessions))
        await self._wait(min(asyncio.get_running_loop().time() - begun, REST_S_MAX))
        return {(each.tenant, each.session_id) for each in group if each.session_id not in gone}

    async def _drop_free(self, tenant: str, group: list[Due]) -> Dropped:
        """Drops those that nobody talks to, and lets go of what is known of them here."""
        async with AsyncExitStack() as held:
            free: list[Due] = []
            for each in group:
                try:
                    await held.enter_async_context(self._chat.alone(tenant, each.session_id, queue=False))
                except ApiError:
                    continue
                free.append(each)
            for user_id in sorted({each.user_id for each in free}):
                await held.enter_async_context(self._house.banks.barred(tenant, user_id))
            session_ids = [each.session_id for each in free]
            try:
                dropped = await self._record.drop(tenant, session_ids, self.policies, self._clock())
            finally:
                for session_id in session_ids:
                    self._chat.removed(tenant, session_id)
        for user_id in dropped.users:
            self._house.work.notice(tenant, user_id)
        return dropped

    # -- by itself --------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self, *, by_itself: bool) -> AsyncIterator[None]:
        """Runs again and again meanwhile, if it is to do so `by_itself`; at the end a run leaves off where it is."""
        again = asyncio.create_task(self._again()) if by_itself and self.policies and self._every_h else None
        try:
            yield
        finally:
            self._stopping.set()
            if again is not None:
                await asyncio.wait({again})

    async def _again(self) -> None:
        await self._wait(FIRST_S)
        while not self._stopping.is_set():
            try:
                await self.apply()
            except ApiError:  # somebody has just asked for it
                log.info("retention is under way already")
            except StoreError as error:
                log.warning("retention failed, and is tried again later", problem=type(error).__name__)
            await self._wait(self._every_h * 3_600)

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()


def _groups(due: list[Due]) -> Iterator[list[Due]]:
    """What goes in one transaction: sessions of one tenant, in their order."""
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
