"""What a session asks of its user's memory, and what memory gives: values, as events and replays keep them."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from scripts.memories import K_DEFAULT, Recollections
from scripts.values import Value

Trust: TypeAlias = Literal["own", "told", "foreign"]
"""Whose words something is: the script's or application's own, said by users or models, or brought from elsewhere."""

By: TypeAlias = Literal["action", "text", "prompt"]
"""What asked memory: an action, a text or expression, or the prompt of a model."""


class RecallWish(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is asked of memory. Of the session's own messages those from `in_sight` on are at hand without it, and are
    not given; 0: none is.
    """

    query: str
    k: int = K_DEFAULT
    strategy: Literal["hybrid", "lexical", "dense"] = "hybrid"
    filters: Value = None
    min_score: float | None = None
    context: int = 0  # neighbours on either side that come along with each unit
    half_life_days: float | None = None  # None: what is older counts as much
    floor: float = 1.0
    in_sight: int = 0
    now: datetime


class Neighbour(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What stands beside a unit in its chain."""

    unit_id: str
    text: str
    source: str = ""
    created_at: datetime
    is_before: bool = False


class RecalledUnit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A unit of memory that was called up, and why: its score and the signals that went into it."""

    unit_id: str
    text: str
    source: str = ""
    trust: Trust = "told"
    created_at: datetime
    score: float = 0.0
    signals: Mapping[str, float] = {}
    group_id: str = ""
    metadata: Mapping[str, Value] = {}
    around: tuple[Neighbour, ...] = ()  # in their order


class Recalled(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What memory gives, the best first."""

    units: tuple[RecalledUnit, ...] = ()


class MemoryLine(Struct, frozen=True):
    """Something remembered, as a model is told of it."""

    text: str
    source: str
    time: datetime


def recollections(recalled: Recalled) -> Recollections:
    """What was called up, as a script reads it."""
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


def lines_of(recalled: Recalled) -> Iterator[MemoryLine]:
    """What was called up, as a model is told of it: each unit among its neighbours, nothing twice."""
    told: set[str] = set()
    for unit in recalled.units:
        before = [each for each in unit.around if each.is_before]
        chain: list[Neighbour | RecalledUnit] = [*before, unit, *unit.around[len(before) :]]
        for each in chain:
            if each.unit_id not in told:
                told.add(each.unit_id)
                yield MemoryLine(each.text, each.source, each.created_at)
