"""Session operations: take a turn, commit it, read a session.

A turn runs in its own task, so a client that disconnects does not stop it, and it is answered only once it is
durable. A turn that fails before that leaves no trace.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence, Set
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from api.background import retain
from api.catalog.catalog import Catalog
from api.errors import ApiError, refused_input, translate
from api.logs.turn_fields import log_turn, note_turn
from api.schemas.sessions import NewMessage
from api.sessions import row_mapping
from api.sessions.live_turns import LiveTurns, PendingTurn, Place, TurnResult
from api.sessions.session_cache import (
    CachedSession,
    CreationGuard,
    SessionCache,
    SessionLocks,
    key_exists,
    require_not_redacted,
)
from api.sessions.streams import Streams
from api.sessions.turn_runner import (
    Preconditions,
    TurnRunner,
    code_of,
    fingerprint_of,
    input_of,
    same_request,
)
from api.sessions.views import context_of, error_of, proactive_messages
from runtime.engine.engine import Turn, TurnFailed
from runtime.state.inputs import Input, InputRefused, Intervention, Start
from runtime.state.program import Program
from runtime.state.state import decode
from scripts.model.memory_plan import DEFAULT_PLAN
from store.interface.debug_logging import is_debugging
from store.interface.errors import KeyTaken, StoreError, TurnConflict
from store.interface.rows import CallRow, MigrationRow, TurnRow
from store.interface.timer_rows import TimerRow
from store.interface.webhook_rows import DeliveryRow

T = TypeVar("T")
_OF_MEMORY = frozenset({"remembered", "recalled"})  # kinds of events
Take: TypeAlias = Callable[[CachedSession, PendingTurn], Awaitable[TurnResult]]
"""Takes a turn of a session while the session is locked."""


class Deliveries(Protocol):
    """Sends turns elsewhere: the webhooks."""

    @property
    def tenants(self) -> Set[str] | None:
        """The tenants whose turns may have deliveries; None until they are loaded."""

    async def deliveries_for(self, before: CachedSession, turn: Turn, row: TurnRow) -> tuple[DeliveryRow, ...]:
        """Return the deliveries of a turn that is about to be committed; `before` is the session before it."""

    def announce(self) -> None:
        """Note that deliveries were committed."""


class Chat:
    """The sessions of all tenants, over the database."""

    def __init__(self, runner: TurnRunner, catalog: Catalog, live: LiveTurns, webhooks: Deliveries) -> None:
        settings = runner.settings
        self._runner = runner
        self._store = runner.store
        self._catalog = catalog
        self.live = live
        self._webhooks = webhooks
        self.streams = Streams(runner, live)
        self._settings = settings
        self._clock = runner.clock
        self.locks = SessionLocks(settings.queue_max, settings.queue_s)
        self.creations = CreationGuard(settings.queue_s)
        self.cache = SessionCache(runner.store, catalog, runner.contexts, settings.session_cache_max)
        self._tasks: set[asyncio.Task[Any]] = set()
        self.timers_changed = asyncio.Event()
        self.on_evicted: Callable[[str, str], None] = lambda tenant, session_id: None
        """Called with the tenant and id of a session that was deleted, redacted or replaced in the database."""
        self.on_spoken: Callable[[str, str, str, str], None] = lambda tenant, session_id, title, locale: None
        """Called with the tenant, id, title and locale of a session that has spoken by itself."""

    async def close(self) -> None:
        """Wait for the running turns."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._settings.turn_s)

    async def run_shielded(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work that continues if the caller is cancelled."""
        return await asyncio.shield(self._task(work))

    def _task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        return retain(self._tasks, asyncio.create_task(work))

    def submit(
        self,
        place: Place | None,
        body: Struct,
        join: bool,
        work: Callable[[PendingTurn], Coroutine[Any, Any, TurnResult]],
    ) -> PendingTurn:
        """Start a request in its own task, which continues if the client disconnects.

        `place` is that of its idempotency key. With `join`, the same request is returned if it is in progress.
        """
        fingerprint = None if place is None else fingerprint_of(body)
        known = self.live.in_progress(place) if join and place is not None else None
        if known is not None and known.fingerprint == fingerprint:
            return known
        return PendingTurn(fingerprint, lambda own: self._task(work(own)))

    # -- a turn -----------------------------------------------------------------------------------------------------

    def submit_message(
        self, tenant: str, session_id: str, message: NewMessage, condition: Preconditions, *, join: bool = False
    ) -> PendingTurn:
        """Process a message of the user; awaiting the result raises ApiError.

        `join` the same request if it is in progress.
        """
        take = partial(self.take_turn, message, condition.idempotency_key)
        return self.submit_change(tenant, session_id, message, take, condition, join=join)

    def submit_change(
        self, tenant: str, session_id: str, request: Struct, take: Take, condition: Preconditions, *, join: bool = False
    ) -> PendingTurn:
        """Change a session in a turn that `take` carries out; awaiting the result raises ApiError.

        `request` distinguishes requests with the same key.
        """
        key = condition.idempotency_key
        place = None if key is None else (tenant, session_id, key)
        work = partial(self._turn, tenant, session_id, condition, take, place)
        return self.submit(place, request, join, work)

    async def _turn(
        self,
        tenant: str,
        session_id: str,
        condition: Preconditions,
        take: Take,
        place: Place | None,
        pending: PendingTurn,
    ) -> TurnResult:
        key = condition.idempotency_key
        queue = self._settings.busy == "queue" if condition.queue is None else condition.queue
        with self.live.answering(pending, place):
            async with self.exclusive(tenant, session_id, queue=queue) as cached:
                if key is not None and (known := await self._find_recorded(cached, key, pending)) is not None:
                    return known
                self.require_turn(cached, condition.expected_turn)
                try:
                    return await take(cached, pending)
                except ApiError as error:
                    if error.code != "TURN_CONFLICT" or key is None:
                        raise
                    # another server may have committed the same request, whose answer was lost
                    known = await self._find_recorded(await self.cache.load(tenant, session_id), key, pending)
                    if known is None:
                        raise
                    return known

    async def _find_recorded(self, cached: CachedSession, key: str, pending: PendingTurn) -> TurnResult | None:
        """Return the recorded answer to a request with this key, if any. Raises ApiError IDEMPOTENCY_MISMATCH."""
        session = cached.session
        if key not in cached.keys and cached.knows_all_keys:
            return None
        row = await self._store.turns.by_key(*cached.key, key)
        if row is None:
            return None
        same_request(row, pending.fingerprint)
        return TurnResult(session, await self.program_at(cached, row.turn), decode(bytes(row.state)), row)

    async def take_turn(
        self,
        request: NewMessage | Input | Intervention,
        key: str | None,
        cached: CachedSession,
        pending: PendingTurn,
        refused: str = "REQUEST_INVALID",
    ) -> TurnResult:
        """Run a turn and commit it; `request` is a message of the user or another input.

        Raises ApiError, with the code `refused` if the session cannot take this input.
        """
        turn_input = _input_of(request, cached) if isinstance(request, NewMessage) else request
        started = self._clock()
        try:
            turn = await self.run(cached, turn_input, started, pending)
        except InputRefused as error:
            raise refused_input(error, refused, context_of(cached)) from error
        except TurnFailed as failed:
            raise await self.fail(cached, failed) from failed
        return await self.commit(cached, turn, started, key, pending)

    def run(
        self,
        cached: CachedSession,
        turn_input: Input | Intervention,
        started: datetime,
        pending: PendingTurn,
    ) -> Awaitable[Turn]:
        """Run a turn and stream its words to the readers. Raises the errors of `run_turn` and StoreError."""
        live = self.live.begin(cached.key, cached.state, pending)
        return self._runner.turn(cached, cached.state, turn_input, started=started, live=live.on_delta)

    async def commit(
        self,
        cached: CachedSession,
        turn: Turn,
        started: datetime,
        key: str | None = None,
        pending: PendingTurn | None = None,
        migration: MigrationRow | None = None,
    ) -> TurnResult:
        """Commit a turn, then update the cached session. Raises ApiError, StoreError."""
        session = cached.session
        row = row_mapping.turn_row(
            session,
            cached.program,
            turn,
            started_at=started,
            finished_at=self._clock(),
            idempotency_key=key,
            fingerprint=pending.fingerprint if key is not None and pending is not None else None,
        )
        result = TurnResult(session, cached.program, turn.state, row, turn.model_calls)
        if pending is not None and turn.state.begun:
            pending.encode_soon(result)
        turns, calls_left = self._runner.metrics.turns, cached.calls_left_by(turn)
        try:
            deliveries = await self._save(cached, turn, row, migration, calls_left)
        except Exception as error:
            turns(translate(error).code).inc()
            note_turn(error, session, row.turn)
            raise
        if turn.state.begun:  # else it is counted already: the first turn failed
            turns("done").inc()
        has_same_past = turn.state.gaps == cached.state.gaps
        cached.apply_turn(row, turn, calls_left)
        if row.turn == 0:
            self.cache.add(cached)
        elif has_same_past:
            self.cache.put(cached)
        else:
            await self.cache.put_with_replay(cached)
        if is_debugging():
            log_turn(session, row)
        self._announce(cached, turn, row, has_deliveries=bool(deliveries))
        return result

    def _announce(self, cached: CachedSession, turn: Turn, row: TurnRow, *, has_deliveries: bool) -> None:
        """Let followers, the memory, webhooks, timers and notifications know of a committed turn."""
        session, memory = cached.session, self._runner.memory_system
        self.live.note_commit(row)
        if memory.cache.loaded:
            memory.cache.invalidate(session.tenant, session.user_id)
        if _uses_memory(cached, row):
            memory.worker.enqueue(session.tenant, session.user_id)
        if has_deliveries:
            self._webhooks.announce()
        if cached.program.has_time:
            self.timers_changed.set()
        if proactive_messages(row):
            title = cached.program.script.title or ""
            self.on_spoken(session.tenant, session.session_id, title, turn.state.locale)

    async def _save(
        self,
        cached: CachedSession,
        turn: Turn,
        row: TurnRow,
        migration: MigrationRow | None,
        calls_left: Sequence[CallRow],
    ) -> tuple[DeliveryRow, ...]:
        """Commit a turn to the database with its webhook deliveries, and return these. Raises ApiError, StoreError."""
        session = cached.session
        try:
            tenants = self._webhooks.tenants
            has_webhooks = tenants is None or session.tenant in tenants
            deliveries = await self._webhooks.deliveries_for(cached, turn, row) if has_webhooks else ()
            await self._store.turns.commit(
                row,
                cached.state.turn,
                session if row.turn == 0 else None,
                migration,
                _used_calls(cached, turn),
                _withheld_calls(turn),
                tuple([call.call_id for call in calls_left]),
                _prompts(turn),
                deliveries,
                self._timers(cached, turn, migration),
                row_mapping.hand_over_rows(session, cached.state, turn.state),
            )
        except TurnConflict as error:
            self.cache.remove(*cached.key)
            raise self._conflict(cached) from error
        except KeyTaken as error:
            raise key_exists(error) from error
        return deliveries

    def _timers(self, cached: CachedSession, turn: Turn, migration: MigrationRow | None) -> tuple[TimerRow, ...] | None:
        """Return the timers of a session after a turn; None if the session has none and had none before."""
        if not cached.program.has_time and migration is None:
            return None
        return row_mapping.timer_rows(cached.session, cached.program, turn.state, self._settings.timezone)

    async def fail(self, cached: CachedSession, failed: TurnFailed) -> ApiError:
        """Record that a turn failed, and return the error to raise; the session does not change."""
        code = code_of(failed.kind)
        lasting = failed.kind in {"model", "memory", "tool"} and not failed.retryable
        cached.failure = cached.failure_row(code, str(failed), failed.place, self._clock(), is_lasting=lasting)
        await self._store.turns.save_failure(cached.failure)
        self.cache.put(cached)
        return error_of(cached, cached.failure)

    def require_turn(self, cached: CachedSession, expected_turn: int | None) -> None:
        """Raise ApiError TURN_CONFLICT if a session is at another turn than a request expects, if it expects one."""
        if expected_turn not in {None, cached.state.turn}:
            raise self._conflict(cached)

    def _conflict(self, cached: CachedSession) -> ApiError:
        turn = cached.state.turn
        return ApiError("TURN_CONFLICT", f"the session is at turn {turn}", context={**context_of(cached), "turn": turn})

    # -- locks and migrations ---------------------------------------------------------------------------------------

    def exclusive(
        self, tenant: str, session_id: str, *, queue: bool = True, expected_turn: int | None = None
    ) -> AbstractAsyncContextManager[CachedSession]:
        """Load a session and hold its lock; without `queue` fail if it is busy.

        Raises ApiError SESSION_NOT_FOUND, SESSION_BUSY, SESSION_REDACTED, TURN_CONFLICT.
        """
        return _ExclusiveSession(self, (tenant, session_id), queue, expected_turn)

    async def settle(self, cached: CachedSession, turn: Turn, started: datetime, migration: MigrationRow) -> TurnResult:
        """Commit the turn that moves a session to the program and version of `cached`, which replaces it.

        Raises ApiError.
        """
        cached.history_max = self._runner.contexts.messages_max(cached.program.script, turn.state)
        answer = await self.commit(cached, turn, started, migration=migration)
        self.cache.remove(*cached.key)  # the new script may need more of the history
        return answer

    # -- remove -----------------------------------------------------------------------------------------------------

    def evict(self, tenant: str, session_id: str) -> None:
        """Drop a cached session that was deleted or redacted in the database, and end its streams."""
        self.cache.remove(tenant, session_id)
        self.live.remove((tenant, session_id))
        self.on_evicted(tenant, session_id)

    # -- read -------------------------------------------------------------------------------------------------------

    async def session(self, tenant: str, session_id: str) -> CachedSession:
        """Return the current state of a session. Raises ApiError SESSION_NOT_FOUND."""
        return await self.cache.load(tenant, session_id)

    async def program_at(self, cached: CachedSession, turn: int) -> Program:
        """Return the script that a turn ran on, which is an earlier version if the session has migrated since."""
        moves = await self._store.sessions.migrations(*cached.key)
        digest = moves[-1].from_digest if moves else cached.session.digest
        for move in reversed(moves):
            if move.turn <= turn:
                digest = move.digest
        return await self._catalog.program_in(cached.state.locale, cached.session.tenant, digest)

    async def owner(self, tenant: str, session_id: str) -> str:
        """Return the user of a session, also during its first turn. Raises ApiError SESSION_NOT_FOUND."""
        try:
            cached = await self.cache.load(tenant, session_id)
        except ApiError:
            user_id = self.live.user_of((tenant, session_id))
            if user_id is None:
                raise
            return user_id
        return cached.session.user_id


class _ExclusiveSession(AbstractAsyncContextManager[CachedSession]):
    """Holds the lock of a session. It is no async generator, which would take 6 % of the CPU of a turn."""

    def __init__(self, chat: Chat, key: tuple[str, str], queue: bool, expected_turn: int | None) -> None:
        self._chat = chat
        self._key = key
        self._queue = queue
        self._expected_turn = expected_turn

    async def __aenter__(self) -> CachedSession:
        self._lock = await self._chat.locks.acquire(self._key, queue=self._queue)
        try:
            cached = await self._chat.cache.load(*self._key)
            require_not_redacted(cached.session)
            self._chat.require_turn(cached, self._expected_turn)
        except BaseException:
            self._lock.release()
            raise
        return cached

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, StoreError):
            self._chat.cache.remove(*self._key)  # the database may hold more than the cached session
        self._lock.release()


def _input_of(message: NewMessage, cached: CachedSession) -> Input:
    """Return the input that a message is; the first one of a session that has not begun starts it. Raises ApiError."""
    if cached.state.status == "completed":
        raise ApiError("SESSION_ENDED", "the conversation has ended", context=context_of(cached))
    if cached.state.status == "paused":
        raise ApiError("SESSION_PAUSED", "the session is paused", context=context_of(cached))
    return input_of(message) if cached.state.begun else Start()


def _used_calls(cached: CachedSession, turn: Turn) -> tuple[str, ...] | None:
    """Return the ids of the calls that a turn used; None if there are none or the session has not started."""
    if not cached.attempts.rows or not turn.state.begun:
        return None
    of_models = (call.intent.call_id for call in turn.model_calls if call.intent is not None)
    return (*of_models, *turn.tool_call_ids)


def _withheld_calls(turn: Turn) -> tuple[str, ...]:
    """Return the ids of the model calls whose text detectors withheld."""
    return tuple(call.intent.call_id for call in turn.model_calls if call.is_withheld and call.intent is not None)


def _prompts(turn: Turn) -> dict[str, str]:
    """Return the prompts of the model calls by their ids, without those that may contain a withheld text."""
    usages = {call.intent.call_id: call.ended.usage for call in turn.model_calls if call.intent and call.ended}
    return {
        call_id: usage.prompt for call_id, usage in usages.items() if usage is not None and usage.prompt is not None
    }


def _uses_memory(cached: CachedSession, row: TurnRow) -> bool:
    """Return whether the script has a memory plan, or the turn stored or recalled memory."""
    is_planned = cached.program.script.memory is not DEFAULT_PLAN
    return is_planned or not _OF_MEMORY.isdisjoint([event.kind for event in row.events])
