"""What is forgotten when there is too much: the leaves that matter least.

A leaf is a unit that nothing stands under, of any rank: a summary whose units are all forgotten is one. What is kept
from it (`never_delete`) and what is in a live context is never among them (seed 000, `forgetting.py`).
"""

from typing import Literal, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

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


class Forgotten(Struct, frozen=True):
    """What is to be deleted, what matters least first, and which units nothing stands under afterwards."""

    sequences: Numbers
    new_leaves: Numbers


def forget(rows: Rows, share: float, policy: Policy = "oldest") -> Forgotten:
    """Of the n leaves that may be forgotten, `max(1, int(n * share))`; none where there are none.

    Deletes nothing: it says what would go. Raises ValueError for a share that is none.
    """
    if not 0 < share <= 1:
        raise ValueError(f"{share} is no share of the units to forget: give more than 0 and at most 1")
    eligible = np.flatnonzero(_leaves(rows) & ~rows.never_delete & ~rows.in_context)
    if not len(eligible):
        return Forgotten(rows.sequence[:0], rows.sequence[:0])
    count = max(1, int(len(eligible) * share))
    gone = eligible[_least_first(rows, eligible, policy)[:count]]
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
