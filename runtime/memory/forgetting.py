"""Selection of units to forget when there are too many: the least important leaves.

A leaf is a unit of any rank without children, such as a summary whose units are all forgotten. Protected units
(`never_delete`) and units in the context of the open session are never selected (seed 000, `forgetting.py`).
"""

from collections.abc import Collection
from typing import Literal, TypeAlias, get_args

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from runtime.memory.units import MemoryUnit

Policy: TypeAlias = Literal["oldest", "relevance"]
"""The order, least important first: by last visit, visits and age; or by decaying visits and recent relevance."""

HALF_LIFE_ROUNDS = 1_000
ASKED_WEIGHT = 1.0  # the worth of full similarity to recent queries, in current visits

Numbers: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]


class Rows(Struct, frozen=True, kw_only=True):
    """The columns of an owner's units."""

    sequence: Numbers
    parent: Numbers  # the sequence of the parent; 0 for none
    visit_count: Numbers
    last_visit: Numbers
    creation_time: Numbers  # in any unit of time
    never_delete: Flags
    in_context: Flags
    similarity: NDArray[np.float64] | None = None  # similarity to recent queries, at most 1


class ForgetOptions(Struct, frozen=True):
    """How units are forgotten. Raises ValueError for an invalid share or policy."""

    share: float = 0.1  # of the units that may be forgotten
    policy: Policy = "oldest"

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"{self.share} is not a valid share of units to forget: give more than 0 and at most 1")
        if self.policy not in get_args(Policy):
            raise ValueError(f"{self.policy!r} is not a forgetting policy: give one of {', '.join(get_args(Policy))}")


def forgettable(
    units: Collection[MemoryUnit],
    how: ForgetOptions,
    in_context: Collection[int] = (),
    similarity: NDArray[np.float64] | None = None,
) -> list[int]:
    """Return the sequences of an owner's units to forget, least important first; see `forget`.

    `in_context` are the sequences of protected contexts; `similarity` are the units' similarities to recent queries.
    """
    return [int(sequence) for sequence in forget(rows_of(units, in_context, similarity), how)]


def rows_of(
    units: Collection[MemoryUnit], in_context: Collection[int] = (), similarity: NDArray[np.float64] | None = None
) -> Rows:
    """Return the columns of units."""
    sequence_of = {unit.unit_id: unit.sequence for unit in units}
    return Rows(
        sequence=np.array([unit.sequence for unit in units], np.int64),
        parent=np.array([sequence_of.get(unit.parent_id or "", 0) for unit in units], np.int64),
        visit_count=np.array([unit.visit_count for unit in units], np.int64),
        last_visit=np.array([unit.last_visit for unit in units], np.int64),
        creation_time=np.array([int(unit.creation_time.timestamp() * 1_000_000) for unit in units], np.int64),
        never_delete=np.array([unit.never_delete for unit in units], np.bool_),
        in_context=np.array([unit.sequence in in_context for unit in units], np.bool_),
        similarity=similarity,
    )


def forget(rows: Rows, how: ForgetOptions) -> Numbers:
    """Return the sequences of the units to forget, least important first; deletes nothing.

    Of the n leaves that may be forgotten these are `max(1, int(n * share))`, or none if there are none.
    """
    eligible = np.flatnonzero(_leaves(rows) & ~rows.never_delete & ~rows.in_context)
    if not len(eligible):
        return rows.sequence[:0]
    count = max(1, int(len(eligible) * how.share))
    return rows.sequence[eligible[_least_first(rows, eligible, how.policy)[:count]]]


def _leaves(rows: Rows) -> Flags:
    """Return which units have no children."""
    return ~np.isin(rows.sequence, rows.parent)


def _least_first(rows: Rows, eligible: Numbers, policy: Policy) -> Numbers:
    """Return the indices among the eligible, least important first; of equals the earlier unit."""
    ages = (
        rows.sequence[eligible],
        rows.creation_time[eligible],
        rows.visit_count[eligible],
        rows.last_visit[eligible],
    )
    if policy == "oldest":
        return np.lexsort(ages)
    return np.lexsort((*ages, _relevance(rows)[eligible]))


def _relevance(rows: Rows) -> NDArray[np.float64]:
    """Return the relevance: visits that decay with a half-life in rounds, plus similarity to recent queries."""
    rounds = int(max(rows.sequence.max(), rows.last_visit.max())) - rows.last_visit
    visits = rows.visit_count * np.exp2(-rounds / HALF_LIFE_ROUNDS)
    similarity = 0.0 if rows.similarity is None else ASKED_WEIGHT * rows.similarity
    return np.asarray(visits + similarity, np.float64)
