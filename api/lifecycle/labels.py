"""What an application calls a session and notes of it: found by its key, or begun; the key and metadata, changed."""

from typing import Any

from api.asking import Condition, values_of
from api.chat import Chat
from api.dropped import require_text
from api.errors import ApiError
from api.hot import Hot
from api.locks import SessionLocks
from api.rows import FORKED_FROM
from api.running import Running
from api.schemas.lifecycle import KeyedSession, NewLabels
from api.schemas.sessions import NewMessage
from store.errors import KeyTaken

WAITING_MAX = 1_000  # requests for one key, or about one session


class Labels:
    """Those of the sessions of all tenants."""

    def __init__(self, chat: Chat, running: Running) -> None:
        self._chat = chat
        self._record = running.record
        self._keys = SessionLocks(WAITING_MAX, running.settings.turn_s)
        self._changes = SessionLocks(WAITING_MAX, running.settings.queue_s)

    async def by_key(self, tenant: str, key: str) -> Hot | None:
        """The session with a key, if there is one."""
        found = await self._record.session_by_key(tenant, key)
        return await self._chat.session(tenant, found.session_id) if found is not None else None

    async def get_or_create(self, tenant: str, new: KeyedSession) -> tuple[Hot, bool]:
        """The session with a key, begun if it is not there; whether it was. However many ask at once, one is begun.

        Raises ApiError, SESSION_KEY_TAKEN where the session is another user's.
        """
        async with self._keys.hold((tenant, new.key), queue=True):
            found = await self.by_key(tenant, new.key)
            if found is None:
                try:
                    answer = await self._chat.start(tenant, new, Condition())
                except ApiError as error:
                    found = await self.by_key(tenant, new.key) if error.code == "SESSION_KEY_TAKEN" else None
                    if found is None:
                        raise
                else:
                    return await self._chat.session(tenant, answer.session.session_id), True
        if found.session.user_id != new.user_id:
            raise ApiError("SESSION_KEY_TAKEN", "the session with this key is another user's")
        if not found.state.begun:
            await self._chat.turn(tenant, found.session.session_id, NewMessage(content=""), Condition(queue=True))
            found = await self._chat.session(tenant, found.session.session_id)
        return found, False

    async def label(self, tenant: str, session_id: str, new: NewLabels) -> Hot:
        """Changes what is noted of a session, and names one that has no name. Raises ApiError."""
        return await self._chat.to_its_end(self._label(tenant, session_id, new))

    async def _label(self, tenant: str, session_id: str, new: NewLabels) -> Hot:
        if FORKED_FROM in new.metadata:
            raise ApiError("REQUEST_INVALID", f"metadata: `{FORKED_FROM}` says where a fork is from, and stays")
        require_text((await self._chat.session(tenant, session_id)).session)
        async with self._changes.hold((tenant, session_id), queue=True):  # and not of the session: turns go on
            session = await self._record.session_start(tenant, session_id)
            if session is None:
                raise ApiError("SESSION_NOT_FOUND", "Session not found", context={"sessionId": session_id})
            if new.key is not None and session.key not in {None, new.key}:
                message = "the session has a key already, which it keeps"
                raise ApiError("INTERVENTION_REFUSED", message, context={"sessionId": session_id})
            key, metadata = new.key or session.key, patched(session.metadata, new.metadata)
            if (key, metadata) != (session.key, session.metadata):
                try:
                    await self._record.label(tenant, session_id, key, metadata)
                except KeyTaken as error:
                    raise key_taken(error) from error
                self._chat.relabelled(tenant, session_id, key, metadata)
        hot = await self._chat.session(tenant, session_id)
        require_text(hot.session)  # it may have been dropped meanwhile, and nothing is noted then
        return hot


def patched(metadata: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Metadata after a merge patch (RFC 7396). Raises ApiError REQUEST_INVALID for what is too large or deep."""
    values_of(patch, "metadata")
    return values_of(_merged(metadata, patch), "metadata")


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    kept = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            kept.pop(name, None)
        else:
            kept[name] = _merged(kept.get(name), value)
    return kept


def key_taken(error: KeyTaken) -> ApiError:
    """What a client hears where a key is another session's."""
    context = {"key": error.key, "sessionId": error.session_id}
    return ApiError("SESSION_KEY_TAKEN", "a session with this key exists", context=context)
