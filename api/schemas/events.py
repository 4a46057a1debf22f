"""What is told of what happens in a session, whole or while it still happens."""

from collections.abc import Mapping
from typing import Any

from api.schemas.base import View


class EventView(View, frozen=True, kw_only=True):
    """Something that happened, numbered without gaps."""

    seq: int
    kind: str
    data: Mapping[str, Any]


class EventList(View, frozen=True, kw_only=True):
    """A page of events, oldest first; `nextAfter` is the number to go on after, or null at the end."""

    data: list[EventView]
    next_after: int | None
    success: bool = True


class DeltaView(View, frozen=True, kw_only=True):
    """More words of a message that is being said, by the number it will have."""

    message: int
    action_id: str
    text: str


class ResetView(View, frozen=True, kw_only=True):
    """The words so far of this message, and of any after it, are taken back."""

    message: int


class TurnPlace(View, frozen=True, kw_only=True):
    """Where a turn left the session; the ids are empty once it is completed."""

    turn: int
    status: str
    execution_status: str
    phase_id: str
    topic_id: str
    action_id: str
    action_type: str
