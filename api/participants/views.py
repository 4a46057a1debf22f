"""What participants see: messages, what their session waits for, and its status; nothing of the script or of values.

The views list what is visible, so that new data of a session is hidden until somebody adds it here.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from api.errors import ApiError
from api.schemas.participants import (
    MediaView,
    VisibleDelta,
    VisibleMessage,
    VisibleSession,
    VisibleStatus,
    VisibleTurn,
    VisibleWait,
)
from api.schemas.sessions import WaitView
from api.sessions.live_turns import TurnResult
from api.sessions.sse import encode_frame, frame_id
from api.sessions.streams import Audience
from api.sessions.views import wait_now, wait_view
from runtime.engine.interventions import OPERATOR
from runtime.state.program import Program
from runtime.state.state import ExecutionStatus, State, Wait
from store.interface.rows import MessageRow, TurnEventsRow, TurnRow

_SHOWN = frozenset({"assistant", "user"})
_DELTA = b"event: message.delta\n"


def visible_messages(rows: Iterable[MessageRow]) -> list[VisibleMessage]:
    """Return the messages that participants see: their own and those of the assistant."""
    return [_message(row) for row in rows if row.role in _SHOWN]


def _message(row: MessageRow) -> VisibleMessage:
    media = row.metadata.get("media")
    return VisibleMessage.of(
        row,
        number=row.seq,
        timestamp=row.created_at,
        media=_media(media) if media else UNSET,
        from_person=True if OPERATOR in row.metadata else UNSET,
    )


def _media(media: Any) -> MediaView:
    shown = {name: media[name] for name in ("image", "url") if isinstance(media.get(name), str)}
    return MediaView(**shown)


def visible_session(program: Program, state: State, session_id: str, status: ExecutionStatus) -> VisibleSession:
    """Return a session with its current state."""
    return VisibleSession(
        session_id=session_id,
        title=program.script.title or "",
        locale=state.locale,
        turn=state.turn,
        status=state.status,
        execution_status=status,
        wait=wait_now(state),
        last_event_id=frame_id(session_id, state.event_seq),
        speaks_by_itself=program.speaks_by_itself,
    )


def visible_turn(answer: TurnResult) -> VisibleTurn:
    """Return a session after a turn, with what the turn said."""
    state, session_id = answer.state, answer.session.session_id
    session = visible_session(answer.program, state, session_id, state.execution_status)
    said = [message for message in answer.row.messages if message.role == "assistant"]
    return VisibleTurn.of(session, messages=visible_messages(said))


def _words(frame: bytes) -> bytes:
    """Return a frame of words without the action that says them."""
    head, separator, data = frame.partition(b"data: ")
    if _DELTA not in head:
        return frame
    return head + separator + msgspec.json.encode(msgspec.json.decode(data, type=VisibleDelta)) + b"\n\n"


def _event_frames(session_id: str, row: TurnRow | TurnEventsRow, after: int = 0) -> Iterator[bytes]:
    """Yield the frames of the messages and waits of a turn after `after`, and last its `status`.

    The last frame has the number of the turn's last event, so that a client does not get the turn again.
    """
    messages = {message.seq: message for message in row.messages}
    for event in row.events:
        if event.seq <= after:
            continue
        id_ = frame_id(session_id, event.seq)
        if event.kind == "message":
            for message in visible_messages([messages[event.data["message"]]]):
                yield encode_frame("message", message, id_)
        elif event.kind == "wait":
            wait = msgspec.convert(event.data["wait"], Wait)
            yield encode_frame("wait", VisibleWait(wait=wait_view(wait)), id_)
        elif event.kind == "intervention" and event.data["what"] == "take_over":
            yield encode_frame("wait", VisibleWait(wait=WaitView(kind="text")), id_)
    if row.events:
        status = VisibleStatus(turn=row.turn, status=row.status, execution_status=row.execution_status)
        yield encode_frame("status", status, frame_id(session_id, row.events[-1].seq))


def visible_error(error: ApiError) -> ApiError:
    """Return an error without what it says about the script and the server."""
    is_theirs = error.kind.status < 500 and error.code not in {"SCRIPT_PARSE_ERROR", "SCRIPT_VALIDATION_ERROR"}
    message = str(error) if is_theirs else "the message could not be answered"
    details = error.details if is_theirs else ()
    return ApiError(error.code, message, details=details, retry_after_s=error.retry_after_s, lasting=error.lasting)


PARTICIPANTS = Audience(words=_words, happened=_event_frames, failure=visible_error)
"""The streams of participants."""
