"""Memory filters: parse, type-check and bound the filters of units that applications send.

A filter is an object, `{"source": "user", "metadata.mood": {"$in": ["sad", "tired"]}}`, whose entries must all hold,
with `$and`, `$or` (lists of filters) and `$not` (a filter) as combinations; or triples, `("source", "==", "user")`, one
or a list that must all hold. A malformed filter raises FilterInvalid; no part of a filter is ever ignored.

Every comparison is true or false for a unit, never unknown. A field that is null, or a key that the metadata lacks,
equals `null` and nothing else: `$ne` and `$nin` are true for it, every other comparison is false. Keys of metadata are
nested by dots, `\\.` is a dot within a key; a number selects an item of a list. Values of metadata compare with values
of the same type, numbers as 64-bit floats. Times without a zone are UTC. Text is compared exactly, by code points. In
`$like`, `%` matches any text and `_` any character; `\\` escapes them.
"""

import difflib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from store.interface.errors import FilterInvalid
from store.interface.memory_rows import Trust

DEPTH_MAX = 16
PARTS_MAX = 2_000
"""Maximum number of parts of a filter: names, values and lists."""
ITEMS_MAX = 1_000
"""Maximum length of a list."""
TEXT_CHARS_MAX = 2_000
KEYS_MAX = 8
"""Maximum depth of a key of metadata."""
INTEGER_ABS_MAX = 2**53
"""The largest integer up to which 64-bit floats are exact."""

_DOT = re.compile(r"(?<!\\)\.")

Operator: TypeAlias = Literal["eq", "gt", "gte", "lt", "lte", "in", "contains", "like"]
Kind: TypeAlias = Literal["text", "whole", "flag", "time", "trust", "any"]
Scalar: TypeAlias = str | int | float | bool | datetime | None

FIELDS: Mapping[str, Kind] = {
    "unit_id": "text",
    "sequence": "whole",
    "group_id": "text",
    "session_id": "text",
    "rank": "whole",
    "level": "whole",
    "content": "text",
    "source": "text",
    "creation_time": "time",
    "end_time": "time",
    "parent_id": "text",
    "visit_count": "whole",
    "last_visit": "whole",
    "never_delete": "flag",
    "trust": "trust",
    "is_extract": "flag",
    "valid_from": "time",
    "valid_to": "time",
    "superseded_by": "text",
    "duplicate_of": "text",
    "metadata": "any",
}
"""The fields of a unit that filters can use. In JSON, the names may also have the spelling of the API: `groupId`."""

_OPERATORS: Mapping[str, tuple[Operator, bool]] = {
    "$eq": ("eq", True),
    "$ne": ("eq", False),
    "$gt": ("gt", True),
    "$gte": ("gte", True),
    "$lt": ("lt", True),
    "$lte": ("lte", True),
    "$in": ("in", True),
    "$nin": ("in", False),
    "$contains": ("contains", True),
    "$like": ("like", True),
}
_SIGNS: Mapping[str, str] = dict(
    zip(("==", "!=", ">", ">=", "<", "<=", "in", "not in", "contains", "like"), _OPERATORS, strict=True)
)
_OF_KIND: Mapping[Kind, frozenset[Operator]] = {
    "text": frozenset(get_args(Operator)),
    "whole": frozenset({"eq", "gt", "gte", "lt", "lte", "in"}),
    "flag": frozenset({"eq", "in"}),
    "time": frozenset({"eq", "gt", "gte", "lt", "lte", "in"}),
    "trust": frozenset({"eq", "in"}),
    "any": frozenset(get_args(Operator)),
}
_TAKES: Mapping[Kind, str] = {
    "text": "a text",
    "whole": f"a whole number of at most {INTEGER_ABS_MAX}",
    "flag": "true or false",
    "time": "a time in ISO 8601, such as 2026-01-31T09:30:00Z",
    "trust": f"one of {', '.join(get_args(Trust))}",
    "any": f"a text, a number of at most {INTEGER_ABS_MAX}, true or false",
}


class Comparison(Struct, frozen=True):
    """A comparison of one field."""

    field: str
    """One of FIELDS."""
    keys: tuple[str, ...]
    """The path within metadata; empty for other fields."""
    operator: Operator
    operand: Scalar | tuple[Scalar, ...]
    """A value of the field's kind, times in UTC; a tuple for `in`; null only for `eq` and within `in`."""


class AllOf(Struct, frozen=True):
    """True if all parts are true, also if there are none."""

    parts: tuple["Filter", ...]


class AnyOf(Struct, frozen=True):
    """True if at least one part is true."""

    parts: tuple["Filter", ...]


class Not(Struct, frozen=True):
    """True if the part is false."""

    part: "Filter"


Filter: TypeAlias = Comparison | AllOf | AnyOf | Not


def parse(source: object) -> Filter:
    """Parse a filter from decoded JSON or Python values; null and empty values match every unit.

    Raises FilterInvalid with the path of the error and what is allowed there.
    """
    if source is None or source in ({}, [], ()):
        return AllOf(())
    _require_bounded(source)
    return _parse(source, "the filter")


def fields_of(filter_: Filter) -> set[str]:
    """Return the fields that a filter uses."""
    match filter_:
        case Comparison():
            return {filter_.field}
        case AllOf() | AnyOf():
            return {field for part in filter_.parts for field in fields_of(part)}
        case Not():
            return fields_of(filter_.part)


# -- bounds ---------------------------------------------------------------------------------------------------------


def _require_bounded(source: object) -> None:
    left, stack = PARTS_MAX, [(source, 1)]
    while stack:
        part, depth = stack.pop()
        left -= 1
        if left < 0:
            raise FilterInvalid(f"a filter may have at most {PARTS_MAX} parts")
        if depth > DEPTH_MAX:
            raise FilterInvalid(f"a filter may be nested at most {DEPTH_MAX} deep")
        if isinstance(part, str):
            _require_short(part)
        else:
            stack += [(each, depth + 1) for each in _parts(part)]


def _parts(part: object) -> Iterator[object]:
    if isinstance(part, Mapping | list | tuple):
        if len(part) > ITEMS_MAX:
            raise FilterInvalid(f"a list or object in a filter may have at most {ITEMS_MAX} items, not {len(part)}")
        yield from part
        if isinstance(part, Mapping):
            yield from part.values()


def _require_short(text: str) -> None:
    if len(text) > TEXT_CHARS_MAX:
        raise FilterInvalid(f"a text in a filter may have at most {TEXT_CHARS_MAX} characters, not {len(text)}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise FilterInvalid(f"{_brief(text)} in a filter is not valid Unicode") from None


# -- structure ------------------------------------------------------------------------------------------------------


def _parse(source: object, place: str) -> Filter:
    match source:
        case {}:
            return _all_of([_entry(name, value, place) for name, value in source.items()], place)
        case [str() as field, operator, operand]:
            if not isinstance(operator, str) or operator not in _SIGNS:
                raise FilterInvalid(f"{place}: no operator {_brief(operator)}; there are {', '.join(_SIGNS)}")
            return _comparison(field, _SIGNS[operator], operand, place)
        case list() | tuple():
            return _all_of([_parse(part, f"{place}[{number}]") for number, part in enumerate(source)], place)
        case _:
            raise FilterInvalid(
                f'{place}: {_brief(source)} is not a filter; write {{"source": "user"}} or ["source", "==", "user"]'
            )


def _all_of(parts: list[Filter], place: str) -> Filter:
    if not parts:
        raise FilterInvalid(f"{place}: a filter within a filter must not be empty")
    return parts[0] if len(parts) == 1 else AllOf(tuple(parts))


def _entry(name: object, value: object, place: str) -> Filter:
    match name:
        case "$and" | "$or":
            if not isinstance(value, list | tuple) or not value:
                shown = "an empty one" if isinstance(value, list | tuple) else _brief(value)
                raise FilterInvalid(f"{place}: {name} takes a list of filters, not {shown}")
            parts = tuple(_parse(part, f"{place}.{name}[{number}]") for number, part in enumerate(value))
            return AllOf(parts) if name == "$and" else AnyOf(parts)
        case "$not":
            return Not(_parse(value, f"{place}.$not"))
        case str() if not name.startswith("$"):
            return _of_field(name, value, place)
        case _:
            raise FilterInvalid(f"{place}: no {_brief(name)}; there are $and, $or, $not, and fields by their names")


def _of_field(name: str, value: object, place: str) -> Filter:
    match value:
        case {}:
            return _all_of([_comparison(name, operator, operand, place) for operator, operand in value.items()], place)
        case list() | tuple():
            raise FilterInvalid(f'{place}.{name} is compared with a list: write {{"$in": […]}}')
        case _:
            return _comparison(name, "$eq", value, place)


def _comparison(name: str, operator: object, operand: object, place: str) -> Filter:
    if not isinstance(operator, str) or operator not in _OPERATORS:
        known = ", ".join(_OPERATORS)
        raise FilterInvalid(f"{place}.{_shorten(name)}: no operator {_brief(operator)}; there are {known}")
    field, keys = _field(name, place)
    place, kind, (does, is_true) = f"{place}.{_shorten(name)}", FIELDS[field], _OPERATORS[operator]
    if does not in _OF_KIND[kind]:
        takes = ", ".join(sign for sign, (one, _) in _OPERATORS.items() if one in _OF_KIND[kind])
        raise FilterInvalid(f"{place} cannot be compared by {operator}; it takes {takes}")
    comparison = Comparison(field, keys, does, _operand(kind, does, operand, f"{place}: {operator}"))
    return comparison if is_true else Not(comparison)


def _field(name: str, place: str) -> tuple[str, tuple[str, ...]]:
    head, *keys = _DOT.split(name)
    field = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in head)
    if field not in FIELDS:
        spelt = {each: each if "_" in head else _camel(each) for each in FIELDS}  # as the sender spells names
        near = difflib.get_close_matches(field, FIELDS, 1)
        hint = f" Did you mean {spelt[near[0]]}?" if near else ""
        raise FilterInvalid(f"{place}: no field {_brief(name)}.{hint} There are {', '.join(spelt.values())}.<key>")
    if field == "metadata":
        if not keys or not all(keys) or len(keys) > KEYS_MAX:
            raise FilterInvalid(
                f"{place}: {_brief(name)} must name a key, at most {KEYS_MAX} deep: metadata.mood, metadata.place.city"
            )
    elif keys:
        raise FilterInvalid(f"{place}: {_brief(name)}: only metadata has keys; write {head}")
    return field, tuple(key.replace("\\.", ".") for key in keys)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.capitalize() for each in others)


# -- operands -------------------------------------------------------------------------------------------------------


def _operand(kind: Kind, operator: Operator, value: object, place: str) -> Scalar | tuple[Scalar, ...]:
    match operator:
        case "eq":
            return None if value is None else _scalar(kind, value, place)
        case "in":
            if not isinstance(value, list | tuple):
                raise FilterInvalid(f"{place} takes a list, not {_brief(value)}")
            return tuple(None if item is None else _scalar(kind, item, place) for item in value)
        case "like":
            if not isinstance(value, str):
                raise FilterInvalid(f"{place} takes a text, not {_brief(value)}")
            if (len(value) - len(value.rstrip("\\"))) % 2:
                raise FilterInvalid(
                    f"{place}: {_brief(value)} ends with a \\ that escapes nothing; write \\\\ for a \\"
                )
            return value
        case "contains":
            return _scalar(kind, value, place)
        case "gt" | "gte" | "lt" | "lte":
            if isinstance(value, bool):
                raise FilterInvalid(f"{place}: true and false have no order; write $eq")
            return _scalar(kind, value, place)


def _scalar(kind: Kind, value: object, place: str) -> Scalar:
    """Return a value of a field's kind. Raises FilterInvalid."""
    found: Scalar = None
    match value:
        case bool():
            found = value if kind in {"flag", "any"} else None
        case datetime() | date() | str() if kind == "time":
            found = _moment(value)
        case str():
            found = value if kind in {"text", "any"} or (kind == "trust" and value in get_args(Trust)) else None
        case int() | float() if kind in {"whole", "any"}:
            found = _number(value, is_whole=kind == "whole")
    if found is None:
        raise FilterInvalid(f"{place} takes {_TAKES[kind]}, not {_brief(value)}")
    return found


def _number(value: float, *, is_whole: bool) -> float | None:
    """Return a number, or None if it is not exact as a float or has no value."""
    if is_whole and isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int):
        return value if abs(value) <= INTEGER_ABS_MAX else None
    return None if is_whole or not math.isfinite(value) else value


def _moment(value: datetime | date | str) -> datetime | None:
    """Return a time in UTC, or None if a text is not a valid time."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        if not isinstance(moment, datetime):
            moment = datetime.combine(moment, time())
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):  # before the first year or after the last one
        return None


# -- messages -------------------------------------------------------------------------------------------------------


def _brief(value: object) -> str:
    """Format a value for a message, in one short line."""
    match value:
        case Mapping():
            return "an object"
        case list() | tuple() if isinstance(value, Sequence):
            return "a list"
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case _:
            return _shorten(ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value))


def _shorten(text: str, chars_max: int = 60) -> str:
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"
