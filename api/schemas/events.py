"""Events of a session: recorded ones, and words that are streamed during a turn."""

from collections.abc import Mapping
from typing import Any

from api.schemas.base import View


class EventView(View, frozen=True, kw_only=True):
    """An event, numbered without gaps."""

    seq: int
    kind: str
    data: Mapping[str, Any]


class EventList(View, frozen=True, kw_only=True):
    """A page of events, oldest first; `nextCursor` is null on the last page."""

    data: list[EventView]
    next_cursor: str | None


class DeltaView(View, frozen=True, kw_only=True):
    """More words of a message in progress, by the number that the message will have."""

    message: int
    action_id: str
    text: str


class ResetView(View, frozen=True, kw_only=True):
    """Retracts the words so far of this message and of any later one."""

    message: int


class TurnPlace(View, frozen=True, kw_only=True):
    """The position of the session after a turn; the ids are empty once it is completed."""

    turn: int
    status: str
    execution_status: str
    phase_id: str
    topic_id: str
    action_id: str
    action_type: str
