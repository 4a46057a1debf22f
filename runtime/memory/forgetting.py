"""Selection of units to forget when there are too many: the least important leaves.

A leaf is a unit of any rank without children, such as a summary whose units are all forgotten. Protected units
(`never_delete`) and units in the context of the open session are never selected (as in `forgetting.py` of MemForest).
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Literal, TypeAlias, get_args

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from runtime.memory.units import MemoryUnit

Policy: TypeAlias = Literal["oldest", "relevance"]
"""The order, least important first: by last visit, visits and age; or by decaying visits and recent relevance."""

HALF_LIFE_ROUNDS = 1_000
ASKED_WEIGHT = 1.0  # the worth of full similarity to recent queries, in current visits


class ForgetOptions(Struct, frozen=True):
    """How units are forgotten. Raises ValueError for an invalid share or policy."""

    share: float = 0.1  # of the units that may be forgotten
    policy: Policy = "oldest"

    def __post_init__(self) -> None:
        if not (isinstance(self.share, int | float | np.number) and 0 < self.share <= 1):
            raise ValueError(f"{self.share!r} is not a valid share of units to forget: give more than 0 and at most 1")
        if self.policy not in get_args(Policy):
            raise ValueError(f"{self.policy!r} is not a forgetting policy: give one of {', '.join(get_args(Policy))}")


def forgettable(
    units: Collection[MemoryUnit],
    how: ForgetOptions,
    in_context: Collection[int] = (),
    similarity: Sequence[float] | NDArray[np.float64] | None = None,
) -> list[int]:
    """Return the sequences of an owner's units to forget, least important first.

    Of the n leaves that may be forgotten these are `max(1, n * share)`, rounded down, or none if there are none.
    `in_context` are the sequences of protected contexts; `similarity` has each unit's similarity to recent queries, at
    most 1.
    """
    parents = {unit.parent_id for unit in units}
    newest = max((max(unit.sequence, unit.last_visit) for unit in units), default=0)
    ranked: list[tuple[float, int, int, datetime, int]] = []
    for number, unit in enumerate(units):
        if unit.never_delete or unit.sequence in in_context or unit.unit_id in parents:
            continue
        near = 0.0 if similarity is None else float(similarity[number])
        worth = 0.0 if how.policy == "oldest" else _relevance(unit, newest, near)
        ranked.append((worth, unit.last_visit, unit.visit_count, unit.creation_time, unit.sequence))
    count = max(1, int(len(ranked) * Decimal(str(how.share))))  # as a float, 0.29 of 100 is 28.999…
    return [sequence for *_, sequence in sorted(ranked)[:count]]


def _relevance(unit: MemoryUnit, newest: int, similarity: float) -> float:
    """Return the relevance: visits that decay with a half-life in rounds, plus similarity to recent queries."""
    visits: float = unit.visit_count * 0.5 ** ((newest - unit.last_visit) / HALF_LIFE_ROUNDS)
    return visits + ASKED_WEIGHT * similarity
