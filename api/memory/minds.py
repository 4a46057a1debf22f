"""What a group has in mind, with the room there is for it, as its row keeps it."""

import msgspec
from msgspec import Struct

from runtime.memory.working import Room, Working

CAPACITY_MAX = 1_000
"""Units in a short-term memory."""
CONTEXT_LENGTH_MAX = 1_000
CAPACITY_DEFAULT = 50
"""Where nobody says otherwise."""


class Mind(Struct, frozen=True, omit_defaults=True):
    """The units in mind, and for how many there is room."""

    working: Working = Working()
    room: Room = Room()


def decode_mind(kept: bytes) -> Mind:
    """A mind as it was encoded; an empty one for null."""
    return msgspec.json.decode(kept, type=Mind | None) or Mind()


def encode_mind(mind: Mind) -> bytes:
    """A mind as JSON."""
    return msgspec.json.encode(mind)
