"""A transaction on one memory: collects units, links, visits and short-term memories into one change."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from api.memory.loaded_memory import LoadedMemory
from api.memory.row_mapping import Origin, relation_of, row_of, with_relation
from runtime.memory.short_term import Capacity, ShortTermMemory
from runtime.memory.units import MemoryUnit
from store.interface.memory_rows import GroupRow, JobRow, MemoryChange, Relation, VectorRows, Visit
from store.interface.rows import JsonText


class MemoryTransaction:
    """Collects changes to a loaded memory; nothing takes effect before the result of `change` is committed."""

    def __init__(self, loaded: LoadedMemory, now: datetime) -> None:
        self.sequence = loaded.owner.sequence
        self._loaded = loaded
        self._now = now
        self._groups: dict[str, GroupRow] = {}
        self._groups_removed: list[str] = []
        self._short_terms: dict[str, ShortTermMemory] = {}
        self._removed: dict[int, None] = {}
        self._visits: dict[int, Visit] = {}
        self._relations: dict[int, Relation] = {}
        self.is_stale = loaded.owner.is_stale
        """Whether the summary of the whole memory must be written again."""
        self.vectors: VectorRows | None = None
        self.jobs: list[JobRow] = []
        self.units: dict[int, MemoryUnit] = {}
        """The units that it adds, by their numbers, with their origins."""
        self.origins: dict[int, Origin] = {}

    def group(self, group_id: str, session_id: str | None = None, created_at: datetime | None = None) -> GroupRow:
        """Return a group, creating it if it is missing; with `session_id` a collection becomes that session."""
        known = self._groups.get(group_id) or self._loaded.groups.get(group_id)
        if known is None or group_id in self._groups_removed:
            known = GroupRow(
                tenant=self._loaded.owner.tenant,
                user_id=self._loaded.owner.user_id,
                group_id=group_id,
                session_id=session_id,
                created_at=created_at or self._now,
            )
        elif session_id is not None:
            known = replace(known, session_id=session_id)
        self._groups[group_id] = known
        return known

    def mark_ingested(self, group_id: str, turn: int) -> None:
        """Store the last ingested turn of a session."""
        self._groups[group_id] = replace(self.group(group_id), turn=turn)

    def short_term(self, group_id: str) -> ShortTermMemory:
        """Return the short-term memory of a group."""
        return self._short_terms.get(group_id) or self._loaded.short_term(group_id)

    def _set_short_term(self, group_id: str, changed: ShortTermMemory) -> None:
        if changed != self.short_term(group_id):
            self.group(group_id)
            self._short_terms[group_id] = changed

    def set_capacity(self, group_id: str, capacity: int | None, context_length: int | None = None) -> None:
        """Set the capacity of a group's short-term memory (None: it has none), and optionally of its context."""
        known = self.short_term(group_id)
        room = Capacity(context_length or known.room.context_length, capacity)
        self._set_short_term(group_id, known.with_capacity(room))

    def recall(self, group_id: str, sequences: Sequence[int]) -> None:
        """Add recalled units to a group's short-term memory."""
        self._set_short_term(group_id, self.short_term(group_id).with_recalled(sequences))

    def restore(self, group_id: str, sequences: Sequence[int]) -> None:
        """Fill a group's short-term memory with the latest of these units of another group that none supersedes."""
        valid = [sequence for sequence in sequences if self.unit(sequence).superseded_by is None]
        self._set_short_term(group_id, self.short_term(group_id).with_restored(valid))

    def add(
        self, unit: MemoryUnit, turn: int | None = None, message: int | None = None, *, is_said: bool = True
    ) -> MemoryUnit:
        """Add a unit and return it with its number; create a missing group. With `is_said` it enters the context."""
        self.sequence += 1
        last_visit = unit.last_visit or self.sequence
        unit = replace(unit, sequence=self.sequence, last_visit=last_visit)
        group = self.group(unit.group_id) if unit.rank < 2 else None
        session_id = None if group is None else group.session_id
        self.units[unit.sequence] = unit
        self.origins[unit.sequence] = Origin(session_id, turn, message)
        if unit.rank == 0 and is_said:
            self._set_short_term(unit.group_id, self.short_term(unit.group_id).with_messages([unit.sequence]))
        return unit

    def remove(self, sequences: Iterable[int]) -> None:
        """Remove units, also from all short-term memories."""
        removed = dict.fromkeys(sequence for sequence in sequences if sequence not in self._removed)
        self._removed |= removed
        for sequence in removed:
            self.units.pop(sequence, None)
            self.origins.pop(sequence, None)
            self._visits.pop(sequence, None)
            self._relations.pop(sequence, None)
        if removed:
            for group_id in {*self._loaded.short_terms, *self._short_terms}:
                self._set_short_term(group_id, self.short_term(group_id).forgotten(removed))

    def retract(self, sequences: Iterable[int]) -> None:
        """Remove units on request.

        Summaries that may repeat them are withdrawn at once, units under removed summaries are summarised again, and
        units that a removed unit superseded are valid again.
        """
        removed = set(sequences)
        above = [above for each in removed for above in self._loaded.above(each)]
        known = [self.unit(sequence) for sequence in removed if self.is_there(sequence)]
        self.remove(removed)
        self.restore_validity(known)
        self._free({unit.unit_id for unit in known if unit.rank})
        self._withdraw(above, with_later=True)

    def supersede(self, sequence: int, by: str, at: datetime) -> None:
        """Supersede a unit by the unit with the id `by` from a time on; withdraw the summaries of the old one."""
        self.relate(replace(self.unit(sequence), superseded_by=by, valid_to=at, parent_id=None))
        self._withdraw(self._loaded.above(sequence), with_later=False)

    def restore_validity(self, removed: Collection[MemoryUnit]) -> None:
        """Make units that the removed ones superseded valid until the end of these, so that a removal restores the
        earlier fact, unless a later one that remains supersedes it.
        """
        if not removed:
            return
        gone = {unit.unit_id: unit for unit in removed}
        for sequence in {*self._loaded.superseded, *self._relations, *self.units}:
            if self.is_there(sequence) and (by := gone.get(self.unit(sequence).superseded_by or "")) is not None:
                seen = {by.unit_id}
                while (later := gone.get(by.superseded_by or "")) is not None and later.unit_id not in seen:
                    seen.add(later.unit_id)
                    by = later
                self.relate(replace(self.unit(sequence), superseded_by=by.superseded_by, valid_to=by.valid_to))

    def _withdraw(self, sequences: Iterable[int], *, with_later: bool) -> None:
        """Mark summaries, and all above them, as stale, which deletes their content.

        `with_later` also later summaries by a model, which used the summary before as background.
        """
        pending, seen = list(sequences), set[int]()
        while pending:
            sequence = pending.pop()
            if sequence in seen or not self.is_there(sequence):
                continue
            seen.add(sequence)
            node = self.unit(sequence)
            self.relate(replace(node, is_stale=True))
            pending += self._loaded.above(sequence)
            if with_later:
                pending += self._later(node)

    def _later(self, node: MemoryUnit) -> list[int]:
        """Return the later summaries by a model in the same tree and level."""
        found = (self._loaded.units[sequence] for sequence in self._loaded.of_rank.get(node.rank, ()))
        return [
            unit.sequence
            for unit in found
            if (unit.group_id, unit.level) == (node.group_id, node.level)
            and unit.tells_from > node.tells_from
            and not unit.is_extract
        ]

    def _free(self, summaries: Collection[str]) -> None:
        """Unlink the units under removed summaries."""
        if not summaries:
            return
        for child in self._loaded.units.values():
            if child.parent_id in summaries and self.is_there(child.sequence):
                self.relate(replace(self.unit(child.sequence), parent_id=None))

    def is_there(self, sequence: int) -> bool:
        """Return whether a unit exists after this transaction."""
        return sequence not in self._removed and (sequence in self.units or sequence in self._loaded.units)

    def unit(self, sequence: int) -> MemoryUnit:
        """Return a unit as it is after this transaction."""
        if sequence in self.units:
            return self.units[sequence]
        unit, relation = self._loaded.units[sequence], self._relations.get(sequence)
        return unit if relation is None else with_relation(unit, relation)

    def remove_group(self, group_id: str) -> None:
        """Remove a group with its units."""
        self.remove(sequence for sequence, unit in self._loaded.units.items() if unit.group_id == group_id)
        self._groups.pop(group_id, None)
        self._short_terms.pop(group_id, None)
        self._groups_removed.append(group_id)

    def relate(self, unit: MemoryUnit) -> None:
        """Set the changeable fields of a unit: parent, pin, staleness, validity and duplicate."""
        if unit.sequence in self.units:
            self.units[unit.sequence] = unit
        else:
            self._relations[unit.sequence] = relation_of(unit)

    def visit(self, sequences: Iterable[int]) -> None:
        """Count a visit of units, dated now."""
        for sequence in dict.fromkeys(sequences):
            if sequence in self.units:
                drafted = self.units[sequence]
                count = drafted.visit_count + 1
                self.units[sequence] = replace(drafted, visit_count=count, last_visit=self.sequence)
            elif sequence in self._loaded.units and sequence not in self._removed:
                self._visits[sequence] = Visit(sequence, self._count(sequence) + 1, self.sequence)
                for above in self._loaded.above(sequence):
                    self._visits[above] = Visit(above, self._count(above), self.sequence)

    def _count(self, sequence: int) -> int:
        visit = self._visits.get(sequence)
        return self._loaded.units[sequence].visit_count if visit is None else visit.visit_count

    def change(self) -> MemoryChange | None:
        """Return the collected change, or None if there is none."""
        loaded = self._loaded.owner
        owner = replace(loaded, sequence=self.sequence, is_stale=self.is_stale)
        groups = [
            replace(group, short_term=JsonText(msgspec.json.encode(self._short_terms[group_id])))
            if group_id in self._short_terms
            else group
            for group_id, group in self._groups.items()
            if group_id in self._short_terms or group != self._loaded.groups.get(group_id)
        ]
        change = MemoryChange(
            tenant=loaded.tenant,
            user_id=loaded.user_id,
            owner=None if owner == loaded else owner,
            groups=groups,
            groups_removed=self._groups_removed,
            units=[
                row_of(unit, loaded.tenant, loaded.user_id, self.origins[sequence])
                for sequence, unit in self.units.items()
            ],
            removed=list(self._removed),
            visits=list(self._visits.values()),
            relations=list(self._relations.values()),
            vectors=self.vectors,
            jobs=self.jobs,
        )
        return None if change == MemoryChange(tenant=loaded.tenant, user_id=loaded.user_id) else change
