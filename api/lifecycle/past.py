"""A place in the past of a session: which turn is meant, and the state it left."""

from api.chat import context_of
from api.dropped import require_text
from api.errors import ApiError
from api.hot import Hot
from api.schemas.lifecycle import Back
from runtime.state import State, StateUnreadable, decode
from store.record import Record
from store.rows import TurnRow


async def turn_meant(record: Record, hot: Hot, back: Back) -> int | None:
    """The turn after which a place is; None where none is named. Raises ApiError REQUEST_INVALID, TURN_NOT_FOUND."""
    if back.turn is not None and back.before_user_message is not None:
        raise _refused(hot, "a place is either a `turn` or `beforeUserMessage`")
    if back.before_user_message is not None:
        return await _before_user_message(record, hot, back.before_user_message)
    if back.turn is not None and back.turn > hot.state.turn:
        raise _not_found(hot, back.turn)
    return back.turn


async def _before_user_message(record: Record, hot: Hot, index: int) -> int:
    session = hot.session
    found = await record.user_message(session.tenant, session.session_id, index, without=hot.state.gaps)
    if index == found.count:
        return hot.state.turn
    if found.turn is None or found.turn > hot.state.turn:
        raise _refused(hot, f"the user has sent {found.count} messages, so there is no place before number {index}")
    if found.turn == 0 or not found.is_first:
        message = f"message {index} of the user was added with others before it in turn {found.turn}; name a turn"
        raise _refused(hot, message)
    return found.turn - 1


async def turn_taken(record: Record, hot: Hot, number: int) -> tuple[TurnRow, State]:
    """A turn, and the state it left.

    Raises ApiError TURN_NOT_FOUND, VARIABLE_STORE_INIT_ERROR, SESSION_TEXT_DROPPED.
    """
    session = hot.session
    require_text(session)
    row = await record.turn(session.tenant, session.session_id, number) if 0 <= number <= hot.state.turn else None
    if row is None:
        raise _not_found(hot, number)
    try:
        return row, decode(bytes(row.state))
    except StateUnreadable as error:
        raise ApiError("VARIABLE_STORE_INIT_ERROR", str(error), context=context_of(hot)) from error


def _not_found(hot: Hot, number: int) -> ApiError:
    message = f"the session has taken turns 0 to {hot.state.turn}, and no turn {number}"
    return ApiError("TURN_NOT_FOUND", message, context=context_of(hot))


def _refused(hot: Hot, message: str) -> ApiError:
    return ApiError("REQUEST_INVALID", message, context=context_of(hot))
