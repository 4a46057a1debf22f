"""Hand-overs: people who talk in place of the script."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from api.schemas.base import Body, View
from scripts.expressions.values import TEXT_CHARS_MAX
from store.interface.hand_over_rows import HandOverStatus


class SessionHandOver(View, frozen=True, kw_only=True):
    """Whether a person is asked to join a session, or talks in it."""

    status: HandOverStatus
    since: datetime
    """When the person was asked for, else when they took the session over."""
    action_id: str
    """The action that asked for a person; empty if none did."""
    operator: str
    """The person who has taken it over; empty if nobody has."""


class HandOverView(SessionHandOver, frozen=True, kw_only=True):
    """A session that a person is asked to join, or talks in."""

    session_id: str
    user_id: str
    script_id: str
    """The key of its script."""
    turn: int
    """The last turn of the session."""
    has_ended: bool
    """Whether the conversation is over; the request stays until somebody gives the session back."""


class HandOverList(View, frozen=True, kw_only=True):
    """A page of sessions for a person, those that wait longest first; `nextCursor` is null on the last page."""

    data: list[HandOverView]
    next_cursor: str | None


class NewSpeech(Body, frozen=True, kw_only=True):
    """What the person says who has taken the session over."""

    content: Annotated[str, Meta(min_length=1, max_length=TEXT_CHARS_MAX)]
