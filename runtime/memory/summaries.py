"""Growth of the tree of summaries, in steps: groups of units in order of time, groups of those, up to one root.

Invariants after a complete run (those of `summarizing.py` in MemForest, without its defects):

- every message has one parent, and there is one root, whose id is the group's (rank 1) or the memory's (2);
- a group accepts the next item while its limits of units and tokens allow; a unit over the limits is a group of its
  own, but above level 0 a group accepts two in any case, and a single one that is left joins the next level unchanged.
  So each level has at most half as many items as the one below, whatever the sizes, and the growth ends;
- nothing is summarised twice: only items without a parent, and items younger than the summary above them, are passed
  to a summary; the last group of a level stays open and extends its text, as does every summary above it;
- a summary's times are the earliest and latest of its items, its trust is their minimum;
- forgotten items stay in the summary's text; a stale summary is rebuilt from the items left under it, and from them
  alone.

Each step is one summary and leaves the rows consistent, so a step can be committed alone. If a summary fails, the
steps before it stay committed and the next run continues from the rows. There must be one run at a time for each
owner: two concurrent runs would not know the items of each other.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from runtime.memory.tree import Tree, TreeChanges, apply_changes, is_root, place_of
from runtime.memory.units import MemoryUnit, least_trust

SOURCE = "summary"
LEVELS_MAX = 64  # each has at most half as many items as the one below

Steps: TypeAlias = AsyncGenerator[TreeChanges, None]
"""The steps of a run, each to be committed before the next one is requested, or all of them at the end."""


class GroupLimits(Struct, frozen=True):
    """The limits of one summary."""

    units_max: int = 60
    tokens_max: int = 2_000

    def __post_init__(self) -> None:
        if self.units_max < 2:
            raise ValueError(f"a group of at most {self.units_max} units never ends in one root: at least 2 are needed")


class SummaryRequest(Struct, frozen=True, kw_only=True):
    """The input of one summary: its text so far and the units to add; `history` is background."""

    history: str  # the summary before this one, or what was known before everything
    so_far: str  # the text of this summary so far, to be extended; empty for a new one
    units: tuple[MemoryUnit, ...]
    rank: Literal[1, 2]
    level: int


class Summary(Struct, frozen=True):
    """A summary."""

    text: str
    is_extract: bool = False


Summarise: TypeAlias = Callable[[SummaryRequest], Awaitable[Summary]]
"""Summarises a request; an exception ends the run."""


class SummaryOptions(Struct, frozen=True, kw_only=True):
    """How summaries are made."""

    summarise: Summarise
    ids: Callable[[], str]  # for summaries that are not roots
    limits: GroupLimits = GroupLimits()
    history: str = ""  # what was known before everything


def summarise_group(units: Sequence[MemoryUnit], group_id: str, options: SummaryOptions) -> Steps:
    """Update the summaries of one group, step by step; no step if nothing is new."""
    return _grow(Tree(units, group_id, 1), options)


async def summarise_all(units: Sequence[MemoryUnit], memory_id: str, options: SummaryOptions) -> Steps:
    """Update the summary of all groups; changed groups are updated first."""
    groups: dict[str, list[MemoryUnit]] = {}
    for unit in sorted(units, key=place_of):
        if unit.rank < 2:
            groups.setdefault(unit.group_id, []).append(unit)
    whole = [unit for unit in units if unit.rank == 2]
    for group_id, members in groups.items():
        grown = members
        async for changes in summarise_group(members, group_id, options):
            grown = apply_changes(grown, changes)
            yield changes
        whole += filter(is_root, grown)
    async for changes in _grow(Tree(whole, memory_id, 2), options):
        yield changes


# -- level by level ---------------------------------------------------------------------------------------------------


class _Group(Struct):
    """The items of one summary, an existing or a new one."""

    node_id: str = ""
    above: str | None = None  # the summary that covers it, or one of its members, already
    members: list[str] = field(default_factory=list)


async def _grow(tree: Tree, options: SummaryOptions) -> Steps:
    if not tree.is_due():
        return
    removed = tree.remove_empty()
    if removed is not None:
        yield removed
    items = tree.leaves()
    for level in range(LEVELS_MAX):
        groups, left = _groups(tree, level, items, options.limits)
        is_top = len(groups) + len(left) == 1 and tree.height() <= level + 1
        before = options.history
        for group in groups:
            is_first = is_top and tree.find(tree.root_id) is None
            group.node_id = group.node_id or (tree.root_id if is_first else options.ids())
            changes = await _summarise(tree, level, group, before, options)
            if changes is not None:
                yield changes
            if group.node_id == tree.root_id and not is_top:
                group.node_id = options.ids()
                yield tree.insert_under_root(group.node_id)
            before = tree[group.node_id].content
        items = tree.in_order([*(group.node_id for group in groups), *left])
        if is_top and tree.find(tree.root_id) is None:
            yield tree.make_root(items[0])
            return
        if items in ([], [tree.root_id]):
            return


def _groups(tree: Tree, level: int, items: Sequence[str], limits: GroupLimits) -> tuple[list[_Group], list[str]]:
    """Return the groups of a level, and what is left unchanged for the next one: nothing, or a single unit.

    Existing groups do not change; the last of them accepts the next items while its limits allow. An item stays under
    the summary that covers it, at any level, so that it is known which summary is stale when the item is deleted.
    """
    groups = {node_id: _Group(node_id, tree[node_id].parent_id) for node_id in tree.nodes_at(level + 1)}
    pending: list[str] = []
    for item in items:
        group = groups.get(tree[item].parent_id or "")
        (group.members if group is not None else pending).append(item)
    found = list(groups.values())
    found += _fill(tree, found.pop() if found else _Group(), pending, level, limits)
    singles = [group for group in found if level and not group.node_id and len(group.members) == 1]
    return [group for group in found if group not in singles], [group.members[0] for group in singles]


def _fill(tree: Tree, last: _Group, items: Iterable[str], level: int, limits: GroupLimits) -> list[_Group]:
    """Return the last group with the next items, and new groups for those over its limits."""
    groups = [last]
    for item in items:
        above = tree[item].parent_id
        is_elsewhere = above and above != groups[-1].above and (groups[-1].node_id or groups[-1].above)
        if is_elsewhere or not _has_room(tree, groups[-1].members, item, level, limits):
            groups.append(_Group())
        groups[-1].members.append(item)
        groups[-1].above = groups[-1].above or above
    return [group for group in groups if group.node_id or group.members]


def _has_room(tree: Tree, members: Sequence[str], item: str, level: int, limits: GroupLimits) -> bool:
    """Return whether the limits of a group allow one more item."""
    if len(members) < (2 if level else 1):
        return True
    tokens = sum(map(tree.tokens, (*members, item)))
    return len(members) < limits.units_max and tokens <= limits.tokens_max


# -- one summary ------------------------------------------------------------------------------------------------------


async def _summarise(tree: Tree, level: int, group: _Group, before: str, options: SummaryOptions) -> TreeChanges | None:
    """Summarise the new items of a group; None if there are none."""
    node = tree.find(group.node_id)
    current = None if node is None or node.is_stale else node
    new_members = tree.in_order(
        member
        for member in group.members
        if current is None or tree[member].parent_id != group.node_id or not tree.is_summarised(member)
    )
    if not new_members:
        return None
    written = Summary(current.content if current is not None else "")
    for piece in _pieces(tree, new_members, level, options.limits):
        units = tuple(tree[member] for member in piece)
        passage = SummaryRequest(history=before, so_far=written.text, units=units, rank=tree.rank, level=level + 1)
        written = await options.summarise(passage)
    sources = [tree[member] for member in group.members] + ([current] if current is not None else [])
    summary = MemoryUnit(
        unit_id=group.node_id,
        content=written.text,
        source=SOURCE,
        creation_time=min(unit.creation_time for unit in sources),
        end_time=max(unit.end_time for unit in sources),
        rank=tree.rank,
        level=level + 1,
        group_id=tree.root_id,
        trust=least_trust(sources),
        is_extract=written.is_extract,
        tells_from=min(map(place_of, sources)),
        parent_id=group.above,
    )
    return tree.write(summary if node is None else _in_place_of(node, summary), group.members)


def _pieces(tree: Tree, new_members: Sequence[str], level: int, limits: GroupLimits) -> list[list[str]]:
    """Return the items in pieces within the limits: a rebuilt summary may have more items than one request allows."""
    pieces: list[list[str]] = [[]]
    for item in new_members:
        if not _has_room(tree, pieces[-1], item, level, limits):
            pieces.append([])
        pieces[-1].append(item)
    return pieces


def _in_place_of(node: MemoryUnit, summary: MemoryUnit) -> MemoryUnit:
    """Return the new summary with the old one's metadata, parent and visits."""
    return replace(
        summary,
        metadata=node.metadata,
        parent_id=node.parent_id,
        visit_count=node.visit_count,
        last_visit=node.last_visit,
        never_delete=node.never_delete,
    )
