"""The tree of summaries over a session's messages, or over all sessions: the parents of units.

A summary has the rank of its tree: 1 over the messages of a group, 2 over the roots of groups. Its children are those
that name it as their parent. Whether it covers a child follows from their sequences: a summary cannot cover a unit
that is younger than itself.
"""

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from runtime.context.text_lengths import tokens_of
from runtime.memory.units import NOT_NUMBERED, MemoryUnit


class TreeChanges(Struct, frozen=True, kw_only=True):
    """Changes of units, to be applied in one transaction.

    `written` are summaries, new or replacing the one with the same id; they get new sequences in this order each time.
    `parents` are the new parents of other units; `removed` are deleted summaries.
    """

    written: tuple[MemoryUnit, ...] = ()
    parents: Mapping[str, str] = {}
    removed: tuple[str, ...] = ()


def apply_changes(units: Iterable[MemoryUnit], changes: TreeChanges) -> list[MemoryUnit]:
    """Return the units after the changes; written ones are last and have no sequence yet."""
    gone = {*changes.removed, *(unit.unit_id for unit in changes.written)}
    remaining = [unit for unit in units if unit.unit_id not in gone]
    moved = [
        replace(unit, parent_id=changes.parents[unit.unit_id]) if unit.unit_id in changes.parents else unit
        for unit in remaining
    ]
    return [*moved, *changes.written]


def place_of(unit: MemoryUnit) -> int:
    """Return a unit's position in time among others of its level."""
    return unit.tells_from if unit.rank else unit.sequence


class Tree:
    """One tree while it grows. Each change is returned, so that it can be stored."""

    def __init__(self, units: Sequence[MemoryUnit], root_id: str, rank: Literal[1, 2]) -> None:
        """`units` are the units of the tree of that root, in any order; other units are ignored.

        Messages are not needed if they are under a summary of level 1 that is neither the newest nor stale. Units under
        a summary that does not exist count as units without a parent.
        """
        self.root_id = root_id
        self.rank: Literal[1, 2] = rank
        mine = [unit for unit in units if _is_node(unit, root_id, rank) or _is_leaf(unit, root_id, rank)]
        written = sorted(mine, key=lambda unit: (unit.sequence == NOT_NUMBERED, unit.sequence))
        ids = {unit.unit_id for unit in mine}
        self._units = {unit.unit_id: _free(unit, ids) if unit.unit_id != root_id else unit for unit in mine}
        self._tokens: dict[str, int] = {}
        self._younger = itertools.count(len(mine))
        self._age = {unit.unit_id: age for age, unit in enumerate(written)}

    def __getitem__(self, unit_id: str) -> MemoryUnit:
        return self._units[unit_id]

    def find(self, unit_id: str) -> MemoryUnit | None:
        """Return the unit, if it is in the tree."""
        return self._units.get(unit_id)

    def tokens(self, unit_id: str) -> int:
        """Return the estimated number of tokens of a unit."""
        if unit_id not in self._tokens:
            self._tokens[unit_id] = tokens_of(self._units[unit_id].content)
        return self._tokens[unit_id]

    def in_order(self, ids: Iterable[str]) -> list[str]:
        """Return the ids in order, the earliest first."""
        return sorted(ids, key=lambda unit_id: (place_of(self._units[unit_id]), self._age[unit_id]))

    def leaves(self) -> list[str]:
        """Return the leaves of the tree, the earliest first."""
        return self.in_order(unit_id for unit_id, unit in self._units.items() if unit.rank != self.rank)

    def nodes(self) -> list[MemoryUnit]:
        """Return the summaries of the tree."""
        return [unit for unit in self._units.values() if unit.rank == self.rank]

    def nodes_at(self, level: int) -> list[str]:
        """Return the summaries of one level, the earliest first."""
        return self.in_order(unit.unit_id for unit in self.nodes() if unit.level == level)

    def height(self) -> int:
        """Return the level of the highest summary; 0 without one."""
        return max((unit.level for unit in self.nodes()), default=0)

    def children(self, node_id: str) -> list[str]:
        """Return the children of a summary, the earliest first."""
        return self.in_order(unit_id for unit_id, unit in self._units.items() if unit.parent_id == node_id)

    def is_summarised(self, unit_id: str) -> bool:
        """Return whether the summary above a unit covers it."""
        parent_id = self._units[unit_id].parent_id
        if unit_id == self.root_id or parent_id is None:
            return unit_id == self.root_id
        return self._age[unit_id] < self._age[parent_id]

    def is_due(self) -> bool:
        """Return whether the tree has units that no summary covers, or a stale summary."""
        return any(unit.is_stale for unit in self.nodes()) or not all(map(self.is_summarised, self._units))

    # -- changes ------------------------------------------------------------------------------------------------------

    def write(self, node: MemoryUnit, children: Iterable[str]) -> TreeChanges:
        """Write a summary, new or rebuilt, over its children, and return the changes."""
        parents = {unit_id: node.unit_id for unit_id in children if self._units[unit_id].parent_id != node.unit_id}
        return self._change(TreeChanges(written=(node,), parents=parents))

    def insert_under_root(self, node_id: str) -> TreeChanges:
        """Move the root's text to a summary of its own, so that the root can move up a level; return the changes."""
        root = self._units[self.root_id]
        below = replace(root, unit_id=node_id, sequence=NOT_NUMBERED, parent_id=root.unit_id)
        below = replace(below, visit_count=0, last_visit=0, never_delete=False, metadata={})
        above = replace(root, sequence=NOT_NUMBERED, level=root.level + 1)
        parents = dict.fromkeys(self.children(root.unit_id), node_id)
        return self._change(TreeChanges(written=(below, above), parents=parents))

    def make_root(self, node_id: str) -> TreeChanges:
        """Make the only remaining summary the root, and return the changes."""
        root = replace(self._units[node_id], unit_id=self.root_id, sequence=NOT_NUMBERED)
        parents = dict.fromkeys(self.children(node_id), self.root_id)
        return self._change(TreeChanges(written=(root,), parents=parents, removed=(node_id,)))

    def remove_empty(self) -> TreeChanges | None:
        """Remove summaries whose units are all deleted, and return the changes; None if there are none."""
        gone: list[str] = []
        for node in sorted(self.nodes(), key=lambda unit: unit.level):
            if node.is_stale and all(child in gone for child in self.children(node.unit_id)):
                gone.append(node.unit_id)
        return self._change(TreeChanges(removed=tuple(gone))) if gone else None

    def _change(self, changes: TreeChanges) -> TreeChanges:
        for unit_id in changes.removed:
            del self._units[unit_id]
        for unit in changes.written:
            self._units[unit.unit_id] = unit
            self._tokens.pop(unit.unit_id, None)
            self._age[unit.unit_id] = next(self._younger)
        for unit_id, parent_id in changes.parents.items():
            self._units[unit_id] = replace(self._units[unit_id], parent_id=parent_id)
        return changes


def _free(unit: MemoryUnit, ids: Collection[str]) -> MemoryUnit:
    return unit if unit.parent_id is None or unit.parent_id in ids else replace(unit, parent_id=None)


def _is_node(unit: MemoryUnit, root_id: str, rank: int) -> bool:
    return unit.rank == rank and unit.group_id == root_id


def _is_leaf(unit: MemoryUnit, root_id: str, rank: int) -> bool:
    return (unit.rank == 0 and unit.group_id == root_id) if rank == 1 else is_root(unit)


def is_root(unit: MemoryUnit) -> bool:
    """Return whether a unit is the summary of its whole group."""
    return unit.rank == 1 and unit.unit_id == unit.group_id
