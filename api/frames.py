"""Server-sent events: what happened in a session as frames of text, and the ids that a client goes on after."""

import re
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from api.errors import ApiError
from api.schemas.base import View
from api.schemas.events import ResetView, TurnPlace
from api.views import event_views
from store.rows import HappenedRow, TurnRow

KEEP_ALIVE = b": nothing yet\n\n"
EVENT_STREAM = "text/event-stream"

_ID = re.compile(r"([0-9a-f-]{36}):([0-9]{1,15})(?:\.([0-9a-f]{1,32})\.([0-9]{1,15}))?")


class Place(Struct, frozen=True):
    """How far a client has come: the last event it has, and where it stands in the words of the turn after it."""

    seq: int = 0
    attempt: str = ""  # which run of that turn
    frame: int = 0  # how many frames of its words


def read_place(text: str, session_id: str) -> Place:
    """The place that an id stands for. Raises ApiError REQUEST_INVALID."""
    found = _ID.fullmatch(text.strip())
    if found is None:
        raise ApiError("REQUEST_INVALID", "Last-Event-ID takes the `id` of a frame of this session's stream")
    if found[1] != session_id:
        raise ApiError("REQUEST_INVALID", "Last-Event-ID is of another session")
    return Place(int(found[2]), found[3] or "", int(found[4] or 0))


def frame_id(session_id: str, seq: int) -> str:
    """The id of a whole event; with the number 0 that of the beginning."""
    return f"{session_id}:{seq}"


def encoded(event: str, data: object, id_: str = "") -> bytes:
    """One frame. One without an id leaves the client at the id it has."""
    head = f"id: {id_}\nevent: {event}\n" if id_ else f"event: {event}\n"
    return b"%sdata: %s\n\n" % (head.encode(), msgspec.json.encode(data))


class Frames:
    """Frames of words in their order. Most are never read by anybody, so each is encoded when it is first read."""

    def __init__(self) -> None:
        self.is_read = False  # whether anybody has been told of them
        self._frames: list[bytes | tuple[str, object, str]] = []

    def add(self, event: str, data: object, id_: str) -> None:
        """One more."""
        self._frames.append((event, data, id_))

    def __len__(self) -> int:
        return len(self._frames)

    def __getitem__(self, part: slice) -> list[bytes]:
        self.is_read = self.is_read or bool(self._frames)
        for place in range(*part.indices(len(self._frames))):
            frame = self._frames[place]
            if not isinstance(frame, bytes):
                self._frames[place] = encoded(*frame)
        return [frame for frame in self._frames[part] if isinstance(frame, bytes)]


def taken_back(session_id: str, base: int, message: int) -> bytes:
    """Tells a client to forget the words of a message and of those after it, and puts it back to the last event."""
    return encoded("message.reset", ResetView(message=message), frame_id(session_id, base))


def happened_frames(session_id: str, row: TurnRow | HappenedRow, after: int = 0) -> Iterator[bytes]:
    """What happened in a turn after an event; before the last of its events the place where the turn left off."""
    events = [event for event in event_views(row) if event.seq > after]
    for event in events:
        if event is events[-1]:
            yield encoded("position", _place(row))
        yield encoded(event.kind, event.data, frame_id(session_id, event.seq))


def _place(row: TurnRow | HappenedRow) -> View:
    return TurnPlace(
        turn=row.turn,
        status=row.status,
        execution_status=row.execution_status,
        phase_id=row.phase_id or "",
        topic_id=row.topic_id or "",
        action_id=row.action_id or "",
        action_type=row.action_type or "",
    )
