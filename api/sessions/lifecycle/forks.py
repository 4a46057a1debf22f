"""Forks: a copy of a session up to a turn, under another id. The original does not change."""

import msgspec
from msgspec import Struct

from api.schemas.lifecycle import NewFork
from api.sessions.chat import Chat
from api.sessions.lifecycle.keys_and_metadata import apply_patch
from api.sessions.lifecycle.resolve_turn import load_turn, resolve_turn
from api.sessions.row_mapping import FORKED_FROM, Origin, messages_of, origin_of
from api.sessions.session_cache import CachedSession, key_exists, require_not_redacted
from api.sessions.turn_runner import Preconditions, TurnRunner, fingerprint_of, same_request
from store.interface.errors import KeyTaken, RowRefused
from store.interface.rows import ForkRow


class _ForkRequest(Struct, frozen=True):
    """The fingerprint of a fork request: the same key for another session is another request."""

    session_id: str
    fork: NewFork


class Forks(Struct, frozen=True):
    """The forks of sessions of all tenants."""

    chat: Chat
    runner: TurnRunner

    async def fork(self, tenant: str, session_id: str, new: NewFork, condition: Preconditions) -> CachedSession:
        """Copy a session as it was after a turn, also during a turn, because earlier turns never change.

        Both sessions continue the same way if they get the same input. Raises ApiError.
        """
        return await self.chat.run_shielded(self._fork(tenant, session_id, new, condition))

    async def _fork(self, tenant: str, session_id: str, new: NewFork, condition: Preconditions) -> CachedSession:
        cached = await self.chat.session(tenant, session_id)
        require_not_redacted(cached.session)
        key = condition.idempotency_key
        fingerprint = None if key is None else fingerprint_of(_ForkRequest(session_id, new))
        if key is not None and (known := await self._existing_fork(tenant, key, fingerprint)) is not None:
            return known
        self.chat.require_turn(cached, condition.expected_turn)
        requested = await resolve_turn(self.runner.store, cached, new)
        turn = cached.state.turn if requested is None else requested
        row = ForkRow(
            tenant=tenant,
            from_session_id=session_id,
            turn=turn,
            session_id=await self.runner.new_session_id(tenant, key),
            key=new.key,
            metadata=apply_patch(cached.session.metadata, new.metadata)
            | {FORKED_FROM: msgspec.to_builtins(Origin(session_id, turn))},
            created_at=self.runner.clock(),
            idempotency_key=key,
            fingerprint=fingerprint,
        )
        try:
            await self.runner.store.sessions.fork(row)
            self.runner.memory_system.cache.invalidate(tenant, cached.session.user_id)
        except KeyTaken as error:
            known = await self._existing_fork(tenant, key, fingerprint) if key is not None else None
            if known is None:
                raise key_exists(error) from error
            return known
        except RowRefused:
            await self.chat.session(tenant, session_id)  # it may have been deleted since
            raise
        return await self.chat.session(tenant, row.session_id)

    async def _existing_fork(self, tenant: str, key: str, fingerprint: str | None) -> CachedSession | None:
        """Return the fork that an earlier request with this key made, as that answered it, if any.

        Raises ApiError IDEMPOTENCY_MISMATCH.
        """
        session = await self.runner.store.sessions.by_creation_key(tenant, key)
        if session is None:
            return None
        require_not_redacted(session)
        same_request(await self.runner.store.turns.get(tenant, session.session_id, 0), fingerprint)
        cached = await self.chat.session(tenant, session.session_id)
        origin = origin_of(session)
        if origin is None or origin.turn == cached.state.turn:
            return cached
        row, state = await load_turn(self.runner.store, cached, origin.turn)
        program = await self.chat.program_at(cached, origin.turn)
        fork = CachedSession(session, program, state, messages_of(row.messages))
        fork.updated_at = row.finished_at
        return fork
