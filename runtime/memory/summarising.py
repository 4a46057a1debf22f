"""Grows the tree of summaries, call by call: groups of units in order of time, groups of those, until one root is left.

What holds whenever a tree has been grown to its end (seed 000, `summarizing.py`, without its faults):

- everything said has one parent, and above all stands one root, whose id is the group's (rank 1) or the memory's (2);
- a group takes what comes next while it has room in units and tokens; a unit larger than that is a group by itself,
  but above level 0 a group takes two in any case, and a single one that is left joins the next level as it is. So each
  level is at most half of the one below, whatever the sizes, and it ends;
- nothing is told twice: only what has no parent yet, and what is younger than the summary above it, is fed to a
  summary; the last group of a level stays open and goes on from what it told, as does every summary above it;
- a summary's times are the earliest and latest of what it tells of, its trust is the least of it;
- what was forgotten stays told; a summary that is stale is told anew from what is left under it, and from that alone.

Each step is one summary and leaves the rows consistent, so a step can be committed by itself. When a summary cannot be
had, the steps before it stand and the rest follows from the rows the next time. One run at a time for each owner: what
is told in two runs at once would not be known to be old.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from runtime.memory.tree import Changes, Tree, applied, is_root, place_of
from runtime.memory.units import MemoryUnit, least_trust

SOURCE = "summary"
LEVELS_MAX = 64  # each is at most half of the one below

Steps: TypeAlias = AsyncGenerator[Changes, None]
"""The steps of a run, each to be committed before the next one is asked for, or all of them at the end."""


class GroupLimits(Struct, frozen=True):
    """How much is told in one summary."""

    units_max: int = 60
    tokens_max: int = 2_000

    def __post_init__(self) -> None:
        if self.units_max < 2:
            raise ValueError(f"a group of at most {self.units_max} units never ends in one root: it takes 2 or more")


class Passage(Struct, frozen=True, kw_only=True):
    """What is to be told in one summary: what it told so far and, after that, these units; all else is background."""

    history: str  # what the summary before it tells, or what was known before everything
    so_far: str  # what it told itself up to now, which is to stay told; empty for a new one
    units: tuple[MemoryUnit, ...]
    rank: Literal[1, 2]
    level: int


class Told(Struct, frozen=True):
    """A summary."""

    text: str
    is_extract: bool = False


class Summarise(Protocol):
    """Sums a passage up."""

    async def __call__(self, passage: Passage) -> Told:
        """The summary; whatever it raises ends the run."""


class Telling(Struct, frozen=True, kw_only=True):
    """How summaries are made."""

    summarise: Summarise
    ids: Callable[[], str]  # for summaries that are no roots
    limits: GroupLimits = GroupLimits()
    history: str = ""  # what was known before everything


async def summarise_group(units: Sequence[MemoryUnit], group_id: str, telling: Telling) -> Steps:
    """Brings the summaries of one group up to date, step by step; no step where nothing is new."""
    async for changes in _grow(Tree(units, group_id, 1), telling):
        yield changes


async def summarise_all(units: Sequence[MemoryUnit], memory_id: str, telling: Telling) -> Steps:
    """Brings the summary of all groups up to date; groups that changed since theirs was made come first."""
    groups: dict[str, list[MemoryUnit]] = {}
    for unit in sorted(units, key=place_of):
        if unit.rank < 2:
            groups.setdefault(unit.group_id, []).append(unit)
    whole = [unit for unit in units if unit.rank == 2]
    for group_id, members in groups.items():
        grown = members
        async for changes in summarise_group(members, group_id, telling):
            grown = applied(grown, changes)
            yield changes
        whole += filter(is_root, grown)
    async for changes in _grow(Tree(whole, memory_id, 2), telling):
        yield changes


# -- level by level ---------------------------------------------------------------------------------------------------


class _Group(Struct):
    """What is told in one summary: one that is there, or one to be made."""

    node_id: str = ""
    above: str | None = None  # the summary that tells of it, or of one of its members, already
    members: list[str] = field(default_factory=list)


async def _grow(tree: Tree, telling: Telling) -> Steps:
    if not tree.is_due():
        return
    removed = tree.remove_empty()
    if removed is not None:
        yield removed
    items = tree.leaves()
    for level in range(LEVELS_MAX):
        groups, left = _groups(tree, level, items, telling.limits)
        is_top = len(groups) + len(left) == 1 and tree.height() <= level + 1
        before = telling.history
        for group in groups:
            is_first = is_top and tree.find(tree.root_id) is None
            group.node_id = group.node_id or (tree.root_id if is_first else telling.ids())
            changes = await _tell(tree, level, group, before, telling)
            if changes is not None:
                yield changes
            if group.node_id == tree.root_id and not is_top:
                group.node_id = telling.ids()
                yield tree.slip_under_root(group.node_id)
            before = tree[group.node_id].content
        items = tree.in_order([*(group.node_id for group in groups), *left])
        if is_top and tree.find(tree.root_id) is None:
            yield tree.make_root(items[0])
            return
        if items in ([], [tree.root_id]):
            return


def _groups(tree: Tree, level: int, items: Sequence[str], limits: GroupLimits) -> tuple[list[_Group], list[str]]:
    """The groups of a level, and what is left for the next one as it is: nothing, or a single unit.

    Groups that are there stay as they are; the last of them takes what comes next while it has room. What is told in a
    summary stays under it, however high that is, so that it is known what is stale when a unit goes.
    """
    groups = {node_id: _Group(node_id, tree[node_id].parent_id) for node_id in tree.nodes_at(level + 1)}
    pending: list[str] = []
    for item in items:
        group = groups.get(tree[item].parent_id or "")
        (group.members if group is not None else pending).append(item)
    found = list(groups.values())
    found += _filled(tree, found.pop() if found else _Group(), pending, level, limits)
    singles = [group for group in found if level and not group.node_id and len(group.members) == 1]
    return [group for group in found if group not in singles], [group.members[0] for group in singles]


def _filled(tree: Tree, last: _Group, items: Iterable[str], level: int, limits: GroupLimits) -> list[_Group]:
    """The last group with what comes next, and new ones for what it has no room for."""
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
    """Whether one more can be told together with these."""
    if len(members) < (2 if level else 1):
        return True
    tokens = sum(map(tree.tokens, (*members, item)))
    return len(members) < limits.units_max and tokens <= limits.tokens_max


# -- one summary ------------------------------------------------------------------------------------------------------


async def _tell(tree: Tree, level: int, group: _Group, before: str, telling: Telling) -> Changes | None:
    """Tells what a group has that is not told yet; None where nothing is."""
    node = tree.find(group.node_id)
    kept = None if node is None or node.is_stale else node
    fed = [
        member
        for member in group.members
        if kept is None or tree[member].parent_id != group.node_id or not tree.is_told(member)
    ]
    if not fed:
        return None
    told = Told(kept.content if kept is not None else "")
    for piece in _pieces(tree, fed, level, telling.limits):
        units = tuple(tree[member] for member in piece)
        passage = Passage(history=before, so_far=told.text, units=units, rank=tree.rank, level=level + 1)
        told = await telling.summarise(passage)
    sources = [tree[member] for member in group.members] + ([kept] if kept is not None else [])
    summary = MemoryUnit(
        unit_id=group.node_id,
        content=told.text,
        source=SOURCE,
        creation_time=min(unit.creation_time for unit in sources),
        end_time=max(unit.end_time for unit in sources),
        rank=tree.rank,
        level=level + 1,
        group_id=tree.root_id,
        trust=least_trust(sources),
        is_extract=told.is_extract,
        tells_from=min(map(place_of, sources)),
        parent_id=group.above,
    )
    return tree.write(summary if node is None else _in_place_of(node, summary), group.members)


def _pieces(tree: Tree, fed: Sequence[str], level: int, limits: GroupLimits) -> list[list[str]]:
    """As much as can be told at a time: of what is told anew there can be more than was ever told at once."""
    pieces: list[list[str]] = [[]]
    for item in fed:
        if not _has_room(tree, pieces[-1], item, level, limits):
            pieces.append([])
        pieces[-1].append(item)
    return pieces


def _in_place_of(node: MemoryUnit, summary: MemoryUnit) -> MemoryUnit:
    """The new summary, with what the old one has beside its words."""
    return replace(
        summary,
        metadata=node.metadata,
        parent_id=node.parent_id,
        visit_count=node.visit_count,
        last_visit=node.last_visit,
        never_delete=node.never_delete,
    )
