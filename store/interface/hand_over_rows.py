"""The row type of sessions that a person is asked to join, or talks in."""

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

HandOverStatus: TypeAlias = Literal["requested", "taken"]


class HandOverRow(msgspec.Struct, frozen=True, kw_only=True):
    """A session for a person."""

    tenant: str
    session_id: str
    """A UUID."""
    user_id: str
    turn: int
    """The last turn of the session."""
    script_id: str
    """The key of its script."""
    status: HandOverStatus
    since: datetime
    """When the person was asked for, else when they took the session over."""
    action_id: str
    """The action that asked for a person; empty if none did."""
    operator: str
    """The person who has taken it over; empty if nobody has."""
    has_ended: bool
    """Whether the conversation is over."""
