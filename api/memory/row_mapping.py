"""Converts units between the runtime and the rows of the database."""

from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from runtime.memory.units import MemoryUnit
from store.interface.memory_rows import Relation, UnitRow

_SHARED = tuple(name for name in MemoryUnit.__struct_fields__ if name in UnitRow.__struct_fields__)
"""The fields with the same name and meaning in a unit and in its row."""


class Origin(NamedTuple):
    """The session that a unit is from, its turn, and the number of the message that the unit is; None for no such."""

    session_id: str | None = None
    turn: int | None = None
    message: int | None = None


def fields_of(struct: Struct, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the values of these fields."""
    return {name: getattr(struct, name) for name in names}


def unit_of(row: UnitRow) -> MemoryUnit:
    """Return the unit of a row."""
    with_text = row if row.content is not None else replace(row, content="")
    return msgspec.convert(with_text, MemoryUnit, from_attributes=True)  # twice as fast as from keywords


def row_of(unit: MemoryUnit, tenant: str, user_id: str, origin: Origin) -> UnitRow:
    """Return the row of a unit."""
    fields = fields_of(unit, _SHARED) | origin._asdict()
    fields |= {"metadata": dict(unit.metadata), "valid_from": unit.valid_from or unit.creation_time}
    return UnitRow(tenant=tenant, user_id=user_id, **fields)


def with_relation(unit: MemoryUnit, relation: Relation) -> MemoryUnit:
    """Return the unit with the fields of its relation; a withdrawn summary has no content."""
    content = "" if relation.is_stale else unit.content
    return replace(unit, content=content, **fields_of(relation, Relation.__struct_fields__))


def relation_of(unit: MemoryUnit) -> Relation:
    """Return the fields of a stored unit that may change."""
    return Relation(**fields_of(unit, Relation.__struct_fields__))
