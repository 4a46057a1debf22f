"""The short-term memory of a session: a queue of the last messages, and a list of recently used units.

The list contains units that left the queue and units that were recalled; the least recently used one leaves it first
(seed 000). Both contain only sequences of units, so a session's is small JSON and follows from its events.
"""

from collections.abc import Collection, Iterable

from msgspec import Struct
from msgspec.structs import replace


class ShortTermUnits(Struct, frozen=True, omit_defaults=True):
    """The units in short-term memory, by sequence."""

    context: tuple[int, ...] = ()  # oldest first
    short_term: tuple[int, ...] | None = None  # least recently used first; None: there is none


class Capacity(Struct, frozen=True):
    """The capacity of short-term memory."""

    context_length: int = 10
    capacity: int | None = None  # units in short-term memory; None: it is off


def said(memory: ShortTermUnits, units: Iterable[int], limits: Capacity) -> ShortTermUnits:
    """Return the memory with the last messages, in this order; units that leave the queue are added to the list."""
    units = tuple(units)
    queue = (*(unit for unit in memory.context if unit not in units), *units)
    begin = max(len(queue) - limits.context_length, 0)
    known = tuple(unit for unit in memory.short_term or () if unit not in queue[begin:])
    return replace(memory, context=queue[begin:], short_term=_used(known, queue[:begin], limits))


def recalled(memory: ShortTermUnits, units: Iterable[int], limits: Capacity) -> ShortTermUnits:
    """Return the memory with recalled units, the last one as the most recently used. Units in the queue are skipped."""
    fresh = tuple(unit for unit in units if unit not in memory.context)
    return replace(memory, short_term=_used(memory.short_term or (), fresh, limits))


def restore(memory: ShortTermUnits, units: Iterable[int], limits: Capacity) -> ShortTermUnits:
    """Return the memory with its list rebuilt from a session's messages, oldest first."""
    fresh = tuple(unit for unit in units if unit not in memory.context)
    return replace(memory, short_term=_used((), fresh, limits))


def forgotten(memory: ShortTermUnits, units: Collection[int]) -> ShortTermUnits:
    """Return the memory without deleted units."""
    context = tuple(unit for unit in memory.context if unit not in units)
    if memory.short_term is None:
        return replace(memory, context=context)
    return replace(memory, context=context, short_term=tuple(unit for unit in memory.short_term if unit not in units))


def newest(memory: ShortTermUnits, length: int) -> tuple[int, ...]:
    """Return the last units of the queue, at most so many, oldest first."""
    return memory.context[max(len(memory.context) - length, 0) :] if length > 0 else ()


def _used(known: tuple[int, ...], units: tuple[int, ...], limits: Capacity) -> tuple[int, ...] | None:
    """Return the list after units were used, within its capacity."""
    if limits.capacity is None:
        return None
    latest = tuple(dict.fromkeys(reversed(units)))[::-1]
    remembered = (*(unit for unit in known if unit not in latest), *latest)
    return remembered[max(len(remembered) - limits.capacity, 0) :]
