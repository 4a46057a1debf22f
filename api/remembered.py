"""Memory without a record, as `cuebook play` and `cuebook test` have it: with the filters of the record."""

from collections.abc import Collection, Sequence

from msgspec import structs

from runtime.memory.local import LocalMemory
from runtime.memory.units import MemoryUnit
from runtime.ports import MemoryFailed
from scripts.values import Value
from store.errors import FilterInvalid
from store.memory.aside import matching_among
from store.memory.filters import parse
from store.memory.rows import UnitRow


def matching(units: Sequence[MemoryUnit], filters: Value) -> Collection[str]:
    """The ids of the units that a filter is true of. Raises MemoryFailed where it is none."""
    try:
        wanted = parse(filters)
    except FilterInvalid as invalid:
        raise MemoryFailed(str(invalid), retryable=False) from invalid
    numbers = set(matching_among([_row(unit) for unit in units], wanted))
    return {unit.unit_id for unit in units if unit.sequence in numbers}


def _row(unit: MemoryUnit) -> UnitRow:
    given = structs.asdict(unit) | {"metadata": dict(unit.metadata), "valid_from": unit.creation_time}
    return UnitRow(tenant="", user_id="", **given)


LOCAL = LocalMemory(matching=matching)
"""The memory of a user of whom nothing is known yet."""
