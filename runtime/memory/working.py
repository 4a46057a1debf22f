"""What a session has in mind: the context queue of what was said last, and behind it short-term memory.

Short-term memory holds what left the queue and what was recalled; what was used least recently leaves it first (seed
000). Both hold no words but the sequences of units, so a session's is small JSON and follows from what happened.
"""

from collections.abc import Collection, Iterable

from msgspec import Struct
from msgspec.structs import replace


class Working(Struct, frozen=True, omit_defaults=True):
    """The units in mind, by sequence."""

    context: tuple[int, ...] = ()  # oldest first
    short_term: tuple[int, ...] | None = None  # least recently used first; None: there is none


class Room(Struct, frozen=True):
    """How much is kept in mind."""

    context_length: int = 10
    capacity: int | None = None  # units in short-term memory; None: it is off


def said(working: Working, units: Iterable[int], room: Room) -> Working:
    """With what was said last, in this order; what the queue has no room for goes to short-term memory."""
    units = tuple(units)
    queue = (*(unit for unit in working.context if unit not in units), *units)
    begin = max(len(queue) - room.context_length, 0)
    known = tuple(unit for unit in working.short_term or () if unit not in queue[begin:])
    return replace(working, context=queue[begin:], short_term=_used(known, queue[:begin], room))


def recalled(working: Working, units: Iterable[int], room: Room) -> Working:
    """With what was recalled: it is used, the last one most recently. What is in the queue is in mind already."""
    fresh = tuple(unit for unit in units if unit not in working.context)
    return replace(working, short_term=_used(working.short_term or (), fresh, room))


def restore(working: Working, units: Iterable[int], room: Room) -> Working:
    """Short-term memory filled anew with what was said in a session, oldest first; empty where nothing was."""
    fresh = tuple(unit for unit in units if unit not in working.context)
    return replace(working, short_term=_used((), fresh, room))


def forgotten(working: Working, units: Collection[int]) -> Working:
    """Without units that are no more."""
    context = tuple(unit for unit in working.context if unit not in units)
    if working.short_term is None:
        return replace(working, context=context)
    return replace(working, context=context, short_term=tuple(unit for unit in working.short_term if unit not in units))


def newest(working: Working, length: int) -> tuple[int, ...]:
    """The last units of the queue, at most so many, oldest first."""
    return working.context[max(len(working.context) - length, 0) :] if length > 0 else ()


def _used(known: tuple[int, ...], units: tuple[int, ...], room: Room) -> tuple[int, ...] | None:
    """Short-term memory after these were used, within its capacity."""
    if room.capacity is None:
        return None
    latest = tuple(dict.fromkeys(reversed(units)))[::-1]
    kept = (*(unit for unit in known if unit not in latest), *latest)
    return kept[max(len(kept) - room.capacity, 0) :]
