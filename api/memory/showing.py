"""Units, chains, groups and work as clients see them."""

from collections.abc import Sequence
from typing import Any

from api.memory.asked import Recalled, RecalledChain, RecalledUnit
from api.memory.listing import Group, PlacedUnit, Standing
from api.schemas.memory import ChainUnit, ChainView, GroupView, RecalledView, StoredUnit, UnitView
from api.schemas.memory_work import EmbedderView, JobView, StatusView, UnitsByRank
from runtime.memory.units import MemoryUnit
from store.memory.rows import JobRow


def stored_view(unit: MemoryUnit) -> StoredUnit:
    """A unit as it is recorded."""
    return StoredUnit(**_stored(unit))


def _stored(unit: MemoryUnit) -> dict[str, Any]:
    return {name: getattr(unit, name) for name in StoredUnit.__struct_fields__}


def unit_view(placed: PlacedUnit) -> UnitView:
    """A unit in its place."""
    return UnitView(
        **_stored(placed.unit), pre_id=placed.pre_id, next_id=placed.next_id, children_ids=placed.children_ids
    )


def recalled_view(recalled: Recalled) -> RecalledView:
    """What came of a query."""
    return RecalledView(chains=[_chain_view(chain) for chain in recalled.chains], round=recalled.round)


def _chain_view(chain: RecalledChain) -> ChainView:
    units = [_chain_unit(each) for each in chain.units]
    return ChainView(score=chain.score, external=chain.external or None, units=units)


def _chain_unit(recalled: RecalledUnit) -> ChainUnit:
    return ChainUnit(
        **_stored(recalled.unit),
        pre_id=recalled.pre_id,
        next_id=recalled.next_id,
        is_hit=recalled.score is not None,
        score=recalled.score,
        signals=recalled.signals,
        count=recalled.count,
        times=recalled.times,
    )


def group_view(group: Group) -> GroupView:
    """A session or collection."""
    return GroupView(
        group_id=group.row.group_id,
        session_id=group.row.session_id,
        created_at=group.row.created_at,
        units=group.units,
        summaries=group.summaries,
        context=group.context,
        short_term=group.short_term,
    )


def job_view(job: JobRow) -> JobView:
    """Work, and how far it is."""
    return JobView(**{name: getattr(job, name) for name in JobView.__struct_fields__})


def status_view(user_id: str, standing: Standing) -> StatusView:
    """How a memory stands, and what would help."""
    return StatusView(
        user_id=user_id,
        memory_id=standing.memory_id,
        round=standing.round,
        units=UnitsByRank(
            said=standing.units.get(0, 0), of_groups=standing.units.get(1, 0), of_all=standing.units.get(2, 0)
        ),
        groups=standing.groups,
        is_stale=standing.is_stale,
        embedder=EmbedderView(id=standing.embedder, state=standing.embedder_state),
        vectors=standing.vectors,
        without_vector=standing.without_vector,
        seen_otherwise=standing.seen_otherwise,
        offers=_offers(standing),
        jobs=[job_view(job) for job in standing.jobs],
    )


def _offers(standing: Standing) -> Sequence[Any]:
    found = []
    if standing.seen_otherwise:
        found.append("embed")
    if standing.is_stale:
        found.append("summarise")
    return found
