"""Filters of memory in SQL: one evaluator, whatever is loaded. Every value travels as a parameter."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias, assert_never

import msgspec

from store.fetch import Cursor
from store.memory.filters import FIELDS, AllOf, AnyOf, Comparison, Filter, Kind, Not, Operator, Scalar, fields_of
from store.memory.reading import units_select

_Given: TypeAlias = str | int | float | datetime | Sequence[Scalar]
_COLUMNS = {"session_id": "session_id::VARCHAR"}
_TYPES: dict[Kind, str] = {
    "text": "VARCHAR",
    "whole": "BIGINT",
    "flag": "BOOLEAN",
    "time": "TIMESTAMPTZ",
    "trust": "VARCHAR",
}
_SIGNS: dict[Operator, str] = {"eq": "=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_NUMBERS = "('UBIGINT', 'BIGINT', 'DOUBLE')"  # what DuckDB calls the numbers of JSON


def matching(cursor: Cursor, tenant: str, user_id: str, filter_: Filter) -> list[int]:
    """The numbers of a memory's units of which a filter is true, in order.

    Words are looked at only where the filter asks about them, and only of units of which the rest is true.
    """
    values: list[_Given] = []
    parts = filter_.parts if isinstance(filter_, AllOf) else (filter_,)
    of_rows = AllOf(tuple(part for part in parts if "content" not in fields_of(part)))
    of_words = AllOf(tuple(part for part in parts if "content" in fields_of(part)))
    which = _condition(of_rows, values)
    if of_words.parts:
        select = f"SELECT sequence FROM ({units_select(which)}) WHERE {_condition(of_words, values)}"  # noqa: S608
    else:
        select = f"SELECT sequence FROM memory_unit_rows WHERE tenant = $tenant AND user_id = $user_id AND {which}"  # noqa: S608
    given = {_name(number): value for number, value in enumerate(values)}
    found = cursor.execute(f"{select} ORDER BY sequence", {"tenant": tenant, "user_id": user_id} | given).fetchall()
    return [sequence for (sequence,) in found]


def matching_given(cursor: Cursor, names: Sequence[str], rows: str, filter_: Filter) -> list[int]:
    """The numbers of units of which a filter is true, in order. The units are `rows`, a JSON list of objects with what
    has these `names`: what the filter asks about, and `sequence`.
    """
    values: list[_Given] = []
    shape = msgspec.json.encode([{name: _TYPES.get(FIELDS[name], "JSON") for name in names}]).decode()
    select = f"""
        WITH given AS MATERIALIZED (SELECT unnest(from_json_strict($rows::JSON, '{shape}'), max_depth := 2))
        SELECT sequence FROM given WHERE {_condition(filter_, values)} ORDER BY sequence"""  # noqa: S608
    given = {_name(number): value for number, value in enumerate(values)}
    return [sequence for (sequence,) in cursor.execute(select, {"rows": rows} | given).fetchall()]


def _name(number: int) -> str:
    return f"value_{number}"


def _held(value: _Given, values: list[_Given]) -> str:
    """What stands for a value in SQL."""
    values.append(value)
    return f"${_name(len(values) - 1)}"


def _condition(filter_: Filter, values: list[_Given]) -> str:
    """SQL that is true or false of a unit, never null."""
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


def _of_column(asked: Comparison, values: list[_Given]) -> str:
    column, as_type = _COLUMNS.get(asked.field, asked.field), _TYPES[FIELDS[asked.field]]
    match asked.operand, asked.operator:
        case None, _:
            return f"{column} IS NULL"
        case tuple() as operands, _:
            given = [operand for operand in operands if operand is not None]
            among = f"{column} IN (SELECT unnest({_held(given, values)}::{as_type}[]))"
            return f"({among} OR {column} IS NULL)" if None in operands else among
        case str() as operand, "contains":
            return f"contains({column}, {_held(operand, values)})"
        case str() as operand, "like":
            return _is_like(column, operand, values)
        case operand, operator:
            return f"{column} {_SIGNS[operator]} {_held(operand, values)}::{as_type}"


def _of_metadata(asked: Comparison, values: list[_Given]) -> str:
    pointer = _held("".join(f"/{key.replace('~', '~0').replace('/', '~1')}" for key in asked.keys), values)
    kind, text = f"json_type(metadata, {pointer})", f"json_extract_string(metadata, {pointer})"
    match asked.operand, asked.operator:
        case tuple() as operands, _:
            return _is_among(kind, text, operands, values)
        case operand, "contains":
            items = f"""from_json(json_extract(metadata, {pointer}), '["JSON"]')"""
            same = _is("json_type(item)", "(item ->> '$')", operand, "=", values)
            within = f"({kind} = 'ARRAY' AND len(list_filter({items}, lambda item: {same})) > 0)"
            if isinstance(operand, str):
                return f"({within} OR ({kind} = 'VARCHAR' AND contains({text}, {_held(operand, values)})))"
            return within
        case str() as operand, "like":
            return f"({kind} = 'VARCHAR' AND {_is_like(text, operand, values)})"
        case operand, operator:
            return _is(kind, text, operand, _SIGNS[operator], values)


def _is_among(kind: str, text: str, operands: Sequence[Scalar], values: list[_Given]) -> str:
    texts = [operand for operand in operands if isinstance(operand, str)]
    numbers = [operand for operand in operands if isinstance(operand, int | float) and not isinstance(operand, bool)]
    others = {operand for operand in operands if operand is None or isinstance(operand, bool)}
    among_texts = f"({kind} = 'VARCHAR' AND {text} IN (SELECT unnest({_held(texts, values)}::VARCHAR[])))"
    among_numbers = f"""({kind} IN {_NUMBERS}
        AND try_cast({text} AS DOUBLE) IN (SELECT unnest({_held(numbers, values)}::DOUBLE[])))"""
    return " OR ".join([among_texts, among_numbers, *(_is(kind, text, other, "=", values) for other in others)])


def _is(kind: str, text: str, operand: object, sign: str, values: list[_Given]) -> str:
    """Whether a value of JSON, told by SQL for its type and text, compares so with one of the same type."""
    match operand:
        case None:
            return f"(coalesce({kind}, 'NULL') = 'NULL')"
        case bool():
            return f"({kind} = 'BOOLEAN' AND {text} = '{'true' if operand else 'false'}')"
        case int() | float():
            return f"({kind} IN {_NUMBERS} AND try_cast({text} AS DOUBLE) {sign} {_held(operand, values)}::DOUBLE)"
        case str():
            return f"({kind} = 'VARCHAR' AND {text} {sign} {_held(operand, values)})"
        case _:
            raise TypeError(f"{type(operand).__name__} is no value of JSON")


def _is_like(text: str, pattern: str, values: list[_Given]) -> str:
    """`LIKE`, by a regular expression of RE2: its time grows with the text only, whatever the pattern."""
    parts = re.findall(r"\\(.)|(.)", pattern, re.DOTALL)
    expression = "".join(
        _literal(escaped) if escaped else _WILD.get(plain, _literal(plain)) for escaped, plain in parts
    )
    return f"regexp_full_match({text}, {_held(expression, values)}, 's')"


_WILD = {"%": ".*", "_": "."}


def _literal(character: str) -> str:
    return re.sub(r"[!-/:-@\[-^`{-~]", r"\\\g<0>", character)
