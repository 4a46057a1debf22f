"""Between units as the runtime thinks of them and as the record holds them."""

from typing import cast

from msgspec.structs import replace

from runtime.memory.units import MemoryUnit, Rank
from store.memory.rows import Relation, UnitRow


def unit_of(row: UnitRow) -> MemoryUnit:
    """A unit of the record's."""
    return MemoryUnit(
        unit_id=row.unit_id,
        sequence=row.sequence,
        content=row.content or "",
        source=row.source,
        creation_time=row.creation_time,
        end_time=row.end_time,
        metadata=row.metadata,
        rank=cast("Rank", row.rank),
        level=row.level,
        group_id=row.group_id,
        parent_id=row.parent_id,
        visit_count=row.visit_count,
        last_visit=row.last_visit,
        never_delete=row.never_delete,
        trust=row.trust,
        is_extract=row.is_extract,
        is_stale=row.is_stale,
        tells_from=row.tells_from,
        valid_from=row.valid_from,
        valid_to=row.valid_to,
        superseded_by=row.superseded_by,
        duplicate_of=row.duplicate_of,
    )


def row_of(
    unit: MemoryUnit,
    tenant: str,
    user_id: str,
    session_id: str | None,
    turn: int | None = None,
    message: int | None = None,
) -> UnitRow:
    """A row for a unit."""
    return UnitRow(
        tenant=tenant,
        user_id=user_id,
        unit_id=unit.unit_id,
        sequence=unit.sequence,
        group_id=unit.group_id,
        session_id=session_id,
        turn=turn,
        message=message,
        rank=unit.rank,
        level=unit.level,
        content=unit.content,
        source=unit.source,
        creation_time=unit.creation_time,
        end_time=unit.end_time,
        metadata=dict(unit.metadata),
        parent_id=unit.parent_id,
        visit_count=unit.visit_count,
        last_visit=unit.last_visit,
        never_delete=unit.never_delete,
        trust=unit.trust,
        is_extract=unit.is_extract,
        is_stale=unit.is_stale,
        tells_from=unit.tells_from,
        valid_from=unit.valid_from or unit.creation_time,
        valid_to=unit.valid_to,
        superseded_by=unit.superseded_by,
        duplicate_of=unit.duplicate_of,
    )


def related(unit: MemoryUnit, relation: Relation) -> MemoryUnit:
    """Return the unit with what its relation says; a summary that is withdrawn has no content."""
    return replace(
        unit,
        content="" if relation.is_stale else unit.content,
        parent_id=relation.parent_id,
        never_delete=relation.never_delete,
        is_stale=relation.is_stale,
        valid_to=relation.valid_to,
        superseded_by=relation.superseded_by,
        duplicate_of=relation.duplicate_of,
    )


def relation_of(unit: MemoryUnit) -> Relation:
    """What may change of a unit that is recorded."""
    return Relation(
        sequence=unit.sequence,
        parent_id=unit.parent_id,
        never_delete=unit.never_delete,
        is_stale=unit.is_stale,
        valid_to=unit.valid_to,
        superseded_by=unit.superseded_by,
        duplicate_of=unit.duplicate_of,
    )
