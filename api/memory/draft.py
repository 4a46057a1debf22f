"""A change of one memory while it is being put together: numbers, links, visits and what a group has in mind."""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime

from msgspec.structs import replace

from api.memory.loaded import Loaded
from api.memory.minds import Mind, encode_mind
from api.memory.units import related, relation_of, row_of, unit_of
from runtime.memory.units import MemoryUnit
from runtime.memory.working import Room, Working, forgotten, recalled, restore, said
from store.memory.rows import GroupRow, JobRow, MemoryChange, OwnerRow, Relation, UnitRow, VectorRows, Visit
from store.rows import JsonText


class Draft:
    """What is to be done to a loaded memory; nothing of it is done before `change` has been committed."""

    def __init__(self, loaded: Loaded, now: datetime) -> None:
        self.sequence = loaded.owner.sequence
        self._loaded = loaded
        self._now = now
        self._units: dict[int, UnitRow] = {}
        self._groups: dict[str, GroupRow] = {}
        self._groups_removed: list[str] = []
        self._minds: dict[str, Mind] = {}
        self._removed: dict[int, None] = {}
        self._visits: dict[int, Visit] = {}
        self._relations: dict[int, Relation] = {}
        self._is_stale = loaded.owner.is_stale
        self.vectors: VectorRows | None = None
        self.jobs: list[JobRow] = []

    def group(self, group_id: str, session_id: str | None = None, created_at: datetime | None = None) -> GroupRow:
        """A group, made where there is none."""
        known = self._groups.get(group_id) or self._loaded.groups.get(group_id)
        if known is None or group_id in self._groups_removed:
            known = GroupRow(
                tenant=self._loaded.owner.tenant,
                user_id=self._loaded.owner.user_id,
                group_id=group_id,
                session_id=session_id,
                created_at=created_at or self._now,
            )
        self._groups[group_id] = known
        return known

    def admitted(self, group_id: str, turn: int) -> None:
        """The session that a group is, is admitted up to a turn."""
        self._groups[group_id] = replace(self.group(group_id), turn=turn)

    def mind(self, group_id: str) -> Mind:
        """What a group has in mind."""
        return self._minds.get(group_id) or self._loaded.minds.get(group_id) or Mind()

    def make_room(self, group_id: str, capacity: int | None, context_length: int | None = None) -> None:
        """A group's short-term memory has this capacity from now on, None: there is none; and its context, if given,
        this length.
        """
        mind = self.mind(group_id)
        room = Room(context_length or mind.room.context_length, capacity)
        self._keep(group_id, Mind(recalled(mind.working, mind.working.short_term or (), room), room))

    def recall(self, group_id: str, sequences: Sequence[int]) -> None:
        """A group has recalled these units."""
        self._think(group_id, lambda working, room: recalled(working, sequences, room))

    def restore(self, group_id: str, sequences: Sequence[int]) -> None:
        """A group bears in mind what was said last in another one."""
        self._think(group_id, lambda working, room: restore(working, sequences, room))

    def _think(self, group_id: str, thought: Callable[[Working, Room], Working]) -> None:
        mind = self.mind(group_id)
        self._keep(group_id, replace(mind, working=thought(mind.working, mind.room)))

    def _keep(self, group_id: str, mind: Mind) -> None:
        if mind != self.mind(group_id):
            self.group(group_id)
            self._minds[group_id] = mind

    def add(
        self, unit: MemoryUnit, turn: int | None = None, message: int | None = None, *, is_said: bool = True
    ) -> MemoryUnit:
        """A unit, numbered; its group is made where there is none. What `is_said` is in the group's context now."""
        self.sequence += 1
        last_visit = unit.last_visit or self.sequence
        unit = replace(unit, sequence=self.sequence, last_visit=last_visit)
        group = self.group(unit.group_id) if unit.rank < 2 else None
        session_id = None if group is None else group.session_id
        owner = self._loaded.owner
        self._units[unit.sequence] = row_of(unit, owner.tenant, owner.user_id, session_id, turn, message)
        if unit.rank == 0 and is_said:
            self._think(unit.group_id, lambda working, room: said(working, [unit.sequence], room))
        return unit

    def remove(self, sequences: Iterable[int]) -> None:
        """Units go; nobody has them in mind any more."""
        gone = dict.fromkeys(sequence for sequence in sequences if sequence not in self._removed)
        self._removed |= gone
        for sequence in gone:
            self._units.pop(sequence, None)
            self._visits.pop(sequence, None)
            self._relations.pop(sequence, None)
        if gone:
            for group_id in {*self._loaded.minds, *self._minds}:
                self._think(group_id, lambda working, _: forgotten(working, gone))

    def drafted(self, unit_ids: Collection[str]) -> list[int]:
        """The numbers of units that this very draft adds."""
        return [row.sequence for row in self._units.values() if row.unit_id in unit_ids]

    def rows(self) -> list[UnitRow]:
        """The rows of the units that this very draft adds."""
        return list(self._units.values())

    def added(self) -> list[MemoryUnit]:
        """The units that this very draft adds."""
        return [unit_of(row) for row in self._units.values()]

    def take_back(self, sequences: Iterable[int]) -> None:
        """Remove units on request.

        The summaries that may repeat them are withdrawn at once, the units under removed summaries are summarised
        next time, and what a removed unit superseded is valid again.
        """
        gone = set(sequences)
        above = [above for each in gone for above in self._loaded.above(each)]
        known = [self.unit(sequence) for sequence in gone if self._is_there(sequence)]
        self.remove(gone)
        self.restore_validity({unit.unit_id for unit in known})
        self._free({unit.unit_id for unit in known if unit.rank})
        self._withdraw(above, with_later=True)

    def supersede(self, sequence: int, by: str, at: datetime) -> None:
        """Let the unit with the id `by` hold in place of one from a time on; summaries of the old one are withdrawn."""
        self.relate(replace(self.unit(sequence), superseded_by=by, valid_to=at, parent_id=None))
        self._withdraw(self._loaded.above(sequence), with_later=False)

    def restore_validity(self, gone: Collection[str]) -> None:
        """Make units valid again that these superseded, so that a removal leaves the earlier fact to be found."""
        if not gone:
            return
        for sequence in {*self._loaded.superseded, *self._relations, *self._units}:
            if self._is_there(sequence):
                unit = self.unit(sequence)
                if unit.superseded_by in gone:
                    self.relate(replace(unit, superseded_by=None, valid_to=None))

    def _withdraw(self, sequences: Iterable[int], *, with_later: bool) -> None:
        """Mark summaries, and all above them, as stale, which deletes their content.

        `with_later` also those after them that a model made, which saw the summary before as background.
        """
        pending, seen = list(sequences), set[int]()
        while pending:
            sequence = pending.pop()
            if sequence in seen or not self._is_there(sequence):
                continue
            seen.add(sequence)
            node = self.unit(sequence)
            self.relate(replace(node, is_stale=True))
            pending += self._loaded.above(sequence)
            if with_later:
                pending += self._later(node)

    def _later(self, node: MemoryUnit) -> list[int]:
        """Return the summaries after one in its tree and level that a model made."""
        found = (self._loaded.units[sequence] for sequence in self._loaded.of_rank.get(node.rank, ()))
        return [
            unit.sequence
            for unit in found
            if (unit.group_id, unit.level) == (node.group_id, node.level)
            and unit.tells_from > node.tells_from
            and not unit.is_extract
        ]

    def _free(self, summaries: Collection[str]) -> None:
        """Units under removed summaries belong to none."""
        if not summaries:
            return
        for child in self._loaded.units.values():
            if child.parent_id in summaries and self._is_there(child.sequence):
                self.relate(replace(self.unit(child.sequence), parent_id=None))

    def _is_there(self, sequence: int) -> bool:
        return sequence not in self._removed and (sequence in self._units or sequence in self._loaded.units)

    def holds(self, sequence: int) -> bool:
        """Whether a unit is there as this draft leaves it, and superseded by none."""
        return self._is_there(sequence) and self.unit(sequence).superseded_by is None

    def unit(self, sequence: int) -> MemoryUnit:
        """Return a unit as this draft leaves it."""
        drafted = self._units.get(sequence)
        if drafted is not None:
            return unit_of(drafted)
        unit, relation = self._loaded.units[sequence], self._relations.get(sequence)
        return unit if relation is None else related(unit, relation)

    def remove_group(self, group_id: str) -> None:
        """A group goes, with its units."""
        self.remove(sequence for sequence, unit in self._loaded.units.items() if unit.group_id == group_id)
        self._groups.pop(group_id, None)
        self._minds.pop(group_id, None)
        self._groups_removed.append(group_id)

    def relate(self, unit: MemoryUnit) -> None:
        """What is said of a unit now."""
        drafted = self._units.get(unit.sequence)
        if drafted is None:
            self._relations[unit.sequence] = relation_of(unit)
            return
        self._units[unit.sequence] = row_of(
            unit, drafted.tenant, drafted.user_id, drafted.session_id, drafted.turn, drafted.message
        )

    def visit(self, sequences: Iterable[int]) -> None:
        """Units were recalled, now."""
        for sequence in dict.fromkeys(sequences):
            if sequence in self._units:
                drafted = self._units[sequence]
                count = drafted.visit_count + 1
                self._units[sequence] = replace(drafted, visit_count=count, last_visit=self.sequence)
            elif sequence in self._loaded.units and sequence not in self._removed:
                self._visits[sequence] = Visit(sequence, self._count(sequence) + 1, self.sequence)
                for above in self._loaded.above(sequence):
                    self._visits[above] = Visit(above, self._count(above), self.sequence)

    def _count(self, sequence: int) -> int:
        visit = self._visits.get(sequence)
        return self._loaded.units[sequence].visit_count if visit is None else visit.visit_count

    def stale(self, is_stale: bool) -> None:
        """Whether the summary of it all is to be made anew."""
        self._is_stale = is_stale

    def change(self) -> MemoryChange | None:
        """The change; None where there is none."""
        owner = self._owner()
        loaded = self._loaded.owner
        groups = [
            replace(group, short_term=JsonText(encode_mind(self._minds[group_id])))
            if group_id in self._minds
            else group
            for group_id, group in self._groups.items()
            if group_id in self._minds or group != self._loaded.groups.get(group_id)
        ]
        change = MemoryChange(
            tenant=loaded.tenant,
            user_id=loaded.user_id,
            owner=owner,
            groups=groups,
            groups_removed=self._groups_removed,
            units=list(self._units.values()),
            removed=list(self._removed),
            visits=list(self._visits.values()),
            relations=list(self._relations.values()),
            vectors=self.vectors,
            jobs=self.jobs,
        )
        return None if change == MemoryChange(tenant=loaded.tenant, user_id=loaded.user_id) else change

    def _owner(self) -> OwnerRow | None:
        loaded = self._loaded.owner
        after = replace(loaded, sequence=self.sequence, is_stale=self._is_stale)
        return None if after == loaded else after
