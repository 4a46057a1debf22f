"""The in-memory copy of one user's memory, with everything that queries and maintenance need.

Only committed changes modify it (`apply`). If a write fails, the copy is dropped and loaded again, so that it never
differs from the database.
"""

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from api.memory.row_mapping import Origin, unit_of, with_relation
from api.schemas.memory_errors import InvalidMemoryRequest
from runtime.memory.duplicates import holds_at
from runtime.memory.recall.memory_index import MemoryIndex
from runtime.memory.short_term import ShortTermMemory
from runtime.memory.units import MemoryUnit
from store.interface.memory_rows import GroupRow, MemoryChange, OwnerRow, Relation, UnitRow, VectorRows, Visit
from store.vectors.index import VectorIndex

RECENT_QUERIES_MAX = 20
"""Number of recent query vectors; units near to them are forgotten later."""

OwnerId: TypeAlias = tuple[str, str]
"""Tenant and user of a memory."""


class WriteBuffer:
    """Buffers changes that are applied in RAM and written later: visits, and short-term memories of groups."""

    def __init__(self) -> None:
        self._visits: dict[int, Visit] = {}
        self._groups: dict[str, GroupRow] = {}

    def __bool__(self) -> bool:
        return bool(self._visits or self._groups)

    def add(self, change: MemoryChange) -> None:
        """Add a change; it replaces earlier changes of the same units and groups."""
        self._visits |= {visit.sequence: visit for visit in change.visits}
        self._groups |= {group.group_id: group for group in change.groups}

    def drain(self, tenant: str, user_id: str) -> MemoryChange:
        """Return the buffered changes as one, and empty the buffer."""
        visits, groups = list(self._visits.values()), list(self._groups.values())
        self._visits, self._groups = {}, {}
        return MemoryChange(tenant=tenant, user_id=user_id, visits=visits, groups=groups)


class LoadedMemory:
    """A memory in RAM. Hold `lock` to read or change it."""

    def __init__(self, owner: OwnerRow, bank: MemoryIndex, embedder: str | None, dimension: int) -> None:
        self.lock = asyncio.Lock()
        self.owner = owner
        self.embedder = embedder  # whose vectors are in the bank
        self.is_behind = True  # turns may have been committed since the last ingest
        self.is_dropped = False
        self.version = 0  # of the rows, where several servers may change them
        self.bank = bank
        self.unwritten = WriteBuffer()
        self.index: VectorIndex | None = None  # if there are many vectors
        self.groups: dict[str, GroupRow] = {}
        self.short_terms: dict[str, ShortTermMemory] = {}
        self.units: dict[int, MemoryUnit] = {}
        self.origins: dict[int, Origin] = {}
        self.sequence_of: dict[str, int] = {}
        self.of_rank: dict[int, set[int]] = {}
        self.order: dict[str, list[int]] = {}  # by group: its units of rank 0, oldest first
        self.without_vector: dict[int, None] = {}  # of no embedder, in order
        self.seen_otherwise: dict[int, None] = {}  # with vectors of other embedders, but none of this one, in order
        self.dimension = dimension
        # vectors of queries, latest last
        self.recent_queries: deque[NDArray[np.float32]] = deque(maxlen=RECENT_QUERIES_MAX)
        self.stale: set[int] = set()  # summaries that are withdrawn until they are written again
        self.first_copies: dict[str, int] = {}  # of each unit that has duplicates, the first of them, by its id
        self.superseded: set[int] = set()  # units with a limited time of validity

    @property
    def id(self) -> OwnerId:
        """Return the tenant and user of the memory."""
        return self.owner.tenant, self.owner.user_id

    @property
    def round(self) -> int:
        """Return the number of the latest unit, by which visits are dated."""
        return self.owner.sequence

    @property
    def summarisable(self) -> set[int]:
        """Return the units that summaries may contain: neither withdrawn summaries nor superseded units."""
        superseded = {sequence for sequence in self.superseded if self.units[sequence].superseded_by is not None}
        return self.units.keys() - self.stale - superseded

    def get(self, unit_id: str) -> MemoryUnit | None:
        """Return a unit by its id, including withdrawn summaries."""
        sequence = self.sequence_of.get(unit_id)
        return None if sequence is None else self.units[sequence]

    def visible_unit(self, unit_id: str) -> MemoryUnit | None:
        """Return a unit for a reader: None if there is none, or if it is a withdrawn summary."""
        unit = self.get(unit_id)
        return None if unit is None or unit.is_stale else unit

    def without_withdrawn(self, unit: MemoryUnit) -> MemoryUnit:
        """Return a unit for a reader: without a parent if that is withdrawn."""
        parent = self.sequence_of.get(unit.parent_id or "")
        return replace(unit, parent_id=None) if parent in self.stale else unit

    def above(self, sequence: int) -> list[int]:
        """Return the summaries above a unit, nearest first; none for an unknown unit."""
        found: list[int] = []
        unit = self.units.get(sequence)
        if unit is None:
            return found
        while unit.parent_id is not None:
            parent = self.sequence_of.get(unit.parent_id)
            if parent is None or parent in found:
                break
            found.append(parent)
            unit = self.units[parent]
        return found

    def session_of(self, group_id: str) -> str | None:
        """Return the session of a group, or None if the group is a collection or unknown."""
        group = self.groups.get(group_id)
        return None if group is None else group.session_id

    def require_group(self, group_id: str) -> None:
        """Raise InvalidMemoryRequest if there is no such group."""
        if group_id not in self.groups:
            raise InvalidMemoryRequest(f"there is no session or collection {group_id!r} in this memory")

    def short_term(self, group_id: str) -> ShortTermMemory:
        """Return the short-term memory of a group."""
        return self.short_terms.get(group_id) or ShortTermMemory()

    def neighbours(self, sequence: int) -> tuple[str | None, str | None]:
        """Return the ids of the units before and after a unit in its group."""
        unit = self.units[sequence]
        order = self.order.get(unit.group_id, []) if unit.rank == 0 else []
        place = bisect_left(order, sequence)
        before = self.units[order[place - 1]].unit_id if order and place > 0 else None
        after = self.units[order[place + 1]].unit_id if place + 1 < len(order) else None
        return before, after

    def open_context(self) -> tuple[int, ...]:
        """Return the context of the open group: the one that received the latest unit."""
        _, group_id = max(((order[-1], group_id) for group_id, order in self.order.items() if order), default=(0, ""))
        return self.short_term(group_id).working.context

    def messages_from(self, session_id: str, number: int) -> tuple[int, ...]:
        """Return the units of a session's messages from message `number` on."""
        found: list[int] = []
        for sequence in reversed(self.order.get(session_id, [])):
            message = self.origins[sequence].message
            if message is not None and message < number:
                break
            if message is not None:
                found.append(sequence)
        return tuple(found)

    def not_valid(self, at: datetime) -> list[int]:
        """Return the units that are not valid at a time: superseded before it, or valid only later."""
        return [sequence for sequence in self.superseded if not holds_at(self.units[sequence], at)]

    def not_of(self, ranks: Collection[int]) -> list[int]:
        """Return the units of other ranks."""
        return [sequence for rank, of_rank in self.of_rank.items() if rank not in ranks for sequence in of_rank]

    def not_there(self, at: datetime) -> list[int]:
        """Return the units that are not valid at a time, or were created later."""
        return [
            sequence
            for sequence, unit in self.units.items()
            if unit.creation_time > at or (sequence in self.superseded and not holds_at(unit, at))
        ]

    def apply(self, change: MemoryChange) -> None:
        """Apply a committed change."""
        if change.owner is not None:
            self.owner = change.owner
        for group_id in change.groups_removed:
            self.groups.pop(group_id, None)
            self.short_terms.pop(group_id, None)
        for group in change.groups:
            self.groups[group.group_id] = group
            found = msgspec.json.decode(group.short_term, type=ShortTermMemory | None)
            self.short_terms[group.group_id] = found or ShortTermMemory()
        self._remove(change.removed)
        self.add(change.units)
        for visit in change.visits:
            visited = replace(self.units[visit.sequence], visit_count=visit.visit_count, last_visit=visit.last_visit)
            self.units[visit.sequence] = visited
        for relation in change.relations:
            self._relate(relation)
        if change.vectors is not None and change.vectors.embedder == self.embedder:
            self.add_vectors(change.vectors.sequences, change.vectors.vectors)

    def _relate(self, relation: Relation) -> None:
        unit = with_relation(self.units[relation.sequence], relation)
        self.units[relation.sequence] = unit
        self._note(unit)
        if relation.is_stale:
            self._withdraw(relation.sequence)
            return
        parent = None if relation.parent_id is None else self.sequence_of.get(relation.parent_id)
        self.bank.place_under(parent, [relation.sequence])
        self.bank.pin(relation.sequence, is_pinned=relation.never_delete)
        self._link_duplicate(unit)

    def _link_duplicate(self, unit: MemoryUnit) -> None:
        """Link a duplicate in the index to the unit that it repeats, or if that was removed, to the first other one."""
        if unit.duplicate_of is not None:
            original = self.sequence_of.get(unit.duplicate_of) or self.first_copies[unit.duplicate_of]
            self.bank.link_duplicate(unit.sequence, original)

    def _withdraw(self, sequence: int) -> None:
        """Remove a stale summary from the indexes; the unit stays, so that the new summary takes its place."""
        self.without_vector.pop(sequence, None)
        self.seen_otherwise.pop(sequence, None)
        self._unlist([sequence])

    def _unlist(self, sequences: Collection[int]) -> None:
        """Remove units from the indexes."""
        self.bank.remove(sequences)
        if self.index is not None:
            self.index.remove(np.array(sorted(sequences), np.int64))

    def add(self, rows: Sequence[UnitRow]) -> None:
        """Add units that are in the database, in the order of their numbers."""
        entries = []
        for row in rows:
            unit = unit_of(row)
            self.units[row.sequence] = unit
            self.origins[row.sequence] = Origin(row.session_id, row.turn, row.message)
            self.sequence_of[unit.unit_id] = row.sequence
            self._note(unit)
            self.of_rank.setdefault(unit.rank, set()).add(row.sequence)
            if unit.rank == 0:
                self.order.setdefault(unit.group_id, []).append(row.sequence)
            if unit.is_stale:  # withdrawn: it has no content to search
                continue
            if self.embedder is not None:
                self.without_vector[row.sequence] = None
            entries.append(unit.index_entry(self.sequence_of))
        if entries:
            self.bank.add(entries)
        for row in rows:
            self._link_duplicate(self.units[row.sequence])
        self._place_under({row.unit_id: row.sequence for row in rows if row.rank})

    def _place_under(self, summaries: Mapping[str, int]) -> None:
        """Place the units that added summaries cover under them in the index: they are older, so that their entries
        could not name these; and a rewritten summary has a new number.
        """
        below: dict[int, list[int]] = {}
        for unit in self.units.values() if summaries else ():
            if (parent := summaries.get(unit.parent_id or "")) is not None:
                below.setdefault(parent, []).append(unit.sequence)
        for parent, covered in below.items():
            self.bank.place_under(parent, covered)

    def add_vectors(self, sequences: Sequence[int], vectors: Sequence[bytes]) -> None:
        """Add vectors of units from the database; an empty one means that the text cannot be embedded."""
        pairs = zip(sequences, vectors, strict=True)
        known = [(sequence, vector) for sequence, vector in pairs if sequence in self.units]
        for sequence, _ in known:
            self.without_vector.pop(sequence, None)
            self.seen_otherwise.pop(sequence, None)
        full = [(sequence, vector) for sequence, vector in known if len(vector) == 4 * self.dimension]
        if full:
            matrix = np.frombuffer(b"".join(vector for _, vector in full), "<f4").reshape(-1, self.dimension)
            labels = np.array([sequence for sequence, _ in full], np.int64)
            self.bank.set_vectors(labels, matrix)
            if self.index is not None:
                self.index.add(labels, matrix)

    def mark_embedding_stale(self, sequences: Iterable[int]) -> None:
        """Mark units that only have vectors of other embedders; they are embedded again only on request."""
        for sequence in sequences:
            if self.without_vector.pop(sequence, 0) is None:
                self.seen_otherwise[sequence] = None

    def _note(self, unit: MemoryUnit) -> None:
        """Update the sets of stale and superseded units, and the first copies."""
        if unit.duplicate_of is not None:
            self.first_copies.setdefault(unit.duplicate_of, unit.sequence)
        (self.stale.add if unit.is_stale else self.stale.discard)(unit.sequence)
        is_later = unit.valid_from is not None and unit.valid_from != unit.creation_time
        if unit.valid_to is not None or unit.superseded_by is not None or is_later:
            self.superseded.add(unit.sequence)

    def _remove(self, sequences: Iterable[int]) -> None:
        removed = [sequence for sequence in sequences if sequence in self.units]
        shorter: set[str] = set()
        for sequence in removed:
            unit = self.units.pop(sequence)
            self.origins.pop(sequence)
            self.without_vector.pop(sequence, None)
            self.seen_otherwise.pop(sequence, None)
            self.superseded.discard(sequence)
            self.stale.discard(sequence)
            if unit.duplicate_of is not None and self.first_copies.get(unit.duplicate_of) == sequence:
                del self.first_copies[unit.duplicate_of]
            self.of_rank[unit.rank].discard(sequence)
            if self.sequence_of.get(unit.unit_id) == sequence:
                del self.sequence_of[unit.unit_id]
            if unit.rank == 0:
                shorter.add(unit.group_id)
        for group_id in shorter:
            self.order[group_id] = [sequence for sequence in self.order[group_id] if sequence in self.units]
        if removed:
            self._unlist(removed)


def vector_rows(
    embedder: str, sequences: Sequence[int], matrix: NDArray[np.float32], sessions: Mapping[int, str | None]
) -> VectorRows:
    """Return vectors as rows for the database; a vector of zeros (the text cannot be embedded) is stored empty."""
    little = np.ascontiguousarray(matrix, dtype="<f4")
    blank: NDArray[np.bool_] = np.asarray(~little.any(axis=1))
    return VectorRows(
        embedder,
        list(sequences),
        [sessions.get(sequence) for sequence in sequences],
        [b"" if blank[place] else row.tobytes() for place, row in enumerate(little)],
    )
