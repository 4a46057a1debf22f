"""The tree of summaries over a session's messages, or over all sessions: which unit stands under which.

A summary is of its own tree's rank: 1 over what was said in a group, 2 over the roots of groups. Its children are those
that name it as their parent. Whether it has told a child yet follows from their sequences: words that are younger than
the summary above them cannot be in it.
"""

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from runtime.memory.units import NOT_NUMBERED, MemoryUnit
from runtime.tokens import tokens_of


class Changes(Struct, frozen=True, kw_only=True):
    """What is to be done to the units, in one transaction.

    `written` are summaries, new or in place of the one with the same id; they are numbered in this order, and anew each
    time. `parents` tells of others to whom they belong now; `removed` are summaries that are no more.
    """

    written: tuple[MemoryUnit, ...] = ()
    parents: Mapping[str, str] = {}
    removed: tuple[str, ...] = ()


def applied(units: Iterable[MemoryUnit], changes: Changes) -> list[MemoryUnit]:
    """The units as they are afterwards; what was written stands last and is not numbered yet."""
    gone = {*changes.removed, *(unit.unit_id for unit in changes.written)}
    kept = [unit for unit in units if unit.unit_id not in gone]
    moved = [
        replace(unit, parent_id=changes.parents[unit.unit_id]) if unit.unit_id in changes.parents else unit
        for unit in kept
    ]
    return [*moved, *changes.written]


def place_of(unit: MemoryUnit) -> int:
    """Where a unit stands in time among others of its height."""
    return unit.tells_from if unit.rank else unit.sequence


class Tree:
    """One tree while it grows. What it is changed by comes back from each change, to be written down."""

    def __init__(self, units: Sequence[MemoryUnit], root_id: str, rank: Literal[1, 2]) -> None:
        """Takes of the units what stands in the tree of that root, in any order.

        Of what was said, nothing is needed of units that stand under any other than the newest summary of level 1, or
        a stale one. What stood under a summary that is there no more stands under none.
        """
        self.root_id = root_id
        self.rank: Literal[1, 2] = rank
        mine = [unit for unit in units if _is_node(unit, root_id, rank) or _is_leaf(unit, root_id, rank)]
        written = sorted(mine, key=lambda unit: (unit.sequence == NOT_NUMBERED, unit.sequence))
        ids = {unit.unit_id for unit in mine}
        self._units = {unit.unit_id: _freed(unit, ids) if unit.unit_id != root_id else unit for unit in mine}
        self._tokens: dict[str, int] = {}
        self._younger = itertools.count(len(mine))
        self._age = {unit.unit_id: age for age, unit in enumerate(written)}

    def __getitem__(self, unit_id: str) -> MemoryUnit:
        return self._units[unit_id]

    def find(self, unit_id: str) -> MemoryUnit | None:
        """The unit, if it is in the tree."""
        return self._units.get(unit_id)

    def tokens(self, unit_id: str) -> int:
        """About how many tokens the words of a unit have."""
        if unit_id not in self._tokens:
            self._tokens[unit_id] = tokens_of(self._units[unit_id].content)
        return self._tokens[unit_id]

    def in_order(self, ids: Iterable[str]) -> list[str]:
        """The same, the earliest first."""
        return sorted(ids, key=lambda unit_id: (place_of(self._units[unit_id]), self._age[unit_id]))

    def leaves(self) -> list[str]:
        """What the tree stands on, the earliest first."""
        return self.in_order(unit_id for unit_id, unit in self._units.items() if unit.rank != self.rank)

    def nodes(self) -> list[MemoryUnit]:
        """Its summaries."""
        return [unit for unit in self._units.values() if unit.rank == self.rank]

    def nodes_at(self, level: int) -> list[str]:
        """Its summaries of one height, the earliest first."""
        return self.in_order(unit.unit_id for unit in self.nodes() if unit.level == level)

    def height(self) -> int:
        """The height of its highest summary; 0 without one."""
        return max((unit.level for unit in self.nodes()), default=0)

    def children(self, node_id: str) -> list[str]:
        """What stands under a summary, the earliest first."""
        return self.in_order(unit_id for unit_id, unit in self._units.items() if unit.parent_id == node_id)

    def is_told(self, unit_id: str) -> bool:
        """Whether the words of a unit are in the summary above it."""
        parent_id = self._units[unit_id].parent_id
        if unit_id == self.root_id or parent_id is None:
            return unit_id == self.root_id
        return self._age[unit_id] < self._age[parent_id]

    def is_due(self) -> bool:
        """Whether anything in it is not told yet, or tells of what is no more."""
        return any(unit.is_stale for unit in self.nodes()) or not all(map(self.is_told, self._units))

    # -- changes ------------------------------------------------------------------------------------------------------

    def write(self, node: MemoryUnit, children: Iterable[str]) -> Changes:
        """A summary, new or told anew, over its children."""
        parents = {unit_id: node.unit_id for unit_id in children if self._units[unit_id].parent_id != node.unit_id}
        return self._change(Changes(written=(node,), parents=parents))

    def slip_under_root(self, node_id: str) -> Changes:
        """A summary of its own for what the root told so far, so that the root can stand higher."""
        root = self._units[self.root_id]
        below = replace(
            root, unit_id=node_id, sequence=NOT_NUMBERED, parent_id=root.unit_id, visit_count=0, last_visit=0
        )
        below = replace(below, never_delete=False, metadata={})
        above = replace(root, sequence=NOT_NUMBERED, level=root.level + 1)
        parents = dict.fromkeys(self.children(root.unit_id), node_id)
        return self._change(Changes(written=(below, above), parents=parents))

    def make_root(self, node_id: str) -> Changes:
        """The one summary that is left becomes the root."""
        root = replace(self._units[node_id], unit_id=self.root_id, sequence=NOT_NUMBERED)
        parents = dict.fromkeys(self.children(node_id), self.root_id)
        return self._change(Changes(written=(root,), parents=parents, removed=(node_id,)))

    def remove_empty(self) -> Changes | None:
        """Takes out summaries that tell only of what is no more; None where there are none."""
        gone: list[str] = []
        for node in sorted(self.nodes(), key=lambda unit: unit.level):
            if node.is_stale and all(child in gone for child in self.children(node.unit_id)):
                gone.append(node.unit_id)
        return self._change(Changes(removed=tuple(gone))) if gone else None

    def _change(self, changes: Changes) -> Changes:
        for unit_id in changes.removed:
            del self._units[unit_id]
        for unit in changes.written:
            self._units[unit.unit_id] = unit
            self._tokens.pop(unit.unit_id, None)
            self._age[unit.unit_id] = next(self._younger)
        for unit_id, parent_id in changes.parents.items():
            self._units[unit_id] = replace(self._units[unit_id], parent_id=parent_id)
        return changes


def _freed(unit: MemoryUnit, ids: Collection[str]) -> MemoryUnit:
    return unit if unit.parent_id is None or unit.parent_id in ids else replace(unit, parent_id=None)


def _is_node(unit: MemoryUnit, root_id: str, rank: int) -> bool:
    return unit.rank == rank and unit.group_id == root_id


def _is_leaf(unit: MemoryUnit, root_id: str, rank: int) -> bool:
    return (unit.rank == 0 and unit.group_id == root_id) if rank == 1 else is_root(unit)


def is_root(unit: MemoryUnit) -> bool:
    """Whether a unit sums up its whole group."""
    return unit.rank == 1 and unit.unit_id == unit.group_id
