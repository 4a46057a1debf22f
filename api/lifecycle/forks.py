"""Forks: a session copied up to a turn, under another id, to go on another way. The one it is copied from stays."""

import msgspec
from msgspec import Struct

from api.asking import Condition, fingerprint_of, same_request
from api.chat import Chat
from api.dropped import require_text
from api.hot import Hot
from api.lifecycle.labels import key_taken, patched
from api.lifecycle.past import turn_meant
from api.rows import FORKED_FROM, Origin
from api.running import Running
from api.schemas.lifecycle import NewFork
from store.errors import KeyTaken, RowRefused
from store.rows import ForkRow


class _Asked(Struct, frozen=True):
    """A request to fork a session: the same key for another session is not the same request."""

    session_id: str
    fork: NewFork


class Forks:
    """Those of the sessions of all tenants."""

    def __init__(self, chat: Chat, running: Running) -> None:
        self._chat = chat
        self._running = running
        self._record = running.record
        self._clock = running.clock
        self._house = running.house

    async def fork(self, tenant: str, session_id: str, new: NewFork, condition: Condition) -> Hot:
        """Copies a session as it was after a turn, also while it is talked to: what is behind it does not change.

        Both go on the same way where the same is said to them. Raises ApiError.
        """
        return await self._chat.to_its_end(self._fork(tenant, session_id, new, condition))

    async def _fork(self, tenant: str, session_id: str, new: NewFork, condition: Condition) -> Hot:
        hot = await self._chat.session(tenant, session_id)
        require_text(hot.session)
        key = condition.idempotency_key
        fingerprint = fingerprint_of(_Asked(session_id, new), condition)
        if key is not None and (known := await self._made_before(tenant, key, fingerprint)) is not None:
            return known
        meant = await turn_meant(self._record, hot, new)
        turn = hot.state.turn if meant is None else meant
        row = ForkRow(
            tenant=tenant,
            from_session_id=session_id,
            turn=turn,
            session_id=await self._running.new_session_id(tenant, key),
            key=new.key,
            metadata=patched(hot.session.metadata, new.metadata)
            | {FORKED_FROM: msgspec.to_builtins(Origin(session_id, turn))},
            created_at=self._clock(),
            idempotency_key=key,
            fingerprint=fingerprint,
        )
        try:
            await self._record.fork(row)
            self._house.banks.turned(tenant, hot.session.user_id)
        except KeyTaken as error:
            known = await self._made_before(tenant, key, fingerprint) if key is not None else None
            if known is None:
                raise key_taken(error) from error
            return known
        except RowRefused:
            await self._chat.session(tenant, session_id)  # it may have been deleted meanwhile
            raise
        return await self._chat.session(tenant, row.session_id)

    async def _made_before(self, tenant: str, key: str, fingerprint: str | None) -> Hot | None:
        """What a request with this key made, if there was one. Raises ApiError IDEMPOTENCY_MISMATCH."""
        session = await self._record.creation_by_key(tenant, key)
        if session is None:
            return None
        require_text(session)
        same_request(await self._record.turn(tenant, session.session_id, 0), fingerprint)
        return await self._chat.session(tenant, session.session_id)
