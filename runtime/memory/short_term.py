"""The short-term memory of a session: a queue of the last messages, and a list of recently used units.

The list contains units that left the queue and units that were recalled; the least recently used one leaves it first,
as in MemForest. Both contain only sequences of units, so a session's is small JSON and follows from its events.
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


class ShortTermMemory(Struct, frozen=True, omit_defaults=True):
    """The units in short-term memory and context, and their capacity."""

    working: ShortTermUnits = ShortTermUnits()
    room: Capacity = Capacity()

    def with_messages(self, units: Iterable[int]) -> "ShortTermMemory":
        """Return the memory with the last messages, in this order; units that leave the queue are added to the list."""
        units = tuple(units)
        queue = (*(unit for unit in self.working.context if unit not in units), *units)
        begin = max(len(queue) - self.room.context_length, 0)
        known = tuple(unit for unit in self.working.short_term or () if unit not in queue[begin:])
        return replace(self, working=ShortTermUnits(queue[begin:], self._use(known, queue[:begin])))

    def with_recalled(self, units: Iterable[int]) -> "ShortTermMemory":
        """Return the memory with recalled units, the last one as the latest used. Units in the queue are skipped."""
        return self._with_used(self.working.short_term or (), units)

    def with_restored(self, units: Iterable[int]) -> "ShortTermMemory":
        """Return the memory with its list rebuilt from a session's messages, oldest first."""
        return self._with_used((), units)

    def forgotten(self, units: Collection[int]) -> "ShortTermMemory":
        """Return the memory without deleted units."""
        context = tuple(unit for unit in self.working.context if unit not in units)
        listed = self.working.short_term
        if listed is not None:
            listed = tuple(unit for unit in listed if unit not in units)
        return replace(self, working=ShortTermUnits(context, listed))

    def with_capacity(self, room: Capacity) -> "ShortTermMemory":
        """Return the memory with another capacity of its list, and of its queue from the next message on."""
        return replace(self, room=room).with_recalled(self.working.short_term or ())

    def newest(self, length: int) -> tuple[int, ...]:
        """Return the last `length` units of the queue, oldest first; all if there are fewer."""
        return self.working.context[max(len(self.working.context) - length, 0) :] if length > 0 else ()

    def _with_used(self, known: tuple[int, ...], units: Iterable[int]) -> "ShortTermMemory":
        fresh = tuple(unit for unit in units if unit not in self.working.context)
        return replace(self, working=replace(self.working, short_term=self._use(known, fresh)))

    def _use(self, known: tuple[int, ...], units: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the list after units were used, within its capacity."""
        if self.room.capacity is None:
            return None
        latest = tuple(dict.fromkeys(reversed(units)))[::-1]
        remembered = (*(unit for unit in known if unit not in latest), *latest)
        return remembered[max(len(remembered) - self.room.capacity, 0) :]
