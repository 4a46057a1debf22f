"""Evaluate memory filters in the SQL of DuckDB, on a memory in the database or on given rows.

Every value is passed as a parameter.
"""

import re
import threading
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import TypeAlias, assert_never

import duckdb
import msgspec

from store.interface.memory_filters import (
    FIELDS,
    AllOf,
    AnyOf,
    Comparison,
    Filter,
    Kind,
    Not,
    Operator,
    Scalar,
    fields_of,
)
from store.interface.memory_rows import UnitRow
from store.interface.rows import encode
from store.sql.connection import Connection

_Value: TypeAlias = str | int | float | datetime | Sequence[Scalar]
_COLUMNS = {"session_id": "session_id::VARCHAR"}
_TYPES: dict[Kind, str] = {
    "text": "VARCHAR",
    "whole": "BIGINT",
    "flag": "BOOLEAN",
    "time": "TIMESTAMPTZ",
    "trust": "VARCHAR",
}
_SIGNS: dict[Operator, str] = {"eq": "=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_NUMBERS = "('UBIGINT', 'BIGINT', 'DOUBLE')"  # DuckDB's names of the types of JSON numbers


def matching(connection: Connection, tenant: str, user_id: str, filter_: Filter) -> list[int]:
    """Return the sequence numbers of a memory's units that a filter matches, ascending.

    Texts are read only if the filter uses them, and only for units that match the rest of the filter.
    """
    values: list[_Value] = []
    parts = filter_.parts if isinstance(filter_, AllOf) else (filter_,)
    of_rows = AllOf(tuple(part for part in parts if "content" not in fields_of(part)))
    of_texts = AllOf(tuple(part for part in parts if "content" in fields_of(part)))
    which = _condition(of_rows, values)
    if of_texts.parts:
        select = f"SELECT sequence FROM ({_with_texts(which)}) WHERE {_condition(of_texts, values)}"  # noqa: S608
    else:
        select = f"SELECT sequence FROM memory_unit_rows WHERE tenant = $tenant AND user_id = $user_id AND {which}"  # noqa: S608
    parameters = {"tenant": tenant, "user_id": user_id} | _parameters(values)
    return [sequence for (sequence,) in connection.rows(f"{select} ORDER BY sequence", parameters)]


def _with_texts(which: str) -> str:
    """Return SQL for units of `$user_id` of `$tenant` with texts; `which` is a condition on `memory_unit_rows`."""
    return f"""
    WITH chosen AS MATERIALIZED (
        SELECT * FROM memory_unit_rows WHERE tenant = $tenant AND user_id = $user_id AND ({which}) ORDER BY sequence
    ), said AS (
        SELECT session_id, unnest(from_json(messages, '[{{"seq": "INTEGER", "content": "VARCHAR"}}]'), max_depth := 2)
        FROM turns WHERE tenant = $tenant AND user_id = $user_id
            AND (session_id, turn) IN (SELECT session_id, turn FROM chosen WHERE content IS NULL)
    )
    SELECT chosen.* REPLACE (coalesce(chosen.content, said.content, '') AS content)
    FROM chosen LEFT JOIN said ON said.session_id = chosen.session_id AND said.seq = chosen.message"""  # noqa: S608


def filter_rows(units: Sequence[UnitRow], filter_: Filter) -> list[int]:
    """Return the sequence numbers of units that are not in the database and that a filter matches, ascending.

    The units must be of one memory and have their texts. Raises RowRefused.
    """
    if not units:
        return []
    names = sorted({"sequence", *fields_of(filter_)})  # only what is used: the time grows with the number of columns
    rows = f"[{b','.join(encode({name: getattr(unit, name) for name in names}) for unit in units).decode()}]"
    shape = msgspec.json.encode([{name: _TYPES.get(FIELDS[name], "JSON") for name in names}]).decode()
    values: list[_Value] = []
    select = f"""
        WITH units AS MATERIALIZED (SELECT unnest(from_json_strict($rows::JSON, '{shape}'), max_depth := 2))
        SELECT sequence FROM units WHERE {_condition(filter_, values)} ORDER BY sequence"""  # noqa: S608
    with _lock:
        found = _database().execute(select, {"rows": rows} | _parameters(values)).fetchall()
    return [sequence for (sequence,) in found]


_lock = threading.Lock()  # the database is shared, and its connection not safe for concurrent use


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """Return an empty database in memory, which applies filters to rows."""
    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "threads": 1,
    }
    connection = duckdb.connect(":memory:", config=config)
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    return connection


def _name(number: int) -> str:
    return f"value_{number}"


def _parameters(values: list[_Value]) -> dict[str, _Value]:
    return {_name(number): value for number, value in enumerate(values)}


def _placeholder(value: _Value, values: list[_Value]) -> str:
    """Add a value to the parameters and return its placeholder."""
    values.append(value)
    return f"${_name(len(values) - 1)}"


def _condition(filter_: Filter, values: list[_Value]) -> str:
    """Return an SQL condition that is true or false for a unit, never null."""
    match filter_:
        case AllOf():
            return f"({' AND '.join(_condition(part, values) for part in filter_.parts) or 'true'})"
        case AnyOf():
            return f"({' OR '.join(_condition(part, values) for part in filter_.parts)})"
        case Not():
            return f"(NOT {_condition(filter_.part, values)})"
        case Comparison():
            of = _of_metadata if filter_.field == "metadata" else _of_column
            return f"coalesce({of(filter_, values)}, false)"
        case _:
            assert_never(filter_)


def _of_column(comparison: Comparison, values: list[_Value]) -> str:
    column, as_type = _COLUMNS.get(comparison.field, comparison.field), _TYPES[FIELDS[comparison.field]]
    match comparison.operand, comparison.operator:
        case None, _:
            return f"{column} IS NULL"
        case tuple() as operands, _:
            not_null = [operand for operand in operands if operand is not None]
            among = f"{column} IN (SELECT unnest({_placeholder(not_null, values)}::{as_type}[]))"
            return f"({among} OR {column} IS NULL)" if None in operands else among
        case str() as operand, "contains":
            return f"contains({column}, {_placeholder(operand, values)})"
        case str() as operand, "like":
            return _is_like(column, operand, values)
        case operand, operator:
            return f"{column} {_SIGNS[operator]} {_placeholder(operand, values)}::{as_type}"


def _of_metadata(comparison: Comparison, values: list[_Value]) -> str:
    pointer = _placeholder("".join(f"/{key.replace('~', '~0').replace('/', '~1')}" for key in comparison.keys), values)
    kind, text = f"json_type(metadata, {pointer})", f"json_extract_string(metadata, {pointer})"
    match comparison.operand, comparison.operator:
        case tuple() as operands, _:
            return _is_among(kind, text, operands, values)
        case operand, "contains":
            items = f"""from_json(json_extract(metadata, {pointer}), '["JSON"]')"""
            same = _is("json_type(item)", "(item ->> '$')", operand, "=", values)
            within = f"({kind} = 'ARRAY' AND len(list_filter({items}, lambda item: {same})) > 0)"
            if isinstance(operand, str):
                return f"({within} OR ({kind} = 'VARCHAR' AND contains({text}, {_placeholder(operand, values)})))"
            return within
        case str() as operand, "like":
            return f"({kind} = 'VARCHAR' AND {_is_like(text, operand, values)})"
        case operand, operator:
            return _is(kind, text, operand, _SIGNS[operator], values)


def _is_among(kind: str, text: str, operands: Sequence[Scalar], values: list[_Value]) -> str:
    texts = [operand for operand in operands if isinstance(operand, str)]
    numbers = [operand for operand in operands if isinstance(operand, int | float) and not isinstance(operand, bool)]
    others = {operand for operand in operands if operand is None or isinstance(operand, bool)}
    among_texts = f"({kind} = 'VARCHAR' AND {text} IN (SELECT unnest({_placeholder(texts, values)}::VARCHAR[])))"
    among_numbers = f"""({kind} IN {_NUMBERS}
        AND try_cast({text} AS DOUBLE) IN (SELECT unnest({_placeholder(numbers, values)}::DOUBLE[])))"""
    return " OR ".join([among_texts, among_numbers, *(_is(kind, text, other, "=", values) for other in others)])


def _is(kind: str, text: str, operand: object, sign: str, values: list[_Value]) -> str:
    """Return an SQL comparison of a JSON value with an operand of the same type.

    `kind` and `text` are SQL for the type and the text of the JSON value.
    """
    match operand:
        case None:
            return f"(coalesce({kind}, 'NULL') = 'NULL')"
        case bool():
            return f"({kind} = 'BOOLEAN' AND {text} = '{'true' if operand else 'false'}')"
        case int() | float():
            return (
                f"({kind} IN {_NUMBERS} AND try_cast({text} AS DOUBLE) {sign} {_placeholder(operand, values)}::DOUBLE)"
            )
        case str():
            return f"({kind} = 'VARCHAR' AND {text} {sign} {_placeholder(operand, values)})"
        case _:
            raise TypeError(f"{type(operand).__name__} is not a JSON type")


def _is_like(text: str, pattern: str, values: list[_Value]) -> str:
    """Return SQL for `LIKE` as an RE2 regular expression, whose time is linear in the text for every pattern."""
    parts = re.findall(r"\\(.)|(.)", pattern, re.DOTALL)
    expression = "".join(
        exact_pattern(escaped) if escaped else _WILD.get(plain, exact_pattern(plain)) for escaped, plain in parts
    )
    return f"regexp_full_match({text}, {_placeholder(expression, values)}, 's')"


_WILD = {"%": ".*", "_": "."}


def exact_pattern(text: str) -> str:
    """Return an RE2 regular expression that matches exactly this text."""
    return re.sub(r"[!-/:-@\[-^`{-~]", r"\\\g<0>", text)
