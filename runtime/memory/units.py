"""What memory is made of: a unit, its place in time and its place in the tree of summaries.

The only edge a unit carries is `parent_id`. Who stands before and after it, and what is under it, are derived from the
units themselves (`order_of` gives the first), so that links never get out of step.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from scripts.values import Value

Rank: TypeAlias = Literal[0, 1, 2]
"""What a unit is: 0 something said or noted, 1 a summary within its group, 2 a summary of many groups."""

Trust: TypeAlias = Literal["own", "told", "foreign"]
"""Whose words: the script's or application's own, told by users or models, or imported from elsewhere."""

NOT_NUMBERED = 0
"""The sequence of a unit that has no row yet; whoever writes the row gives it the owner's next one."""

_BY_TRUST: tuple[Trust, ...] = ("foreign", "told", "own")


class MemoryUnit(Struct, frozen=True, kw_only=True):
    """One unit of an owner's memory.

    `sequence` counts an owner's units from 1 and is never used again: it is the unit's place in time and the label of
    its vector. A summary that is told anew keeps its id and gets a new sequence, for its words are new. `level` is the
    height in the tree of its own rank: a session's summaries stand above what was said, the long-term ones above the
    sessions' roots. A visit is as late as the owner's newest sequence was then.
    """

    unit_id: str
    sequence: int = NOT_NUMBERED
    content: str
    source: str = ""  # who said it, or what it was made by
    creation_time: datetime
    end_time: datetime
    metadata: Mapping[str, Value] = {}
    rank: Rank = 0
    level: int = 0
    group_id: str  # the chain it belongs to: a session, a collection, or for rank 2 the memory itself
    parent_id: str | None = None  # the summary it is told in
    visit_count: int = 0
    last_visit: int = 0  # the round of its last visit
    never_delete: bool = False
    trust: Trust = "told"
    is_extract: bool = False  # a summary made of sentences of its sources, by no model
    is_stale: bool = False  # a summary of what is no more, or was corrected: to be told anew from what is under it
    tells_from: int = 0  # of a summary, the first sequence of what was said that it tells of: its place among others
    valid_from: datetime | None = None  # None: since it was created
    valid_to: datetime | None = None  # None: until further notice
    superseded_by: str | None = None  # the unit that says otherwise since
    duplicate_of: str | None = None  # the earlier unit that says the same


def least_trust(units: Iterable[MemoryUnit]) -> Trust:
    """How far what is made of all these can be trusted: as far as the least of them."""
    return min((unit.trust for unit in units), key=_BY_TRUST.index, default="own")


def order_of(units: Iterable[MemoryUnit]) -> dict[str, list[int]]:
    """For each group the sequences of what was said in it, oldest first: a unit's neighbours stand beside it."""
    order: dict[str, list[int]] = {}
    for unit in sorted(units, key=lambda unit: unit.sequence):
        if unit.rank == 0:
            order.setdefault(unit.group_id, []).append(unit.sequence)
    return order
