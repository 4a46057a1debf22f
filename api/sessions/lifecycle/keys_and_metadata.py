"""Session keys and metadata: get or create a session by its key, and change both."""

from typing import Any

from api.errors import ApiError, invalid_field
from api.schemas.lifecycle import KeyedSession, NewLabels
from api.schemas.sessions import NewMessage
from api.sessions.row_mapping import FORKED_FROM
from api.sessions.session_cache import CachedSession, SessionLocks, key_exists, require_not_redacted
from api.sessions.session_creation import SessionCreation
from api.sessions.turn_runner import Preconditions, TurnRunner, values_of
from store.interface.errors import KeyTaken, StoreBusy

ATTEMPTS_MAX = 20  # to change a session; each fails only if another server has changed it
WAITING_MAX = 1_000  # requests for one key, or about one session


class Labels:
    """The keys and metadata of sessions of all tenants."""

    def __init__(self, creation: SessionCreation, runner: TurnRunner) -> None:
        self._creation = creation
        self._chat = creation.chat
        self._store = runner.store
        self._keys = SessionLocks(WAITING_MAX, runner.settings.turn_s)
        self._changes = SessionLocks(WAITING_MAX, runner.settings.queue_s)

    async def by_key(self, tenant: str, key: str) -> CachedSession | None:
        """Return the session with a key, if any."""
        row = await self._store.sessions.by_key(tenant, key)
        return await self._chat.session(tenant, row.session_id) if row is not None else None

    async def get_or_create(self, tenant: str, new: KeyedSession) -> tuple[CachedSession, bool]:
        """Return the session with a key, created if it is missing, and whether it was created.

        Concurrent requests create one session.

        Raises ApiError, SESSION_KEY_EXISTS if the session belongs to another user.
        """
        async with self._keys.hold((tenant, new.key)):
            cached = await self.by_key(tenant, new.key)
            if cached is None:
                try:
                    answer = await self._creation.submit(tenant, new, Preconditions())
                except ApiError as error:
                    cached = await self.by_key(tenant, new.key) if error.code == "SESSION_KEY_EXISTS" else None
                    if cached is None:
                        raise
                else:
                    return await self._chat.session(tenant, answer.session.session_id), True
        if cached.session.user_id != new.user_id:
            raise ApiError("SESSION_KEY_EXISTS", "the session with this key belongs to another user")
        if not cached.state.begun:
            nothing, queue = NewMessage(content=""), Preconditions(queue=True)
            await self._chat.submit_message(tenant, cached.session.session_id, nothing, queue)
            cached = await self._chat.session(tenant, cached.session.session_id)
        return cached, False

    async def label(self, tenant: str, session_id: str, new: NewLabels, expected_turn: int | None) -> CachedSession:
        """Merge metadata into a session's, and set its key if it has none. Raises ApiError."""
        return await self._chat.run_shielded(self._label(tenant, session_id, new, expected_turn))

    async def _label(self, tenant: str, session_id: str, new: NewLabels, expected_turn: int | None) -> CachedSession:
        if FORKED_FROM in new.metadata:
            raise invalid_field("metadata", f"`{FORKED_FROM}` is the origin of a fork and cannot change")
        async with self._changes.hold((tenant, session_id)):  # not the session's lock: turns continue
            self._chat.require_turn(await self._chat.session(tenant, session_id), expected_turn)
            for _ in range(ATTEMPTS_MAX):
                if await self._try_label(tenant, session_id, new):
                    return await self._chat.session(tenant, session_id)
        raise StoreBusy("other servers change the metadata of the session at the same time")

    async def _try_label(self, tenant: str, session_id: str, new: NewLabels) -> bool:
        """Return false if the session was changed between the read and the write, on another server."""
        session = await self._store.sessions.start(tenant, session_id)
        if session is None:
            raise ApiError("SESSION_NOT_FOUND", "Session not found", context={"sessionId": session_id})
        require_not_redacted(session)
        if new.key is not None and session.key not in {None, new.key}:
            message = "the session has a key already, which cannot be changed"
            raise ApiError("INTERVENTION_REFUSED", message, context={"sessionId": session_id})
        key, metadata = new.key or session.key, apply_patch(session.metadata, new.metadata)
        if (key, metadata) == (session.key, session.metadata):
            return True
        try:
            is_set = await self._store.sessions.label(session, key, metadata)
        except KeyTaken as error:
            raise key_exists(error) from error
        if is_set:
            self._chat.cache.relabel(tenant, session_id, key, metadata)
        return is_set


def apply_patch(metadata: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Apply a merge patch (RFC 7396) to metadata. Raises ApiError REQUEST_INVALID if it becomes too large or deep."""
    values_of(patch, "metadata")
    return values_of(_merge(metadata, patch), "metadata")


def _merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merge(result.get(name), value)
    return result
