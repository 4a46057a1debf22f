"""Searches of a user's memory and their results, as events and replays store them."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from scripts.expressions.values import Recollections, Value
from scripts.model.memory_plan import K_DEFAULT

Trust: TypeAlias = Literal["own", "conversation", "foreign"]
"""The origin of a text: the script or application (own), users or models (conversation), or an import (foreign)."""

By: TypeAlias = Literal["action", "text", "prompt"]
"""What made a search: an action, a text or expression, or the prompt of a model."""


class RecallWish(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory search. Messages of the session from number `in_sight` on are visible without it and are excluded;
    0: no message is.
    """

    query: str
    k: int = K_DEFAULT
    strategy: Literal["hybrid", "lexical", "dense"] = "hybrid"
    filters: Value = None
    min_score: float | None = None
    context: int = 0  # number of neighbours returned on either side of each unit
    half_life_days: float | None = None  # None: age does not reduce the score
    floor: float = 1.0
    in_sight: int = 0
    now: datetime


class Neighbour(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A neighbour of a unit in its chain."""

    unit_id: str
    text: str
    source: str = ""
    created_at: datetime
    is_before: bool = False


class RecalledUnit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A unit of memory in a search result, with its score and the signals behind it."""

    unit_id: str
    text: str
    source: str = ""
    trust: Trust = "conversation"
    created_at: datetime
    score: float = 0.0
    signals: Mapping[str, float] = {}
    group_id: str = ""
    metadata: Mapping[str, Value] = {}
    around: tuple[Neighbour, ...] = ()  # in chain order


class RecallResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The results of a memory search, the best first."""

    units: tuple[RecalledUnit, ...] = ()


class MemoryLine(Struct, frozen=True):
    """A unit of memory, as a prompt shows it."""

    text: str
    source: str
    time: datetime


def recollections(recalled: RecallResult) -> Recollections:
    """Return the results as a script reads them."""
    return Recollections(
        {
            "text": unit.text,
            "source": unit.source,
            "time": unit.created_at.isoformat(),
            "score": unit.score,
            "metadata": dict(unit.metadata),
            "around": [each.text for each in unit.around],
        }
        for unit in recalled.units
    )


def lines_of(recalled: RecallResult) -> Iterator[MemoryLine]:
    """Yield the results as a prompt shows them: each unit among its neighbours, without duplicates."""
    seen: set[str] = set()
    for unit in recalled.units:
        before = [each for each in unit.around if each.is_before]
        chain: list[Neighbour | RecalledUnit] = [*before, unit, *unit.around[len(before) :]]
        for each in chain:
            if each.unit_id not in seen:
                seen.add(each.unit_id)
                yield MemoryLine(each.text, each.source, each.created_at)
