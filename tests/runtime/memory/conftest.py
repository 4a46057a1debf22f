"""Units of memory: said in groups one after another, numbered as the rows number them."""

import itertools
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from runtime.memory.summaries import GroupLimits, Steps, Summarise, Summary, SummaryOptions, SummaryRequest
from runtime.memory.tree import TreeChanges, apply_changes
from runtime.memory.units import MemoryUnit

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


class Memory:
    """An owner's units, numbered from 1 as they come; a summary gets a new number whenever it is rewritten."""

    def __init__(self) -> None:
        self.units: list[MemoryUnit] = []
        self._numbers = itertools.count(1)
        self._ids = itertools.count(1)

    def say(self, *contents: str, group: str = "visit", **more: Any) -> list[MemoryUnit]:
        """Add what is said in a group."""
        said: list[MemoryUnit] = []
        for content in contents:
            number = next(self._numbers)
            at = NOON + timedelta(minutes=number)
            unit = MemoryUnit(
                sequence=number,
                content=content,
                group_id=group,
                unit_id=f"{group}:{number}",
                creation_time=at,
                end_time=at,
                last_visit=number,
            )
            said.append(replace(unit, **more))
        self.units += said
        return said

    def apply(self, changes: TreeChanges) -> None:
        """Do what is to be done to the rows, as one transaction would."""
        assert {unit.unit_id for unit in self.units} >= {*changes.parents, *changes.removed}
        self.units = [
            unit if unit.sequence else replace(unit, sequence=next(self._numbers))
            for unit in apply_changes(self.units, changes)
        ]

    def remove(self, ids: Iterable[str], *, forgotten: bool = False) -> None:
        """Take units out; what tells of them is stale, unless they are only forgotten."""
        parents = {unit.unit_id: unit.parent_id for unit in self.units}
        gone = set(ids)
        stale: set[str] = set()
        for unit_id in () if forgotten else gone:
            above = parents[unit_id]
            while above is not None:
                stale.add(above)
                above = parents.get(above)
        remaining = [unit for unit in self.units if unit.unit_id not in gone]
        self.units = [replace(unit, is_stale=True) if unit.unit_id in stale else unit for unit in remaining]

    def options(
        self, summarise: Summarise, units_max: int = 60, tokens_max: int = 2_000, history: str = ""
    ) -> SummaryOptions:
        return SummaryOptions(
            summarise=summarise,
            ids=lambda: f"s{next(self._ids)}",
            limits=GroupLimits(units_max, tokens_max),
            history=history,
        )

    async def follow(self, steps: Steps) -> int:
        """Apply the steps one by one; return how many there were."""
        count = 0
        async for changes in steps:
            self.apply(changes)
            count += 1
        return count

    def __getitem__(self, unit_id: str) -> MemoryUnit:
        return next(unit for unit in self.units if unit.unit_id == unit_id)

    def under(self, unit_id: str) -> list[str]:
        """Return the contents of the units directly under a summary."""
        return [unit.content for unit in self.units if unit.parent_id == unit_id]


class WordSummarizer:
    """A summarizer that repeats every word, so that a summary shows what it covers; it records its requests."""

    def __init__(self, fails_at: int = 0) -> None:
        self.passages: list[SummaryRequest] = []
        self.fails_at = fails_at

    async def __call__(self, passage: SummaryRequest) -> Summary:
        self.passages.append(passage)
        if len(self.passages) == self.fails_at:
            raise ConnectionError("the model is away")
        words = [*passage.so_far.split(), *(word for unit in passage.units for word in unit.content.split())]
        return Summary(" ".join(dict.fromkeys(words)))

    @property
    def fed(self) -> list[list[str]]:
        """Return the contents of each request."""
        return [[unit.content for unit in passage.units] for passage in self.passages]

    @property
    def fed_said(self) -> list[str]:
        """Return the contents of all messages among the requests."""
        return [unit.content for passage in self.passages for unit in passage.units if unit.rank == 0]


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture(scope="session")
def new_memory() -> type[Memory]:
    """Return the class, for tests that need several memories."""
    return Memory


@pytest.fixture(scope="session")
def word_summarizer() -> type[WordSummarizer]:
    return WordSummarizer
