"""Filters of memory say what they mean: every operator, against a plain evaluation of the same filter in Python."""

import operator
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.duckdb.connection import DuckDBConnection
from store.duckdb.database import Database
from store.interface.errors import FilterInvalid
from store.interface.memory_filters import DEPTH_MAX, FIELDS, ITEMS_MAX, TEXT_CHARS_MAX, AllOf, parse
from store.interface.memory_rows import MemoryChange, UnitRow
from store.memory.changes import apply_change
from store.memory.filters_sql import matching
from store.store import Store
from tests.support.effort import repeats
from tests.support.store_rows import Conversation, unit_of

MOMENT = datetime(2025, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
SESSION = "33333333-0000-4000-8000-000000000000"

Match = Any


@pytest.fixture(scope="module")
def cursor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return a way into a record that all tests of this file write their units into, each its own."""
    database = Database.open(tmp_path_factory.mktemp("filters"))
    yield database.cursor()
    database.close()


@pytest.fixture
def match(cursor: Any) -> Match:
    """Return which of some units a filter is true of: ``match(units, {"source": "user"})``."""

    def match(units: list[UnitRow], filter_: object) -> list[int]:
        write(cursor, units)
        return matching(DuckDBConnection(cursor), "clinic", "ana", parse(filter_))

    return match


def write(cursor: Any, units: list[UnitRow]) -> None:
    cursor.execute("DELETE FROM memory_unit_rows")
    apply_change(DuckDBConnection(cursor), MemoryChange(tenant="clinic", user_id="ana", units=units))


def units_with(field: str, *contents: object) -> list[UnitRow]:
    """Return a unit for each content of a field, numbered from 1."""
    return [unit_of(number, **{field: content}) for number, content in enumerate(contents, 1)]


# -- every operator, by hand ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("ana", [1]),
        ({"$eq": "ana"}, [1]),
        ({"$ne": "ana"}, [2, 3]),
        ({"$gt": "ana"}, [2, 3]),
        ({"$gte": "ana", "$lt": "用户"}, [1, 2]),
        ({"$lte": "ben%_"}, [1, 2]),
        ({"$in": ["ana", "用户", "nobody"]}, [1, 3]),
        ({"$in": []}, []),
        ({"$nin": ["ana", "nobody"]}, [2, 3]),
        ({"$nin": []}, [1, 2, 3]),
        ({"$contains": "n"}, [1, 2]),
        ({"$contains": "%"}, [2]),
        ({"$like": "_n%"}, [1]),
        ({"$like": "__"}, [3]),
        ({"$like": "%\\%\\_"}, [2]),
        ({"$like": ".*"}, []),
    ],
)
def test_operators_on_text(match: Match, condition: object, expected: list[int]) -> None:
    assert match(units_with("source", "ana", "ben%_", "用户"), {"source": condition}) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"metadata.mood": "sad"}, [1]),
        ({"metadata.mood": {"$ne": "sad"}}, [2, 3, 4, 5, 6]),
        ({"metadata.mood": None}, [4, 5, 6]),
        ({"metadata.mood": {"$ne": None}}, [1, 2, 3]),
        ({"metadata.mood": {"$in": ["sad", 2, None]}}, [1, 2, 4, 5, 6]),
        ({"metadata.mood": {"$nin": ["sad", 2, None]}}, [3]),
        ({"metadata.mood": 2}, [2]),
        ({"metadata.mood": {"$gte": 1.5}}, [2]),
        ({"metadata.mood": {"$lt": "t"}}, [1]),
        ({"metadata.mood": True}, [3]),
        ({"metadata.mood": {"$contains": "a"}}, [1]),
        ({"metadata.mood": {"$like": "s%"}}, [1]),
        ({"metadata.tags": {"$contains": "new"}}, [4]),
        ({"metadata.tags": {"$contains": "ne"}}, []),
        ({"metadata.tags": {"$contains": 7}}, [4]),
        ({"metadata.tags": {"$contains": False}}, [4]),
        ({"metadata.place.city": "Graz"}, [5]),
        ({"metadata.tags.0": "new"}, [4]),
        ({"metadata.a/b~c": 1}, [6]),
        ({"metadata.shop\\.example.open": True}, [6]),
        ({"metadata.shop.example.open": True}, []),
    ],
)
def test_operators_on_metadata_compare_values_of_one_type(match: Match, condition: object, expected: list[int]) -> None:
    units = units_with(
        "metadata",
        {"mood": "sad"},
        {"mood": 2.0},
        {"mood": True},
        {"mood": None, "tags": ["new", 7, False, None]},
        {"place": {"city": "Graz"}, "tags": {"new": 7}},
        {"a/b~c": 1, "shop.example": {"open": True}},
    )
    assert match(units, condition) == expected


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        ({"creation_time": {"$gt": MOMENT + timedelta(minutes=1)}}, [2, 3]),
        ({"creationTime": {"$lte": (MOMENT + timedelta(minutes=2)).isoformat()}}, [1, 2]),
        ({"creationTime": {"$gte": "2025-03-01"}, "end_time": {"$lt": "2025-03-01T13:02:30.5+01:00"}}, [1, 2]),
        ({"valid_to": None}, [1, 2]),
        ({"validTo": {"$lt": "2026-01-01T00:00:00Z"}}, [3]),
        ({"rank": 1}, [3]),
        ({"rank": {"$lt": 1.0}}, [1, 2]),
        ({"sequence": {"$in": [1, 3]}}, [1, 3]),
        ({"never_delete": True}, [2]),
        ({"never_delete": {"$ne": True}}, [1, 3]),
        ({"trust": {"$in": ["own", "foreign"]}}, [1]),
        ({"sessionId": SESSION}, [2]),
        ({"session_id": {"$ne": SESSION}}, [1, 3]),
        ({"parentId": "diary"}, [1]),
        ({"content": {"$contains": "note"}, "rank": 0}, [1, 2]),
        ({"$or": [{"rank": 1}, {"source": "user", "sequence": 1}]}, [1, 3]),
        ({"$not": {"rank": 1}}, [1, 2]),
        ({"$and": [{"rank": 0}, {"$not": [("sequence", "==", 1)]}]}, [2]),
        (("sequence", ">=", 2), [2, 3]),
        ([("sequence", "<", 3), ("unit_id", "not in", ["unit-1"])], [2]),
        ([["source", "!=", "ai"], {"rank": 0}], [1, 2]),
        (["content", "like", "note _"], [1, 2, 3]),
        ({}, [1, 2, 3]),
        ([], [1, 2, 3]),
        (None, [1, 2, 3]),
    ],
)
def test_fields_by_their_types_and_filters_by_their_forms(match: Match, filter_: object, expected: list[int]) -> None:
    units = [
        unit_of(1, trust="own", parent_id="diary"),
        unit_of(2, never_delete=True, session_id=SESSION),
        unit_of(3, rank=1, level=1, valid_to=MOMENT),
    ]
    assert match(units, filter_) == expected


async def test_words_of_messages_match_and_other_memories_do_not(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    session = conversation.session_id
    said = [
        unit_of(number, group_id=session, session_id=session, turn=0, message=number, content=None) for number in (1, 2)
    ]
    await store.memory.change(MemoryChange(tenant="clinic", user_id="ana", units=[*said, unit_of(3)]))
    ben = unit_of(1, user_id="ben", content="question 0")
    await store.memory.change(MemoryChange(tenant="clinic", user_id="ben", units=[ben]))
    assert await store.memory.matching("clinic", "ana", parse({"content": "question 0"})) == [1]
    assert await store.memory.matching("clinic", "ana", parse({"content": {"$like": "% 0"}, "sequence": 2})) == [2]
    assert await store.memory.matching("clinic", "ana", parse({"$not": {"content": {"$contains": "0"}}})) == [3]
    assert await store.memory.matching("clinic", "ben", parse(None)) == [1]
    assert await store.memory.matching("other", "ana", parse(None)) == []


# -- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filter_", "says"),
    [
        ({"sorce": "user"}, "no field 'sorce'. Did you mean source?"),
        ({"grupId": "g"}, "no field 'grupId'. Did you mean groupId? There are unitId, sequence, groupId"),
        ({"grup_id": "g"}, "no field 'grup_id'. Did you mean group_id? There are unit_id, sequence, group_id"),
        ({"groupId.x": "g"}, "only metadata has keys; write groupId"),
        ({"source": {"$eqq": "user"}}, "no operator '$eqq'"),
        ({"source": {"eq": "user"}}, "no operator 'eq'"),
        ({"$nor": []}, "no '$nor'"),
        ({"$and": []}, "$and takes a list of filters, not an empty one"),
        ({"$or": {"rank": 1}}, "$or takes a list"),
        ({"$not": {}}, "must not be empty"),
        ({"source": {}}, "must not be empty"),
        ({"source": ["user"]}, 'write {"$in"'),
        ({"source": 5}, "source: $eq takes a text, not 5"),
        ({"rank": "1"}, "takes a whole number"),
        ({"rank": True}, "takes a whole number"),
        ({"rank": 0.5}, "takes a whole number"),
        ({"sequence": 2**63}, "takes a whole number"),
        ({"rank": {"$like": "1"}}, "cannot be compared by $like; it takes $eq, $ne"),
        ({"never_delete": "true"}, "takes true or false"),
        ({"never_delete": {"$gt": False}}, "cannot be compared"),
        ({"creation_time": "yesterday"}, "takes a time in ISO 8601"),
        ({"creation_time": 1700000000}, "takes a time in ISO 8601"),
        ({"creation_time": "0001-01-01T00:00:00+14:00"}, "takes a time in ISO 8601"),
        ({"trust": "owned"}, "one of own, conversation, foreign"),
        ({"source": {"$in": "user"}}, "takes a list"),
        ({"source": {"$gt": None}}, "takes a text, not null"),
        ({"source": {"$like": "a\\"}}, "escapes nothing"),
        ({"metadata": {"mood": "sad"}}, "no operator 'mood'"),
        ({"metadata": None}, "must name a key"),
        ({"metadata.": 1}, "must name a key"),
        ({"metadata.a": {"$gt": True}}, "have no order"),
        ({"metadata.a": float("nan")}, "takes a text, a number"),
        ({"metadata.a": {"$eq": {"b": 1}}}, "takes a text, a number"),
        ({"source.name": 1}, "only metadata has keys"),
        ("source", "is not a filter"),
        (5, "is not a filter"),
        ({5: 1}, "no 5"),
        ([5], "the filter[0]"),
        (("source", "=~", "x"), "no operator '=~'"),
        (["source", {"$eq": "x"}, "y"], "no operator an object"),
        ({"$and": [{"rank": 0}, {"$or": [{"ranc": 0}]}]}, "the filter.$and[1].$or[0]: no field 'ranc'"),
        ({"source": "x" * (TEXT_CHARS_MAX + 1)}, "characters"),
        ({"source": "\ud800"}, "not valid Unicode"),
        ({"sequence": {"$in": list(range(ITEMS_MAX + 1))}}, "items"),
        ({"$or": [{"sequence": {"$in": list(range(700))}} for _ in range(3)]}, "parts"),
    ],
)
def test_malformed_filters_are_refused_with_the_reason(filter_: object, says: str) -> None:
    with pytest.raises(FilterInvalid, match=re.escape(says)):
        parse(filter_)


def test_a_filter_is_nested_so_deep_and_no_deeper() -> None:
    deep: Any = {"rank": 0}
    for _ in range(DEPTH_MAX * 10):
        deep = {"$not": deep}
    with pytest.raises(FilterInvalid, match="deep"):
        parse(deep)


@pytest.mark.parametrize(
    "text", ["' OR true --", "'; DROP TABLE memory_unit_rows; --", '"]', "$value_0", "\\", "x\0y", "a' || content || '"]
)
def test_values_and_keys_are_never_read_as_sql(match: Match, text: str) -> None:
    units = [
        unit_of(1, source=text, metadata={text: 1, "k": text, "l": [text]}),
        unit_of(2, source="someone"),
    ]
    like = text.replace("\\", "\\\\")
    for condition in (
        {"source": text},
        {"source": {"$in": [text]}},
        {"source": {"$contains": text}},
        {"source": {"$like": like}},
        {f"metadata.{text}": 1},
        {"metadata.k": text},
        {"metadata.k": {"$in": [text]}},
        {"metadata.k": {"$like": like}},
        {"metadata.l": {"$contains": text}},
    ):
        assert match(units, condition) == [1]


# -- any filter of any units ----------------------------------------------------------------------------------------

TEXTS = st.text(st.sampled_from("ab%_\\.*(😀\n\0'\"") | st.characters(exclude_categories=["Cs"]), max_size=4)
NUMBERS = st.integers(-3, 3) | st.sampled_from([0.5, -0.0, 1.0, 1e300, 2**53, -(2**53)])
SCALARS = TEXTS | NUMBERS | st.booleans()
VALUES = st.recursive(
    SCALARS | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "0"]), inner, max_size=2),
    max_leaves=4,
)
TIMES = st.integers(-2, 2).map(lambda days: MOMENT + timedelta(days=days))
ORDERS: Any = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}
PATTERNS = TEXTS.filter(lambda text: (len(text) - len(text.rstrip("\\"))) % 2 == 0)
OPERANDS: dict[str, dict[str, Any]] = {
    kind: {"$eq": values | st.none(), "$in": st.lists(values | st.none(), max_size=3)}
    for kind, values in {
        "text": TEXTS,
        "whole": st.integers(-3, 3),
        "flag": st.booleans(),
        "time": TIMES | TIMES.map(datetime.isoformat),
        "trust": st.sampled_from(["own", "conversation", "foreign"]),
        "any": SCALARS,
    }.items()
}
for kind, values in {"text": TEXTS, "whole": st.integers(-3, 3), "time": TIMES, "any": TEXTS | NUMBERS}.items():
    OPERANDS[kind] |= dict.fromkeys(ORDERS, values)
OPERANDS["text"] |= {"$contains": TEXTS, "$like": PATTERNS}
OPERANDS["any"] |= {"$contains": SCALARS, "$like": PATTERNS}


@st.composite
def comparisons(draw: st.DrawFn) -> dict[str, Any]:
    field = draw(st.sampled_from(sorted(FIELDS.keys() - {"session_id"})))
    operands = OPERANDS[FIELDS[field]]
    sign = draw(st.sampled_from(sorted(operands)))
    operand = draw(operands[sign])
    sign = draw(st.sampled_from([sign, {"$eq": "$ne", "$in": "$nin"}.get(sign, sign)]))
    if field == "metadata":
        field = f"metadata.{draw(st.sampled_from(['a', 'b', 'a.b', 'a.0', 'b.a.b']))}"
    return {field: {sign: operand}}


FILTERS = st.recursive(
    comparisons(),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"$and": parts})
        | st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"$or": parts})
        | inner.map(lambda part: {"$not": part})
    ),
    max_leaves=4,
)


@st.composite
def memories(draw: st.DrawFn) -> list[UnitRow]:
    return [
        UnitRow(
            tenant="clinic",
            user_id="ana",
            unit_id=draw(TEXTS),
            sequence=sequence,
            group_id=draw(TEXTS),
            rank=draw(st.integers(0, 2)),
            level=draw(st.integers(0, 2)),
            content=draw(TEXTS),
            source=draw(TEXTS),
            creation_time=draw(TIMES),
            end_time=draw(TIMES),
            metadata={"a": draw(VALUES)} | draw(st.dictionaries(st.just("b"), VALUES)),
            parent_id=draw(TEXTS | st.none()),
            visit_count=draw(st.integers(0, 2)),
            last_visit=draw(st.integers(0, 2)),
            never_delete=draw(st.booleans()),
            trust=draw(st.sampled_from(["own", "conversation", "foreign"])),
            valid_from=draw(TIMES),
            valid_to=draw(TIMES | st.none()),
            superseded_by=draw(TEXTS | st.none()),
            duplicate_of=draw(TEXTS | st.none()),
        )
        for sequence in range(1, draw(st.integers(1, 5)) + 1)
    ]


def holds(filter_: dict[str, Any], unit: UnitRow) -> bool:
    """Return the same filter, evaluated in plain Python."""
    ((name, what),) = filter_.items()
    match name:
        case "$and":
            return all(holds(part, unit) for part in what)
        case "$or":
            return any(holds(part, unit) for part in what)
        case "$not":
            return not holds(what, unit)
    ((sign, operand),) = what.items()
    head, *keys = name.split(".")
    value = getattr(unit, head)
    for key in keys:
        value = step(value, key)
    return compares(value, sign, operand)


def step(value: object, key: str) -> object:
    if isinstance(value, dict):
        return value.get(key)
    if isinstance(value, list) and key.isdigit() and int(key) < len(value):
        return value[int(key)]
    return None


def compares(value: Any, sign: str, operand: Any) -> bool:
    if isinstance(value, datetime) and isinstance(operand, str):
        operand = datetime.fromisoformat(operand)
    match sign:
        case "$eq":
            return same(value, operand)
        case "$ne":
            return not same(value, operand)
        case "$in":
            return any(compares(value, "$eq", item) for item in operand)
        case "$nin":
            return not compares(value, "$in", operand)
        case "$contains" if isinstance(value, list):
            return any(same(item, operand) for item in value)
        case "$contains":
            return isinstance(value, str) and isinstance(operand, str) and operand in value
        case "$like":
            return isinstance(value, str) and re.fullmatch(like(operand), value, re.DOTALL) is not None
    if type_of(value) != type_of(operand):
        return False
    return bool(ORDERS[sign](value, operand))


def type_of(value: object) -> type:
    return float if isinstance(value, int) and not isinstance(value, bool) else type(value)


def same(value: object, operand: object) -> bool:
    return type_of(value) == type_of(operand) and value == operand


def like(pattern: str) -> str:
    tokens = re.findall(r"\\.|.", pattern, re.DOTALL)
    return "".join({"%": ".*", "_": "."}.get(token) or re.escape(token[-1]) for token in tokens)


@settings(
    deadline=None,
    max_examples=repeats(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(memory=memories(), filters=st.lists(FILTERS, min_size=1, max_size=8))
def test_any_filter_is_true_of_the_units_that_python_says(
    cursor: Any, memory: list[UnitRow], filters: list[dict[str, Any]]
) -> None:
    write(cursor, memory)
    for filter_ in filters:
        expected = [unit.sequence for unit in memory if holds(filter_, unit)]
        assert matching(DuckDBConnection(cursor), "clinic", "ana", parse(filter_)) == expected


@given(st.recursive(SCALARS | st.none(), lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=20))
def test_whatever_is_sent_is_a_filter_or_refused(anything: object) -> None:
    try:
        parsed = parse(anything)
    except FilterInvalid:
        return
    assert parsed == AllOf(()) or msgspec.json.encode(parsed)
