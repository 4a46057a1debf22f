"""The memory of one user in this process: for conversations that nobody records.

What a session says and notes is remembered as the record would, and found by its words. It is a value: a conversation
that is tried from a point on leaves no trace in the memory it began with.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from typing import TypeAlias

from msgspec import Struct, structs

from runtime.events import Event, Message, Remembered
from runtime.memory.units import MemoryUnit
from runtime.ports import MemoryFailed
from runtime.recalled import Neighbour, Recalled, RecalledUnit, RecallWish
from scripts.memories import MemoryPlan
from scripts.values import Value

UNITS_MAX = 10_000
ABOUT = "about"  # the key of a note's metadata that says what it is about

Matching: TypeAlias = Callable[[Sequence[MemoryUnit], Value], Collection[str]]
"""The ids of the units that a filter is true of. Raises MemoryFailed."""


def no_filters(units: Sequence[MemoryUnit], filters: Value) -> Collection[str]:
    """Refuses filters. Raises MemoryFailed."""
    raise MemoryFailed("this memory has no filters", retryable=False)


class LocalMemory(Struct, frozen=True, kw_only=True):
    """Everything remembered so far, in order, up to `UNITS_MAX`; `session` counts the user's conversations."""

    units: tuple[MemoryUnit, ...] = ()
    session: int = 1
    matching: Matching = no_filters

    def begun_again(self) -> "LocalMemory":
        """The same at the beginning of the user's next conversation."""
        return structs.replace(self, session=self.session + 1)

    def after(self, events: Iterable[Event], now: datetime, plan: MemoryPlan) -> "LocalMemory":
        """With what a turn of the conversation leaves."""
        memory = self
        for event in events:
            match event.body:
                case Message() as said if plan.remember == "messages" and not plan.is_off and said.content.strip():
                    memory = memory.with_note(
                        said.content, now, unit_id=f"{self.session}:{said.number}", source=said.role
                    )
                case Remembered() as note:
                    memory = memory.with_note(
                        note.text,
                        now,
                        unit_id=note.unit_id,
                        source=note.source,
                        about=note.about,
                        pinned=note.pinned,
                        metadata=dict(note.metadata),
                        is_own=note.trust == "own",
                    )
                case _:
                    pass
        return memory

    def with_note(
        self,
        text: str,
        now: datetime,
        *,
        unit_id: str,
        source: str,
        about: str = "",
        pinned: bool = False,
        metadata: dict[str, Value] | None = None,
        is_own: bool = False,
    ) -> "LocalMemory":
        """With one unit more, which takes the place of an earlier note about the same."""
        unit = MemoryUnit(
            unit_id=unit_id,
            content=text,
            source=source,
            creation_time=now,
            end_time=now,
            metadata={**(metadata or {}), **({ABOUT: about} if about else {})},
            group_id=str(self.session),
            never_delete=pinned,
            trust="own" if is_own else "told",
        )
        return self.with_unit(unit)

    def with_unit(self, unit: MemoryUnit) -> "LocalMemory":
        """With one unit more, as the newest."""
        about = unit.metadata.get(ABOUT)
        earlier = [
            structs.replace(each, superseded_by=unit.unit_id, valid_to=unit.creation_time)
            if about and each.superseded_by is None and each.metadata.get(ABOUT) == about
            else each
            for each in self.units
        ]
        newest = structs.replace(unit, sequence=self.units[-1].sequence + 1 if self.units else 1)
        return structs.replace(self, units=(*earlier, newest)[-UNITS_MAX:])

    async def recall(self, wish: RecallWish) -> Recalled:
        """What it holds of something, found by its words. Raises MemoryFailed."""
        sought = [each for each in self.units if each.superseded_by is None and not self._is_in_sight(each, wish)]
        if wish.filters is not None:
            allowed = self.matching(sought, wish.filters)
            sought = [each for each in sought if each.unit_id in allowed]
        found = _found(sought, wish)
        return Recalled(units=tuple(self._recalled(unit, score, wish) for unit, score in found))

    def _is_in_sight(self, unit: MemoryUnit, wish: RecallWish) -> bool:
        """Whether it is a message that is at hand without memory."""
        session, _, number = unit.unit_id.partition(":")
        is_said_here = session == str(self.session) and number.isdigit()
        return bool(wish.in_sight) and is_said_here and int(number) >= wish.in_sight

    def _recalled(self, unit: MemoryUnit, score: float, wish: RecallWish) -> RecalledUnit:
        chain = [each for each in self.units if each.group_id == unit.group_id and each.superseded_by is None]
        at = chain.index(unit)
        near = [*chain[max(at - wish.context, 0) : at], *chain[at + 1 : at + 1 + wish.context]]
        return RecalledUnit(
            unit_id=unit.unit_id,
            text=unit.content,
            source=unit.source,
            trust=unit.trust,
            created_at=unit.creation_time,
            score=score,
            group_id=unit.group_id,
            metadata=dict(unit.metadata),
            around=tuple(
                Neighbour(
                    unit_id=each.unit_id,
                    text=each.content,
                    source=each.source,
                    created_at=each.creation_time,
                    is_before=each.sequence < unit.sequence,
                )
                for each in near
                if not self._is_in_sight(each, wish)
            ),
        )


_WORD = re.compile(r"[\u3400-\u9fff]|[^\W_]+")


def _terms(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.casefold()))


def _found(units: Sequence[MemoryUnit], wish: RecallWish) -> list[tuple[MemoryUnit, float]]:
    held = [_terms(f"{unit.content} {unit.metadata.get(ABOUT, '')}") for unit in units]
    often = Counter(term for each in held for term in each)
    asked = _terms(wish.query)
    scored = [
        (unit, sum(math.log(1 + len(units) / often[term]) for term in asked if term in terms))
        for unit, terms in zip(units, held, strict=True)
    ]
    scored = [(unit, score) for unit, score in scored if score > 0 and score >= (wish.min_score or 0)]
    return sorted(scored, key=lambda each: (-each[1], -each[0].sequence))[: wish.k]
