"""What is forgotten when there is too much: the leaves that matter least.

A leaf is a unit that nothing stands under, of any rank: a summary whose units are all forgotten is one. What is kept
from it (`never_delete`) and what is in the context of the open session is never among them (seed 000,
`forgetting.py`).
"""

from collections.abc import Collection
from typing import Literal, TypeAlias, get_args

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from runtime.memory.units import MemoryUnit

Policy: TypeAlias = Literal["oldest", "relevance"]
"""Least first: by last visit, visits and age; or by visits that fade and nearness to what was asked of late."""

HALF_LIFE_ROUNDS = 1_000
ASKED_WEIGHT = 1.0  # how many visits just now a unit is worth that is all that was asked about

Numbers: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]


class Rows(Struct, frozen=True, kw_only=True):
    """An owner's units, column by column."""

    sequence: Numbers
    parent: Numbers  # the sequence of the unit above; 0 for none
    visit_count: Numbers
    last_visit: Numbers
    creation_time: Numbers  # in any unit of time
    never_delete: Flags
    in_context: Flags
    asked: NDArray[np.float64] | None = None  # how near each is to what was asked of late, at most 1


class Forgetting(Struct, frozen=True):
    """How units are forgotten. Raises ValueError for a share or policy that is none."""

    share: float = 0.1  # of those that may be
    policy: Policy = "oldest"

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"{self.share} is no share of the units to forget: give more than 0 and at most 1")
        if self.policy not in get_args(Policy):
            raise ValueError(f"{self.policy!r} is no policy of forgetting: give one of {', '.join(get_args(Policy))}")


class Forgotten(Struct, frozen=True):
    """What is to be deleted, what matters least first, and which units nothing stands under afterwards."""

    sequences: Numbers
    new_leaves: Numbers


def forgettable(
    units: Collection[MemoryUnit],
    how: Forgetting,
    in_context: Collection[int] = (),
    asked: NDArray[np.float64] | None = None,
) -> list[int]:
    """The sequences of an owner's units that are to be forgotten, what matters least first; see `forget`.

    `in_context` are the sequences of protected contexts; `asked` says of each unit how near it is to what was asked of
    late.
    """
    return [int(sequence) for sequence in forget(rows_of(units, in_context, asked), how).sequences]


def rows_of(
    units: Collection[MemoryUnit], in_context: Collection[int] = (), asked: NDArray[np.float64] | None = None
) -> Rows:
    """The columns of units."""
    sequence_of = {unit.unit_id: unit.sequence for unit in units}
    return Rows(
        sequence=np.array([unit.sequence for unit in units], np.int64),
        parent=np.array([sequence_of.get(unit.parent_id or "", 0) for unit in units], np.int64),
        visit_count=np.array([unit.visit_count for unit in units], np.int64),
        last_visit=np.array([unit.last_visit for unit in units], np.int64),
        creation_time=np.array([int(unit.creation_time.timestamp() * 1_000_000) for unit in units], np.int64),
        never_delete=np.array([unit.never_delete for unit in units], np.bool_),
        in_context=np.array([unit.sequence in in_context for unit in units], np.bool_),
        asked=asked,
    )


def forget(rows: Rows, how: Forgetting) -> Forgotten:
    """Of the n leaves that may be forgotten, `max(1, int(n * share))`; none where there are none.

    Deletes nothing: it says what would go.
    """
    eligible = np.flatnonzero(_leaves(rows) & ~rows.never_delete & ~rows.in_context)
    if not len(eligible):
        return Forgotten(rows.sequence[:0], rows.sequence[:0])
    count = max(1, int(len(eligible) * how.share))
    gone = eligible[_least_first(rows, eligible, how.policy)[:count]]
    left = np.ones(len(rows.sequence), np.bool_)
    left[gone] = False
    above = np.unique(rows.parent[gone])
    bare = above[~np.isin(above, rows.parent[left])]
    return Forgotten(rows.sequence[gone], bare[np.isin(bare, rows.sequence)])


def _leaves(rows: Rows) -> Flags:
    """Which units nothing stands under."""
    return ~np.isin(rows.sequence, rows.parent)


def _least_first(rows: Rows, eligible: Numbers, policy: Policy) -> Numbers:
    """The places among the eligible, what matters least first; of equals the earlier unit."""
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
    """Visits, of which each counts half as much after so many rounds, and nearness to what was asked of late."""
    rounds = int(max(rows.sequence.max(), rows.last_visit.max())) - rows.last_visit
    visits = rows.visit_count * np.exp2(-rounds / HALF_LIFE_ROUNDS)
    asked = 0.0 if rows.asked is None else ASKED_WEIGHT * rows.asked
    return np.asarray(visits + asked, np.float64)
