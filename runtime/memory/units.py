"""The unit of memory, with its position in time and in the tree of summaries.

The only link a unit stores is `parent_id`. Its neighbours and children are derived from the units (`order_of` gives
the neighbours), so that links are always consistent.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from runtime.memory.recall.query import IndexEntry
from runtime.state.recall_types import Trust
from scripts.expressions.values import Value

Rank: TypeAlias = Literal[0, 1, 2]
"""The kind of a unit: 0 a message or note, 1 a summary within its group, 2 a summary of several groups."""

NOT_NUMBERED = 0
"""The sequence of a unit without a row; the writer of the row assigns the owner's next sequence."""

ABOUT = "about"  # the key of a note's metadata for its subject

_BY_TRUST: tuple[Trust, ...] = ("foreign", "conversation", "own")


class MemoryUnit(Struct, frozen=True, kw_only=True):
    """One unit of an owner's memory.

    `sequence` counts an owner's units from 1 and is never reused: it is the unit's position in time and the label of
    its vector. A rewritten summary keeps its id and gets a new sequence, because its text is new. `level` is the height
    in the tree of its own rank: a session's summaries are above its messages, the long-term ones above the sessions'
    roots. The time of a visit is the owner's newest sequence at that moment.
    """

    unit_id: str
    sequence: int = NOT_NUMBERED
    content: str
    source: str = ""  # its speaker, or what created it
    creation_time: datetime
    end_time: datetime
    metadata: Mapping[str, Value] = {}
    rank: Rank = 0
    level: int = 0
    group_id: str  # its chain: a session, a collection, or for rank 2 the memory itself
    parent_id: str | None = None  # the summary that covers it
    visit_count: int = 0
    last_visit: int = 0  # the round of its last visit
    never_delete: bool = False
    trust: Trust = "conversation"
    is_extract: bool = False  # a summary made of sentences of its sources, without a model
    is_stale: bool = False  # a summary of deleted or corrected units, to be rebuilt from the units under it
    tells_from: int = 0  # of a summary, the first sequence it covers: its position among others
    valid_from: datetime | None = None  # None: since its creation
    valid_to: datetime | None = None  # None: no end
    superseded_by: str | None = None  # the unit that replaces it
    duplicate_of: str | None = None  # the earlier unit that says the same

    def index_entry(self, sequences: Mapping[str, int]) -> IndexEntry:
        """Return its entry in an index; `sequences` are those of the other units, by their ids."""
        return IndexEntry(
            sequence=self.sequence,
            group=self.group_id,
            rank=self.rank,
            source=self.source,
            created_at=self.creation_time,
            content=self.content,
            parent=None if self.parent_id is None else sequences.get(self.parent_id),
            is_pinned=self.never_delete,
        )


def new_unit(
    group_id: str,
    unit_id: str,
    text: str,
    at: datetime,
    *,
    source: str,
    trust: Trust = "conversation",
    about: str = "",
    pinned: bool = False,
    metadata: Mapping[str, Value] = {},
) -> MemoryUnit:
    """Return the unit of a message or note."""
    return MemoryUnit(
        unit_id=unit_id,
        content=text,
        source=source,
        creation_time=at,
        end_time=at,
        metadata={**metadata, **({ABOUT: about} if about else {})},
        group_id=group_id,
        never_delete=pinned,
        trust=trust,
    )


def least_trust(units: Iterable[MemoryUnit]) -> Trust:
    """Return the trust of a text made from all these units: the minimum of theirs."""
    return min((unit.trust for unit in units), key=_BY_TRUST.index, default="own")


def order_of(units: Iterable[MemoryUnit]) -> dict[str, list[int]]:
    """Return the sequences of each group's messages, oldest first: adjacent ones are neighbours."""
    order: dict[str, list[int]] = {}
    for unit in sorted(units, key=lambda unit: unit.sequence):
        if unit.rank == 0:
            order.setdefault(unit.group_id, []).append(unit.sequence)
    return order
