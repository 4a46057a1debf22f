"""Filters over units that stand in no record."""

from datetime import UTC, datetime

from store.interface.memory_filters import parse
from store.interface.memory_rows import UnitRow
from store.memory.filters_sql import filter_rows

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def row(number: int, content: str, source: str = "user", **metadata: object) -> UnitRow:
    return UnitRow(
        tenant="",
        user_id="",
        unit_id=f"u{number}",
        sequence=number,
        group_id="g",
        content=content,
        source=source,
        creation_time=NOON,
        end_time=NOON,
        valid_from=NOON,
        metadata=metadata,
        last_visit=number,
        trust="conversation",
    )


def test_the_units_of_one_call_are_not_those_of_the_next() -> None:
    units = [row(1, "run", about="goal"), row(2, "swim", "coach", days=3)]
    assert filter_rows(units, parse({"metadata.about": "goal"})) == [1]
    assert filter_rows(units, parse({"$or": [{"source": "coach"}, {"content": "run"}]})) == [1, 2]
    assert filter_rows(units, parse({"metadata.days": {"$gt": 2}})) == [2]
    assert filter_rows([row(2, "read")], parse(None)) == [2]
    assert filter_rows([], parse(None)) == []
