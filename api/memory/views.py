"""Response views of units, chains, groups and statistics of a memory."""

from collections.abc import Sequence
from typing import Any

from api.memory.listing import Group, MemoryStats, PlacedUnit
from api.memory.requests import Recalled, RecalledChain, RecalledUnit
from api.memory.row_mapping import fields_of
from api.schemas.memory import ChainUnit, ChainView, GroupView, RecalledView, UnitView
from api.schemas.memory_work import EmbedderView, JobView, StatusView, UnitsByRank


def unit_view(placed: PlacedUnit) -> UnitView:
    """Return the view of a unit with its links."""
    return UnitView.of(placed.unit, pre_id=placed.pre_id, next_id=placed.next_id, children_ids=placed.children_ids)


def recalled_view(recalled: Recalled) -> RecalledView:
    """Return the view of a query's result."""
    return RecalledView(chains=[_chain_view(chain) for chain in recalled.chains], round=recalled.round)


def _chain_view(chain: RecalledChain) -> ChainView:
    units = [_chain_unit(each) for each in chain.units]
    return ChainView(score=chain.score, external=chain.external or None, units=units)


def _chain_unit(recalled: RecalledUnit) -> ChainUnit:
    fields = fields_of(recalled, RecalledUnit.__struct_fields__)
    return ChainUnit.of(fields.pop("unit"), **fields, is_hit=recalled.score is not None)


def group_view(group: Group) -> GroupView:
    """Return the view of a session or collection."""
    counts = fields_of(group, Group.__struct_fields__)
    return GroupView.of(counts.pop("row"), **counts)


def status_view(user_id: str, stats: MemoryStats) -> StatusView:
    """Return the view of a memory's statistics and of the maintenance that it needs."""
    fields = fields_of(stats, MemoryStats.__struct_fields__)
    del fields["embedder_state"]
    fields |= {
        "units": UnitsByRank(said=stats.units.get(0, 0), of_groups=stats.units.get(1, 0), of_all=stats.units.get(2, 0)),
        "embedder": EmbedderView(id=stats.embedder, state=stats.embedder_state),
        "jobs": [JobView.of(job) for job in stats.jobs],
    }
    return StatusView(user_id=user_id, offers=_offers(stats), **fields)


def _offers(stats: MemoryStats) -> Sequence[Any]:
    found = []
    if stats.seen_otherwise:
        found.append("embed")
    if stats.is_stale:
        found.append("summarise")
    return found
