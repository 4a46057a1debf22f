"""What of an event and of a state holds no words of a person: the lists name what there is, and nothing else passes."""

import json
from typing import Any, get_args

import duckdb
import msgspec
import pytest

from runtime.state.events import Body
from runtime.state.state import State, decode
from store.duckdb.event_fields_sql import remaining_event, remaining_fields
from store.interface.event_fields import EVENT_FIELDS
from store.sql.redaction import STATE_FIELDS

OF_RECORD = {"message": {"message"}, "variable": {"variable"}}
"""Events whose data the database has elsewhere: they contain its place."""
WORD = "Sehnsucht-蝴蝶"


def kinds() -> dict[str, Any]:
    """Return the types of events, by the kind they are recorded as."""
    return {each.__struct_config__.tag: each for each in get_args(Body)}


def has(kind: Any, path: str) -> bool:
    """Return whether there is a field of this path in a type."""
    name, _, inner = path.partition(".")
    fields = {field.name: field for field in msgspec.inspect.type_info(kind).fields}  # type: ignore[attr-defined]
    if name.removesuffix("[]") not in fields:
        return False
    found = fields[name.removesuffix("[]")].type
    while inner and not isinstance(found, msgspec.inspect.StructType):
        parts = [*getattr(found, "types", ()), getattr(found, "item_type", None)]
        found = next(each for each in parts if isinstance(each, msgspec.inspect.StructType))
    return not inner or has(found.cls, inner)


def test_every_kind_of_event_has_a_list_with_all_its_fields() -> None:
    assert EVENT_FIELDS.keys() == kinds().keys(), (
        "say in store/interface/event_fields.py what of a new event holds no words"
    )
    for kind, fields in EVENT_FIELDS.items():
        for field in fields:
            assert field in OF_RECORD.get(kind, ()) or has(kinds()[kind], field), f"{kind}: {field}"


def test_every_retained_field_of_a_state_exists() -> None:
    assert [field for field in STATE_FIELDS if not has(State, field)] == []


def filled(kind: Any) -> Any:
    """Return data of a type in which every text is the given word."""
    match kind:
        case msgspec.inspect.StructType():
            return {field.encode_name: filled(field.type) for field in kind.fields}
        case msgspec.inspect.ListType() | msgspec.inspect.VarTupleType():
            return [filled(kind.item_type)]
        case msgspec.inspect.UnionType():
            return filled(next(each for each in kind.types if not isinstance(each, msgspec.inspect.NoneType)))
        case msgspec.inspect.DictType():
            return {WORD: WORD}
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            return 7
        case msgspec.inspect.BoolType():
            return True
        case _:
            return WORD


@pytest.mark.gate
@pytest.mark.parametrize("kind", sorted(kinds()))
def test_of_an_event_its_fields_pass_and_no_other(kind: str) -> None:
    data = {**filled(msgspec.inspect.type_info(kinds()[kind])), "of a later version": WORD}
    data |= dict.fromkeys(OF_RECORD.get(kind, ()), 7)
    (found,) = duckdb.execute(
        f"SELECT {remaining_event()} FROM (SELECT ? AS kind, ?::JSON AS data)", [kind, json.dumps(data)]
    ).fetchall()
    lists = {"variables", "missed"}  # of names, of moments
    retained = {f"{field}[]" if field in lists else field for field in EVENT_FIELDS[kind]}
    assert paths(json.loads(found[0])) == retained


def paths(data: Any, before: str = "") -> set[str]:
    """Return the places of all values in JSON."""
    if isinstance(data, dict):
        return {path for name, value in data.items() for path in paths(value, f"{before}.{name}".lstrip("."))}
    if isinstance(data, list):
        return {path for value in data for path in paths(value, f"{before}[]")}
    return {before}


@pytest.mark.parametrize("data", ['"a text"', "[]", "null", "7", '{"wait": "a text"}', '{"units": {"unit_id": "x"}}'])
@pytest.mark.parametrize("kind", ["wait", "recalled"])
def test_what_is_of_another_shape_leaves_nothing(kind: str, data: str) -> None:
    (found,) = duckdb.execute(
        f"SELECT {remaining_event()} FROM (SELECT ? AS kind, ?::JSON AS data)", [kind, data]
    ).fetchall()
    assert json.loads(found[0]) == {}


def test_redacted_state_can_be_read_and_has_the_position() -> None:
    data = filled(msgspec.inspect.type_info(State))
    data |= {"version": 1, "status": "active", "locale": "en", "gaps": [[1, 2]], "wait": {"kind": "form", "form": {}}}
    (found,) = duckdb.execute(
        f"SELECT {remaining_fields('s', STATE_FIELDS)} FROM (SELECT ?::JSON AS s)", [json.dumps(data)]
    ).fetchall()
    state = decode(found[0])
    assert (state.phase, state.frames[0].action, state.gaps) == (WORD, WORD, ((1, 2),))
    assert state.execution_status == "waiting_input"
    assert (state.session_cells, state.progress, state.context, state.start_variables) == ({}, None, None, {})
    assert (state.frames[0].cells, state.frames[0].items, state.frames[0].held) == ({}, None, None)
