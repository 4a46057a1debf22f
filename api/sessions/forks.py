"""The past of a session: turns that requests refer to, and forks, which copy a session up to a turn."""

import msgspec
from msgspec import Struct

from api.errors import ApiError, invalid_field, refusing
from api.schemas.lifecycle import NewFork, PastTurn
from api.sessions.chat import Chat
from api.sessions.row_mapping import FORKED_FROM, Origin, messages_of, origin_of
from api.sessions.session_cache import CachedSession, key_exists, require_not_redacted
from api.sessions.session_creation import apply_patch
from api.sessions.turn_runner import Preconditions, TurnRunner, fingerprint_of, same_request
from api.sessions.views import context_of
from runtime.state.state import State, StateUnreadable, decode
from store.interface.errors import KeyTaken, RowRefused
from store.interface.rows import ForkRow, TurnRow
from store.store import Store


async def resolve_turn(store: Store, cached: CachedSession, back: PastTurn) -> int | None:
    """Return the turn that `back` refers to; None if it names none. Raises ApiError REQUEST_INVALID, TURN_NOT_FOUND."""
    if back.turn is not None and back.before_user_message is not None:
        raise invalid_field("beforeUserMessage", "name either a `turn` or this")
    if back.before_user_message is not None:
        return await _before_user_message(store, cached, back.before_user_message)
    if back.turn is not None and back.turn > cached.state.turn:
        raise _not_found(cached, back.turn)
    return back.turn


async def _before_user_message(store: Store, cached: CachedSession, index: int) -> int:
    location = await store.turns.user_message(*cached.key, index, without=cached.state.gaps)
    if index == location.count:
        return cached.state.turn
    if location.turn is None or location.turn > cached.state.turn:
        raise invalid_field("beforeUserMessage", f"it is at most {location.count}, the number of the user's messages")
    if location.turn == 0 or not location.is_first:
        message = f"the message was added with others before it in turn {location.turn}; name a turn"
        raise invalid_field("beforeUserMessage", message)
    return location.turn - 1


async def load_turn(store: Store, cached: CachedSession, number: int) -> tuple[TurnRow, State]:
    """Return a turn and the state after it.

    Raises ApiError TURN_NOT_FOUND, VARIABLE_STORE_INIT_ERROR, SESSION_REDACTED.
    """
    require_not_redacted(cached.session)
    row = await store.turns.get(*cached.key, number) if 0 <= number <= cached.state.turn else None
    if row is None:
        raise _not_found(cached, number)
    with refusing("VARIABLE_STORE_INIT_ERROR", StateUnreadable, context=context_of(cached)):
        return row, decode(bytes(row.state))


def _not_found(cached: CachedSession, number: int) -> ApiError:
    message = f"the session has turns 0 to {cached.state.turn}, but no turn {number}"
    return ApiError("TURN_NOT_FOUND", message, context=context_of(cached))


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
        fork.updated_at = max(row.finished_at, session.created_at)
        return fork
