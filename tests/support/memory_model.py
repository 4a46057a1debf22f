"""What a memory is, as plainly as possible: dicts and lists, every rule spelt out, nothing fast.

A real memory is compared with it after whatever was done to both. Of summaries it knows what has to hold of them, and
takes over which there are; everything else it foretells.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime


@dataclass(frozen=True)
class Unit:
    """A unit, with all that is compared."""

    unit_id: str
    sequence: int
    content: str
    source: str
    group: str
    creation_time: datetime
    rank: int = 0
    parent: str | None = None
    visit_count: int = 0
    last_visit: int = 0
    never_delete: bool = False
    level: int = 0
    tells_from: int = 0
    is_stale: bool = False
    superseded_by: str | None = None


@dataclass
class Mind:
    """What a group has in mind; the units are listed with the next to leave first."""

    context_length: int
    capacity: int | None
    context: list[str] = field(default_factory=list)
    short_term: list[str] = field(default_factory=list)

    def say(self, unit_id: str) -> None:
        self.context.append(unit_id)
        while len(self.context) > self.context_length:
            self.use(self.context.pop(0))

    def use(self, unit_id: str) -> None:
        if self.capacity is None or unit_id in self.context:
            return
        self.short_term = [each for each in self.short_term if each != unit_id] + [unit_id]
        self.short_term = self.short_term[max(len(self.short_term) - self.capacity, 0) :]

    def restore(self, unit_ids: Iterable[str]) -> None:
        self.short_term = []
        for unit_id in unit_ids:
            self.use(unit_id)

    def lose(self, unit_ids: Collection[str]) -> None:
        self.context = [each for each in self.context if each not in unit_ids]
        self.short_term = [each for each in self.short_term if each not in unit_ids]


class Model:
    """One owner's memory."""

    def __init__(self) -> None:
        self.round = 0
        self.units: dict[str, Unit] = {}
        self.minds: dict[str, Mind] = {}

    # -- what is done -------------------------------------------------------------------------------------------------

    def add(self, unit_id: str, content: str, source: str, group: str, at: datetime, *, pinned: bool = False) -> None:
        self.round += 1
        self.units[unit_id] = Unit(
            unit_id, self.round, content, source, group, at, last_visit=self.round, never_delete=pinned
        )
        if group in self.minds:
            self.minds[group].say(unit_id)

    def visit(self, unit_ids: Iterable[str]) -> None:
        """Mark recalled units and all above them as visited now; count visits only of the recalled units."""
        for unit_id in unit_ids:
            unit = self.units[unit_id]
            self.units[unit_id] = replace(unit, visit_count=unit.visit_count + 1)
            for each in (unit_id, *self.above(unit_id)):
                self.units[each] = replace(self.units[each], last_visit=self.round)

    def pin(self, unit_id: str, *, pinned: bool) -> None:
        if not self.units[unit_id].is_stale:
            self.units[unit_id] = replace(self.units[unit_id], never_delete=pinned)

    def supersede(self, old: str, new: str) -> None:
        for above in self.above(old):
            self._withdraw(above)
        self.units[old] = replace(self.units[old], superseded_by=new, parent=None)

    def remove(self, unit_ids: Collection[str]) -> None:
        """Remove rewound units, and mark the summaries above them."""
        for above in {above for unit_id in unit_ids for above in self.above(unit_id)} - set(unit_ids):
            for each in self._with_later(above):
                if each not in unit_ids:
                    self._withdraw(each)
        following = {unit_id: self.units[unit_id].superseded_by for unit_id in unit_ids}
        self._lose(unit_ids)
        self._restore_validity(following)
        for unit in [unit for unit in self.units.values() if unit.parent in unit_ids]:
            self.units[unit.unit_id] = replace(unit, parent=None)

    def _restore_validity(self, following: Mapping[str, str | None]) -> None:
        """Make what the removed units superseded valid again, unless one that remains supersedes them."""
        for unit in list(self.units.values()):
            by = unit.superseded_by
            while by is not None and by in following:
                by = following[by]
            self.units[unit.unit_id] = replace(unit, superseded_by=by)

    def _withdraw(self, unit_id: str) -> None:
        """Clear a summary until it is written again."""
        self.units[unit_id] = replace(self.units[unit_id], is_stale=True, content="")

    def _with_later(self, unit_id: str) -> set[str]:
        """Return a summary, those after it that saw it as background, and all above them."""
        found: set[str] = set()
        pending = [unit_id]
        while pending:
            node = self.units[pending.pop()]
            if node.unit_id in found:
                continue
            found.add(node.unit_id)
            pending += self.above(node.unit_id)
            pending += [
                unit.unit_id
                for unit in self.units.values()
                if (unit.rank, unit.group, unit.level) == (node.rank, node.group, node.level)
                and unit.tells_from > node.tells_from
            ]
        return found

    def remove_group(self, group: str, *, is_session: bool) -> None:
        """Remove a group with its summaries, and the summary of everything, which covered it."""
        following = {unit.unit_id: unit.superseded_by for unit in self.units.values() if unit.group == group}
        self._lose([unit.unit_id for unit in self.units.values() if unit.rank == 2 or unit.group == group])
        self._restore_validity(following)
        for unit in [unit for unit in self.units.values() if unit.rank == 1 and unit.unit_id == unit.group]:
            self.units[unit.unit_id] = replace(unit, parent=None)
        if not is_session:
            del self.minds[group]

    def forget(self, share: float) -> list[str]:
        """Return the leaves that matter least go; what sums them up still tells of them."""
        gone = self.would_forget(share)
        self._lose(gone)
        return gone

    def _lose(self, unit_ids: Collection[str]) -> None:
        for unit_id in unit_ids:
            del self.units[unit_id]
        for mind in self.minds.values():
            mind.lose(unit_ids)

    def take_summaries(self, summaries: Iterable[Unit], parents: dict[str, str | None], round_: int) -> None:
        """Take the summaries as they were written, with the units under them; those not rewritten are unchanged.

        A summary of removed units only is gone, even if another one has its id now.
        """
        reported = {unit.unit_id: unit for unit in summaries}
        for unit in reported.values():
            known = self.units.get(unit.unit_id, unit)
            retained = (known.visit_count, known.never_delete) == (unit.visit_count, unit.never_delete)
            assert retained or self.tells_of_nothing(unit.unit_id)
            assert unit.sequence != known.sequence or replace(known, parent=unit.parent) == unit
        self.units = {**{unit_id: unit for unit_id, unit in self.units.items() if unit.rank == 0}, **reported}
        for unit_id, parent in parents.items():
            self.units[unit_id] = replace(self.units[unit_id], parent=parent)
        self.round = round_

    def assert_summed_up(self, group: str) -> None:
        """Assert what holds of the summaries of a group after they were updated."""
        self._assert_tree(
            group, [self.units[each] for each in self.order(group) if self.units[each].superseded_by is None]
        )

    def assert_all_summed_up(self, memory_id: str) -> None:
        """Assert what holds after everything was summarized."""
        groups = {unit.group for unit in self.units.values() if unit.rank == 0 and unit.superseded_by is None}
        for group in groups:
            self.assert_summed_up(group)
        self._assert_tree(memory_id, [self.units[group] for group in groups])

    def _assert_tree(self, root_id: str, leaves: Sequence[Unit]) -> None:
        if not leaves:
            return
        root = self.units[root_id]
        for leaf in leaves:
            assert root_id in self.above(leaf.unit_id)
            summaries = [self.units[each] for each in self.above(leaf.unit_id) if self.rank_of(each) == root.rank]
            assert all(above.sequence > leaf.sequence for above in summaries)
        nodes = [unit for unit in self.units.values() if unit.rank == root.rank and unit.group == root_id]
        assert [node.unit_id for node in nodes if self.rank_of(node.parent) != root.rank] == [root_id]
        assert not any(node.is_stale for node in nodes)
        assert root.creation_time <= min(leaf.creation_time for leaf in leaves)

    # -- what is so ---------------------------------------------------------------------------------------------------

    def rank_of(self, unit_id: str | None) -> int | None:
        return self.units[unit_id].rank if unit_id in self.units else None

    def tells_of_nothing(self, unit_id: str) -> bool:
        """Return whether a summary covers only rewound units."""
        under = [unit.unit_id for unit in self.units.values() if unit.parent == unit_id]
        return self.units[unit_id].is_stale and all(map(self.tells_of_nothing, under))

    def above(self, unit_id: str) -> list[str]:
        parent = self.units[unit_id].parent
        return [parent, *self.above(parent)] if parent in self.units else []

    def order(self, group: str) -> list[str]:
        """Return what was said in a group, oldest first."""
        said = [unit for unit in self.units.values() if unit.rank == 0 and unit.group == group]
        return [unit.unit_id for unit in sorted(said, key=lambda unit: unit.sequence)]

    def beside(self, unit_id: str, around: int) -> set[str]:
        """Return a unit and its neighbours in its group."""
        order = self.order(self.units[unit_id].group)
        place = order.index(unit_id)
        return set(order[max(place - around, 0) : place + around + 1])

    def would_forget(self, share: float) -> list[str]:
        parents = {unit.parent for unit in self.units.values()}
        newest = max((unit for unit in self.units.values() if unit.rank == 0), key=lambda u: u.sequence, default=None)
        live = set(self.minds[newest.group].context) if newest is not None and newest.group in self.minds else set()
        leaves = [
            unit
            for unit in self.units.values()
            if unit.unit_id not in parents and not unit.never_delete and unit.unit_id not in live
        ]
        leaves.sort(key=lambda unit: (unit.last_visit, unit.visit_count, unit.creation_time, unit.sequence))
        return [unit.unit_id for unit in leaves[: max(1, int(len(leaves) * share))]]

    def with_word(self, word: str) -> list[str]:
        """Return what was said with a word, as far as it still holds, oldest first."""
        said = [unit for unit in self.units.values() if unit.rank == 0 and word in unit.content.split()]
        held = [unit for unit in said if unit.superseded_by is None]
        return [unit.unit_id for unit in sorted(held, key=lambda unit: unit.sequence)]
