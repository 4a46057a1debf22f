"""Sessions in memory: loaded from the database, cached while they are in use, and locked for one turn at a time."""

import asyncio
import itertools
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from cachetools import LRUCache

from api.catalog.catalog import Catalog
from api.errors import ApiError, refusing, require_session
from api.models.model_calls import RecordedCalls
from api.schemas.timestamps import utc_text
from api.sessions import row_mapping
from api.sessions.history import messages_of_load, recent_messages
from api.sessions.live_turns import Signal
from runtime.context.selection import Contexts, newest
from runtime.engine.engine import Turn
from runtime.state.events import HISTORY_MAX, Message
from runtime.state.program import Program
from runtime.state.state import ExecutionStatus, State, StateUnreadable, decode
from runtime.state.tool_ports import TOOL_PURPOSE
from store.interface.errors import KeyTaken, StoreError
from store.interface.rows import KEYED_TURNS, CallRow, FailureRow, LoadedSession, SessionRow, TurnRow, is_uuid
from store.interface.shared_database import SessionStamp
from store.store import Store


class _SessionLock(asyncio.Lock):
    """The lock of one session; it exists while a task holds or awaits it."""

    waiting = 0


class SessionLocks:
    """Locks by session. A busy session rejects turns, or queues a bounded number of them for a bounded time."""

    def __init__(self, queue_max: int, queue_s: float) -> None:
        self._locks: WeakValueDictionary[Hashable, _SessionLock] = WeakValueDictionary()
        self._queue_max = queue_max
        self._queue_s = queue_s

    @asynccontextmanager
    async def hold(self, session: Hashable, *, queue: bool = True) -> AsyncIterator[None]:
        """Hold the lock of a session for the block. Raises ApiError SESSION_BUSY."""
        lock = await self.acquire(session, queue=queue)
        try:
            yield
        finally:
            lock.release()

    async def acquire(self, session: Hashable, *, queue: bool = True) -> asyncio.Lock:
        """Acquire and return the lock of a session, which need not exist; without `queue` fail if it is busy.

        Raises ApiError SESSION_BUSY.
        """
        lock = self._locks.setdefault(session, _SessionLock())
        if lock.locked() and (not queue or lock.waiting >= self._queue_max):
            raise ApiError("SESSION_BUSY", "the session is answering another message")
        if lock.locked() or lock.waiting:
            await self._wait(lock)
        else:
            await lock.acquire()  # at once
        return lock

    async def _wait(self, lock: _SessionLock) -> None:
        lock.waiting += 1
        try:
            async with asyncio.timeout(self._queue_s):
                await lock.acquire()
        except TimeoutError as error:
            raise ApiError("SESSION_BUSY", f"the session was busy for {self._queue_s:g} s") from error
        finally:
            lock.waiting -= 1


class CreationGuard:
    """Sessions in creation by user: an erasure waits for them, and later creations wait for the erasure."""

    def __init__(self, wait_s: float) -> None:
        self._creating: Counter[Hashable] = Counter()
        self._blocked: set[Hashable] = set()
        self._signal = Signal()
        self._wait_s = wait_s

    @asynccontextmanager
    async def begin(self, user: Hashable) -> AsyncIterator[None]:
        """Hold the right to create a session of the user. Raises ApiError SESSION_BUSY."""
        await self._until(lambda: user not in self._blocked)
        self._creating[user] += 1
        try:
            yield
        finally:
            self._creating[user] -= 1
            if not self._creating[user]:
                del self._creating[user]
                self._signal.notify()

    @asynccontextmanager
    async def block(self, user: Hashable) -> AsyncIterator[None]:
        """Wait for creations of the user's sessions and block new ones. Raises ApiError SESSION_BUSY."""
        await self._until(lambda: user not in self._blocked)
        self._blocked.add(user)
        try:
            await self._until(lambda: user not in self._creating)
            yield
        finally:
            self._blocked.discard(user)
            self._signal.notify()

    async def _until(self, condition: Callable[[], bool]) -> None:
        deadline = asyncio.get_running_loop().time() + self._wait_s
        while not condition():
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0 or not await self._signal.wait(left):
                raise ApiError("SESSION_BUSY", f"the user's sessions were busy for {self._wait_s:g} s")


KEYS_MAX = KEYED_TURNS  # idempotency keys of a cached session; older ones are looked up in the database


class CachedSession:
    """A session with its program, its state and its last messages."""

    def __init__(
        self,
        session: SessionRow,
        program: Program,
        state: State,
        history: tuple[Message, ...],
        history_max: int = HISTORY_MAX,
    ) -> None:
        self.session = session
        self.program = program
        self.state = state
        self.history = history
        self.history_max = history_max  # messages; includes those that its context strategies need
        self.updated_at: datetime = session.created_at
        self.failure: FailureRow | None = None  # the last attempt at the next turn, if it failed
        self.keys: OrderedDict[str, None] = OrderedDict()  # of the last requests, in order
        self.knows_all_keys = False
        self.attempts = RecordedCalls()  # calls of earlier attempts at the next turn
        self.mark: str | None = None  # of the row, where several servers use the database; None: not known

    @property
    def key(self) -> tuple[str, str]:
        """Return the tenant and the id of the session."""
        return self.session.tenant, self.session.session_id

    @property
    def execution_status(self) -> ExecutionStatus:
        """Return the execution status of the session."""
        return "error" if self.failure is not None else self.state.execution_status

    @property
    def current_question(self) -> str:
        """Return the assistant's messages since the user's last message: the current question."""
        messages = itertools.takewhile(lambda message: message.role == "assistant", reversed(self.history))
        return "\n\n".join(reversed([message.content for message in messages if message.content]))

    @property
    def failed_place(self) -> tuple[str, str, str] | None:
        """Return the position at which the last attempt at the next turn failed, if it did."""
        row = self.failure
        return None if row is None else (row.phase_id or "", row.topic_id or "", row.action_id or "")

    def failure_row(
        self, code: str, message: str, place: tuple[str, str, str], failed_at: datetime, *, is_lasting: bool = False
    ) -> FailureRow:
        """Return the row of a failed attempt at the session's next turn; a lasting one fails again if it is tried."""
        phase, topic, action = place
        return FailureRow(
            tenant=self.session.tenant,
            session_id=self.session.session_id,
            turn_attempted=self.state.turn + 1,
            code=code,
            message=message,
            phase_id=phase or None,
            topic_id=topic or None,
            action_id=action or None,
            failed_at=failed_at,
            is_lasting=is_lasting,
        )

    def calls_left_by(self, turn: Turn) -> list[CallRow]:
        """Return the recorded calls of tools that a turn leaves for the message whose turn failed or was interrupted.

        A turn without a message of the user, such as that of a reminder, does not take the place of that message.
        """
        rows = self.attempts.rows
        if not rows or any(message.role == "user" for message in turn.messages):
            return []
        used = turn.tool_call_ids
        return [row for row in rows.values() if row.purpose == TOOL_PURPOSE and row.call_id not in used]

    def apply_turn(self, row: TurnRow, turn: Turn, calls_left: Sequence[CallRow]) -> None:
        """Update the session from a committed turn, and the calls that it left (`calls_left_by`)."""
        self.state = turn.state
        history = (*self.history, *turn.messages)
        self.history = history if len(history) <= self.history_max else newest(history, self.history_max)
        self.updated_at = row.finished_at
        self.failure = None
        if turn.state.begun and self.attempts.rows:
            self.attempts = RecordedCalls(calls_left)
        if row.idempotency_key is not None:
            self.keys[row.idempotency_key] = None
            if len(self.keys) > KEYS_MAX:
                self.keys.popitem(last=False)
                self.knows_all_keys = False


def require_not_redacted(session: SessionRow) -> None:
    """Raise ApiError SESSION_REDACTED if the texts and values of a session were removed."""
    if session.redacted_at is not None:
        at = utc_text(session.redacted_at)
        message = f"the session was redacted on {at[:10]} by a retention policy of the server"
        context = {"sessionId": session.session_id, "redactedAt": at}
        raise ApiError("SESSION_REDACTED", message, context=context)


def key_exists(error: KeyTaken) -> ApiError:
    """Return the error for a key that another session has, which is not named: it may belong to another user."""
    return ApiError("SESSION_KEY_EXISTS", "a session with this key exists", context={"key": error.key})


class _Load:
    """Loads of a session from the database; not current once the session has changed since."""

    is_current = True


class SessionCache:
    """At most `sessions_max` sessions of all tenants; the least recently used is dropped first."""

    def __init__(self, store: Store, catalog: Catalog, contexts: Contexts, sessions_max: int) -> None:
        self._store = store
        self._catalog = catalog
        self._contexts = contexts
        self._cache: LRUCache[tuple[str, str], CachedSession] = LRUCache(sessions_max)
        self._loads: WeakValueDictionary[tuple[str, str], _Load] = WeakValueDictionary()  # those in progress

    def __len__(self) -> int:
        return len(self._cache)

    async def load(self, tenant: str, session_id: str) -> CachedSession:
        """Return a session, cached or loaded. Raises ApiError SESSION_NOT_FOUND, VARIABLE_STORE_INIT_ERROR."""
        key = (tenant, session_id)
        while True:
            cached = self._cache.get(key)
            if cached is not None and self._store.shared is None:
                return cached
            stamp = await self._stamp(key)
            if cached is not None and _is_current(cached, stamp):
                return cached
            if cached is not None:
                self.remove(*key)
            load = self._loads.setdefault(key, _Load())
            loaded = await self._store.sessions.load(tenant, session_id) if is_uuid(session_id) else None
            cached = await self._to_cached(require_session(loaded, session_id))
            cached.mark = None if stamp is None else stamp.mark
            if load.is_current:  # else it was deleted, renamed or changed by a turn during the load
                return self._remember(cached)

    async def _stamp(self, key: tuple[str, str]) -> SessionStamp | None:
        """Return what tells whether another server has changed a session; None if no other server can."""
        shared = self._store.shared
        return None if shared is None or not is_uuid(key[1]) else await shared.stamp(*key)

    def _note_change(self, key: tuple[str, str]) -> None:
        load = self._loads.pop(key, None)
        if load is not None:
            load.is_current = False

    async def _to_cached(self, loaded: LoadedSession) -> CachedSession:
        head = loaded.head
        with refusing("VARIABLE_STORE_INIT_ERROR", StateUnreadable, context={"sessionId": head.session_id}):
            state = decode(bytes(head.state))
        program = await self._catalog.program_in(state.locale, head.tenant, head.digest)
        history_max = self._contexts.messages_max(program.script, state)
        history = await messages_of_load(self._store, loaded, history_max, state.gaps)
        cached = CachedSession(row_mapping.session_of(head), program, state, history, history_max)
        cached.updated_at = head.updated_at
        cached.keys = OrderedDict.fromkeys(loaded.keys)
        cached.knows_all_keys = head.turn < KEYED_TURNS
        cached.attempts = RecordedCalls(loaded.calls)
        if loaded.failures and loaded.failures[0].turn_attempted == head.turn + 1:
            cached.failure = loaded.failures[0]
        return cached

    def add(self, cached: CachedSession) -> None:
        """Cache a session that was created."""
        self.remove(*cached.key)
        self._remember(cached)

    def put(self, cached: CachedSession) -> None:
        """Keep a session after a turn; loads that began before that turn are not current any more.

        A session that was displaced during the turn is read from the database again: its key or metadata may have
        changed since then, and only cached sessions follow such a change.
        """
        if self._cache.get(cached.key) is cached:
            self._note_change(cached.key)
        else:
            self.remove(*cached.key)

    async def put_with_replay(self, cached: CachedSession) -> None:
        """Cache a session whose conversation changed in the past; its last messages are read again.

        If they cannot be read, the session is dropped: the turn is committed already, and the next request loads it.
        """
        try:
            cached.history = await recent_messages(self._store, *cached.key, cached.history_max, cached.state.gaps)
        except StoreError:
            self.remove(*cached.key)
        else:
            self.put(cached)

    def relabel(self, tenant: str, session_id: str, key: str | None, metadata: dict[str, Any]) -> None:
        """Update the key and metadata of a cached session, also during a turn."""
        self._note_change((tenant, session_id))
        cached = self._cache.get((tenant, session_id))
        if cached is not None:
            cached.session = msgspec.structs.replace(cached.session, key=key, metadata=metadata)
            cached.mark = None

    def remove(self, tenant: str, session_id: str) -> None:
        """Drop a session, so that it is read from the database again."""
        self._note_change((tenant, session_id))
        self._cache.pop((tenant, session_id), None)

    def _remember(self, cached: CachedSession) -> CachedSession:
        return self._cache.setdefault(cached.key, cached)


def _is_current(cached: CachedSession, stamp: SessionStamp | None) -> bool:
    """Return whether no other server has changed a session since it was loaded."""
    return (
        stamp is not None
        and stamp.turn == cached.state.turn
        and stamp.mark == cached.mark
        and stamp.has_failed == (cached.failure is not None)
        and stamp.calls <= cached.attempts.journaled
    )
