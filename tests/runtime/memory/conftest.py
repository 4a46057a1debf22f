"""Units of memory: said in groups one after another, numbered as the rows number them."""

import itertools
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from runtime.memory.summarising import GroupLimits, Passage, Steps, Summarise, Telling, Told
from runtime.memory.tree import Changes, applied
from runtime.memory.units import MemoryUnit

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


class Memory:
    """An owner's units, numbered from 1 as they come; summaries are numbered anew whenever they are told."""

    def __init__(self) -> None:
        self.units: list[MemoryUnit] = []
        self._numbers = itertools.count(1)
        self._ids = itertools.count(1)

    def say(self, *contents: str, group: str = "visit", **more: Any) -> list[MemoryUnit]:
        """Adds what is said in a group."""
        said: list[MemoryUnit] = []
        for content in contents:
            number = next(self._numbers)
            at = NOON + timedelta(minutes=number)
            given = {"unit_id": f"{group}:{number}", "creation_time": at, "end_time": at, "last_visit": number} | more
            said.append(MemoryUnit(sequence=number, content=content, group_id=group, **given))
        self.units += said
        return said

    def apply(self, changes: Changes) -> None:
        """Does what is to be done to the rows, as one transaction would."""
        assert {unit.unit_id for unit in self.units} >= {*changes.parents, *changes.removed}
        self.units = [
            unit if unit.sequence else replace(unit, sequence=next(self._numbers))
            for unit in applied(self.units, changes)
        ]

    def remove(self, ids: Iterable[str], *, forgotten: bool = False) -> None:
        """Takes units out; what tells of them is stale, unless they are only forgotten."""
        parents = {unit.unit_id: unit.parent_id for unit in self.units}
        gone = set(ids)
        stale: set[str] = set()
        for unit_id in () if forgotten else gone:
            above = parents[unit_id]
            while above is not None:
                stale.add(above)
                above = parents.get(above)
        kept = [unit for unit in self.units if unit.unit_id not in gone]
        self.units = [replace(unit, is_stale=True) if unit.unit_id in stale else unit for unit in kept]

    def telling(self, summarise: Summarise, units_max: int = 60, tokens_max: int = 2_000, history: str = "") -> Telling:
        return Telling(
            summarise=summarise,
            ids=lambda: f"s{next(self._ids)}",
            limits=GroupLimits(units_max, tokens_max),
            history=history,
        )

    async def follow(self, steps: Steps) -> int:
        """Applies step by step; how many there were."""
        count = 0
        async for changes in steps:
            self.apply(changes)
            count += 1
        return count

    def __getitem__(self, unit_id: str) -> MemoryUnit:
        return next(unit for unit in self.units if unit.unit_id == unit_id)

    def under(self, unit_id: str) -> list[str]:
        """The contents of what stands directly under a summary."""
        return [unit.content for unit in self.units if unit.parent_id == unit_id]


class Teller:
    """Tells every unit it was fed, so that what a summary covers can be read off it, and keeps what it was asked."""

    def __init__(self, fails_at: int = 0) -> None:
        self.passages: list[Passage] = []
        self.fails_at = fails_at

    async def __call__(self, passage: Passage) -> Told:
        self.passages.append(passage)
        if len(self.passages) == self.fails_at:
            raise ConnectionError("the model is away")
        words = [*passage.so_far.split(), *(word for unit in passage.units for word in unit.content.split())]
        return Told(" ".join(dict.fromkeys(words)))

    @property
    def fed(self) -> list[list[str]]:
        """For each time it was asked, the contents it was to tell."""
        return [[unit.content for unit in passage.units] for passage in self.passages]

    @property
    def fed_said(self) -> list[str]:
        """All that was said among it."""
        return [unit.content for passage in self.passages for unit in passage.units if unit.rank == 0]


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture(scope="session")
def new_memory() -> type[Memory]:
    """For tests that need several."""
    return Memory


@pytest.fixture(scope="session")
def teller() -> type[Teller]:
    return Teller
