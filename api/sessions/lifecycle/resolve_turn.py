"""Resolves a reference to the past of a session to a turn and the state after it."""

from api.errors import ApiError, refusing
from api.schemas.lifecycle import PastTurn
from api.sessions.chat import context_of
from api.sessions.session_cache import CachedSession, require_not_redacted
from runtime.state.state import State, StateUnreadable, decode
from store.interface.rows import TurnRow
from store.store import Store


async def resolve_turn(store: Store, cached: CachedSession, back: PastTurn) -> int | None:
    """Return the turn that `back` refers to; None if it names none. Raises ApiError REQUEST_INVALID, TURN_NOT_FOUND."""
    if back.turn is not None and back.before_user_message is not None:
        raise _invalid(cached, "name either a `turn` or `beforeUserMessage`")
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
        raise _invalid(cached, f"the user has sent {location.count} messages, so there is no message {index} (from 0)")
    if location.turn == 0 or not location.is_first:
        message = f"message {index} of the user was added with others before it in turn {location.turn}; name a turn"
        raise _invalid(cached, message)
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


def _invalid(cached: CachedSession, message: str) -> ApiError:
    return ApiError("REQUEST_INVALID", message, context=context_of(cached))
