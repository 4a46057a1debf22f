"""Server-sent events: frames for the events of a session, and the ids after which a client resumes."""

import re

import msgspec
from msgspec import Struct

from api.errors import invalid_field
from api.schemas.sessions import ResetView

KEEP_ALIVE = b": nothing yet\n\n"
EVENT_STREAM = "text/event-stream"

_ID = re.compile(r"([0-9a-f-]{36}):([0-9]{1,15})(?:\.([0-9a-f]{1,32})\.([0-9]{1,15}))?")


class EventPosition(Struct, frozen=True):
    """The position of a client: the last event it has, and the last word frame of the turn after it."""

    seq: int = 0
    attempt: str = ""  # the run of that turn
    frame: int = 0  # number of its word frames


def read_place(text: str, session_id: str) -> EventPosition:
    """Parse the position from an event id. Raises ApiError REQUEST_INVALID."""
    match = _ID.fullmatch(text.strip())
    if match is None:
        raise invalid_field("Last-Event-ID", "it must be the `id` of a frame of this session's stream")
    if match[1] != session_id:
        raise invalid_field("Last-Event-ID", "it belongs to another session")
    return EventPosition(int(match[2]), match[3] or "", int(match[4] or 0))


def frame_id(session_id: str, seq: int) -> str:
    """Return the id of an event; the number 0 is the start of the session."""
    return f"{session_id}:{seq}"


def encoded(event: str, data: object, id_: str = "") -> bytes:
    """Encode one frame. A frame without an id does not change the client's last id."""
    head = f"id: {id_}\nevent: {event}\n" if id_ else f"event: {event}\n"
    return b"%sdata: %s\n\n" % (head.encode(), msgspec.json.encode(data))


def reset_frame(session_id: str, base: int, message: int) -> bytes:
    """Return a frame that makes a client drop the words from a message on, and return to the last event."""
    return encoded("message.reset", ResetView(message=message), frame_id(session_id, base))
