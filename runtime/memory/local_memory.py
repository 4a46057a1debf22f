"""The memory of one user in this process, for conversations that are not recorded.

It stores a session's messages and notes as the database would, and searches them by words. It is a value: a trial of a
conversation does not change the memory that the trial started from.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

from msgspec import Struct, structs

from runtime.memory.chains import Around, Hit, chains_of, recall_of
from runtime.memory.recall.memory_index import MemoryIndex
from runtime.memory.recall.query import IndexHit, Question, decay_of_days
from runtime.memory.units import ABOUT, MemoryUnit, new_unit, order_of
from runtime.state.events import Event, Message, Remembered
from runtime.state.ports import MemoryFailed
from runtime.state.recall_types import RecallResult, RecallWish
from scripts.expressions.values import Value
from scripts.model.memory_plan import MemoryPlan

UNITS_MAX = 10_000

Matching: TypeAlias = Callable[[Sequence[MemoryUnit], Value], Collection[str]]
"""Returns the ids of the units that match a filter. Raises MemoryFailed."""


def no_filters(units: Sequence[MemoryUnit], filters: Value) -> Collection[str]:
    """Refuse filters. Raises MemoryFailed."""
    raise MemoryFailed("this memory has no filters", retryable=False)


class LocalMemory(Struct, frozen=True, kw_only=True):
    """The last `UNITS_MAX` units, in order; `session` names the user's current conversation."""

    units: tuple[MemoryUnit, ...] = ()
    session: str = "1"
    matching: Matching = no_filters

    def in_session(self, session: str) -> "LocalMemory":
        """Return the same memory in another of the user's conversations."""
        return structs.replace(self, session=session)

    def after(self, events: Iterable[Event], now: datetime, plan: MemoryPlan) -> "LocalMemory":
        """Return the memory with the messages and notes of a turn."""
        memory = self
        for event in events:
            match event.body:
                case Message() as said if plan.remember == "messages" and not plan.is_off and said.content.strip():
                    number, source = f"{self.session}:{said.number}", speaker_of(said.role, said.metadata)
                    memory = memory.with_unit(new_unit(self.session, number, said.content, now, source=source))
                case Remembered() as note:
                    memory = memory.with_unit(note_unit(self.session, note, now))
        return memory

    def with_unit(self, unit: MemoryUnit) -> "LocalMemory":
        """Return the memory with one more unit, which replaces an earlier note on the same subject."""
        about = unit.metadata.get(ABOUT)
        earlier = [
            structs.replace(each, superseded_by=unit.unit_id, valid_to=unit.creation_time)
            if about and each.superseded_by is None and each.metadata.get(ABOUT) == about
            else each
            for each in self.units
        ]
        newest = structs.replace(unit, sequence=self.units[-1].sequence + 1 if self.units else 1)
        return structs.replace(self, units=(*earlier, newest)[-UNITS_MAX:])

    async def recall(self, wish: RecallWish) -> RecallResult:
        """Return the results of a search by words. Raises MemoryFailed."""
        alive = {unit.sequence: unit for unit in self.units if unit.superseded_by is None}
        in_sight = {number for number, unit in alive.items() if self._is_in_sight(unit, wish)}
        sought = [unit for number, unit in alive.items() if number not in in_sight]
        if wish.filters is not None:
            allowed = self.matching(sought, wish.filters)
            sought = [unit for unit in sought if unit.unit_id in allowed]
        found = self._search(sought, wish)
        hits = [Hit(each.sequence, each.score) for each in found]
        groups, order = {number: unit.group_id for number, unit in alive.items()}, order_of(alive.values())
        chains = chains_of(hits, groups, order, k=wish.k, around=Around(units=wish.context), excluded=in_sight)
        return recall_of(chains, alive, {each.sequence: each.signals for each in found})

    def _search(self, sought: Sequence[MemoryUnit], wish: RecallWish) -> list[IndexHit]:
        bank = MemoryIndex()
        bank.add(unit.index_entry({}) for unit in self.units)
        question = Question(
            text=wish.query,
            k=wish.k,
            allowed={unit.sequence for unit in sought},
            strategy="lexical",
            decay=decay_of_days(wish.half_life_days, wish.floor),
            now=wish.now,
            min_score=wish.min_score,
            explain=True,
            with_fillers=wish.filters is not None,
        )
        return bank.search(question)

    def _is_in_sight(self, unit: MemoryUnit, wish: RecallWish) -> bool:
        """Return whether a unit is a message that the model sees without memory."""
        session, _, number = unit.unit_id.rpartition(":")
        is_said_here = session == self.session and number.isdigit()
        return bool(wish.in_sight) and is_said_here and int(number) >= wish.in_sight


def speaker_of(role: str, metadata: Mapping[str, Value]) -> str:
    """Return the name of a message's speaker if its metadata has one, else its role."""
    speaker = metadata.get("speaker")
    name = speaker.get("name") if isinstance(speaker, dict) else None
    return str(name) if name else role


def note_unit(session: str, note: Remembered, at: datetime) -> MemoryUnit:
    """Return the unit of a note."""
    return new_unit(
        session,
        note.unit_id,
        note.text,
        at,
        source=note.source,
        trust=note.trust,
        about=note.about,
        pinned=note.pinned,
        metadata=note.metadata,
    )
