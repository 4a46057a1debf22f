"""Values of variables: JSON values, their types, their limits, and lossless conversions between types."""

import json
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Literal, TypeAlias, assert_never

from msgspec import Struct

from scripts.expressions.time_values import (
    TimeSpan,
    iso_date,
    iso_datetime,
    iso_time,
    moment_in,
    order_numbers,
    zone_name,
)

# Only one level is typed: the decoder has no recursive aliases, and `to_value` checks deeper levels.
Value: TypeAlias = str | int | float | bool | list[Any] | dict[str, Any] | None
DeclaredType: TypeAlias = Literal[
    "text", "number", "boolean", "date", "time", "datetime", "timezone", "choice", "list", "record"
]
ValueType: TypeAlias = Literal[DeclaredType, "null"]
TimeType: TypeAlias = Literal["date", "time", "datetime"]

TEXT_CHARS_MAX = 20_000
LIST_ITEMS_MAX = 1_000
DEPTH_MAX = 8
VALUE_NODES_MAX = 5_000
INTEGER_ABS_MAX = 2**53  # the range that every JSON reader preserves exactly


class ValueRefused(ValueError):
    """A value does not match its type or its limits; the message is for the author of the script."""


def infer_type(value: Value) -> ValueType:
    """Return the type of an undeclared value. An ISO date is text unless it is declared as a date."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "text"
        case list():
            return "list"
        case dict():
            return "record"
        case _:
            assert_never(value)


def is_given(value: Value) -> bool:
    """Return whether a value counts as an answer: ``""`` and null do not, ``0`` and ``false`` do."""
    return value is not None and value != ""


def coerce(value: Value, declared: DeclaredType, choices: Sequence[str] = ()) -> Value:
    """Convert a value to the declared type without loss; null stays null and means "unset".

    Raises ValueRefused, which names the expected type and the value.
    """
    if value is None:
        return None
    match declared:
        case "text":
            if isinstance(value, str):
                return value
            if isinstance(value, int | float) and not isinstance(value, bool):
                return str(value)
        case "number":
            return _as_number(value, choices)
        case "boolean":
            if isinstance(value, bool):
                return value
            if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
                return value.strip().lower() == "true"
        case "date" | "time" | "datetime" | "timezone":
            return _as_iso_text(value, declared)
        case "choice":
            return _as_choice(value, choices)
        case "list":
            if isinstance(value, list):
                return value
        case "record":
            if isinstance(value, dict):
                return value
        case _:
            assert_never(declared)
    raise _mismatch(value, declared)


def refusal(value: Value, declared: DeclaredType, choices: Sequence[str] = ()) -> str:
    """Return why a value cannot be converted to the declared type; empty if it can."""
    try:
        coerce(value, declared, choices)
    except ValueRefused as refused:
        return str(refused)
    return ""


def _mismatch(value: Value, expected: str) -> ValueRefused:
    return ValueRefused(f"expected {expected}, found {infer_type(value)} {shorten(value)}")


def _as_number(value: Value, choices: Sequence[str]) -> Value:
    number = _number(value)
    if number is None:
        raise _mismatch(value, "number")
    allowed = [number_in(each) for each in choices]
    if allowed and None not in allowed and number not in allowed:
        raise _no_choice(value, choices)
    return number


def number_in(text: str) -> int | float | None:
    """Parse a text that is exactly a number (``"28"``, ``"-1.5"``); None for others, ``"1e999"`` and ``"nan"``."""
    text = text.strip()
    if not text.isascii() or not text or "_" in text or len(text) > 40:
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _as_iso_text(value: Value, declared: TimeType | Literal["timezone"]) -> Value:
    kind = ISO_TYPES[declared]
    found = kind.read(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise _mismatch(value, f"{kind.noun} such as {kind.example}")
    return found


class IsoType(Struct, frozen=True):
    """A type whose values are ISO texts or names of time zones: how a text is read, its noun, and an example."""

    read: Callable[[str], str | None]
    noun: str
    example: str


ISO_TYPES: Mapping[str, IsoType] = {
    "date": IsoType(iso_date, "a date", "2026-01-31"),
    "time": IsoType(iso_time, "a time", "09:30"),
    "datetime": IsoType(iso_datetime, "a date and time", "2026-01-31T09:30"),
    "timezone": IsoType(zone_name, "a time zone", "Europe/Berlin"),
}
DATES = frozenset({"date", "datetime"})
"""The types whose values have a day; their difference is a number."""
TIMES = DATES | {"time"}
"""The types whose `min` and `max` are values of the type itself."""


def _as_choice(value: Value, choices: Sequence[str]) -> Value:
    if isinstance(value, int | float) and not isinstance(value, bool):
        spelled = [choice for choice in choices if number_in(choice) == value]  # `choices: [007]`, `default: 007`
        value = spelled[0] if len(spelled) == 1 else str(value)
    if isinstance(value, str):
        if not choices or value in choices:
            return value
        folded = [choice for choice in choices if choice.casefold() == value.strip().casefold()]
        if len(folded) == 1:
            return folded[0]
    raise _no_choice(value, choices)


def _no_choice(value: Value, choices: Sequence[str]) -> ValueRefused:
    return ValueRefused(f"expected one of {', '.join(choices)}; found {shorten(value)}")


_JSON_WORDS = {None: "null", True: "true", False: "false"}


def shorten(value: object, chars_max: int = 60) -> str:
    """Return a value for a message: one line of limited length."""
    text = repr(value) if isinstance(value, str) else str(value)
    if value is None or isinstance(value, bool):
        text = _JSON_WORDS[value]
    text = " ".join(text.split())
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"


def count_text(number: int, noun: str) -> str:
    """Return a number of things for a message: `1 session`, `2,000 sessions`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def to_value(value: object) -> Value:
    """Convert a result of an expression, client or model to a plain JSON value within the limits of this module.

    Tuples become lists. Raises ValueRefused if it is not a JSON value, or is too deep, too long or not finite.
    """
    return _to_value(value, depth=0, budget=[VALUE_NODES_MAX])


def _to_value(value: object, depth: int, budget: list[int]) -> Value:
    budget[0] -= 1
    if budget[0] < 0:
        raise ValueRefused(f"a value may have at most {VALUE_NODES_MAX} parts")
    if depth > DEPTH_MAX:
        raise ValueRefused(f"a value may be nested at most {DEPTH_MAX} deep")
    match value:
        case None | bool():
            return value
        case int():
            if abs(value) > INTEGER_ABS_MAX:
                raise ValueRefused(f"a whole number may be at most {INTEGER_ABS_MAX}")
            return value
        case float():
            if not math.isfinite(value):
                raise ValueRefused("a number must be finite")
            return value
        case str():
            return _to_text(value)
        case list() | tuple():
            if len(value) > LIST_ITEMS_MAX:
                raise ValueRefused(f"a list may have at most {LIST_ITEMS_MAX} items")
            return [_to_value(item, depth + 1, budget) for item in value]
        case dict():
            if len(value) > LIST_ITEMS_MAX:
                raise ValueRefused(f"a record may have at most {LIST_ITEMS_MAX} fields")
            return {_to_key(key): _to_value(item, depth + 1, budget) for key, item in value.items()}
        case date():
            return value.isoformat()
        case TimeSpan():
            raise ValueRefused("a variable cannot store a duration; add it to a date")
        case _:
            raise ValueRefused(f"a variable cannot store {type(value).__name__}")


def _to_text(value: str) -> str:
    if len(value) > TEXT_CHARS_MAX:
        raise ValueRefused(f"a text may have at most {TEXT_CHARS_MAX} characters, this one has {len(value)}")
    if not is_unicode(value):
        raise ValueRefused("a text must be valid Unicode")
    return str(value)


def is_unicode(text: str) -> bool:
    """Return whether a text can be encoded: a Python text may contain unpaired surrogates, which UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _to_key(key: object) -> str:
    if not isinstance(key, str):
        raise ValueRefused("the keys of a record must be texts")
    return _to_text(key)


class Recollections(list[Value]):
    """The result of `recall` in a text or expression: a list of records; as a text, their texts, one per line."""

    @property
    def as_text(self) -> str:
        """Return the texts, one per line."""
        return "\n".join(str(each["text"]) for each in self if isinstance(each, Mapping))


def texts_in(value: Value) -> Iterator[str]:
    """Yield the texts of a value."""
    if isinstance(value, str):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts_in(each)


# -- comparison and text ---------------------------------------------------------------------------------------------


SIGNS = {"eq": "==", "ne": "!=", "gt": ">", "gteq": ">=", "lt": "<", "lteq": "<=", "in": "in", "notin": "not in"}
"""The comparison operators by their Jinja names."""

_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gteq": operator.ge,
    "lt": operator.lt,
    "lteq": operator.le,
}


_AMOUNT = re.compile(r"\s*(?P<number>[+-]?[0-9]{1,15}(?:\.[0-9]{1,9})?)\s?(?:[^\W\d_]{1,12}|%|％)\s*")


def compare(sign: str, left: object, right: object) -> bool | None:
    """Compare two values with an operator of `SIGNS`; return None if they are not comparable.

    A text that spells a number compares with a number as that number, and is ordered with another such text; two texts
    are equal only if they are identical ("01" is not "1"), and true is not 1. A number with its unit ("35岁") is also
    ordered with a number.
    """
    if sign in {"in", "notin"}:
        if not isinstance(right, str | Sequence | Mapping):
            return None
        found = _contains(right, left)
        return found if sign == "in" else not found
    left, right = _comparable(left, right)
    if sign in {"eq", "ne"}:
        return _equal(left, right) is (sign == "eq")
    numbers = [_number(side) for side in (left, right)]
    if None not in numbers:
        return _ORDER[sign](*numbers)
    numbers = [_number(side) if _number(side) is not None else _amount(side) for side in (left, right)]
    if None not in numbers and not (isinstance(left, str) and isinstance(right, str)):
        return _ORDER[sign](*numbers)
    if isinstance(left, str) and isinstance(right, str):
        return _ORDER[sign](left, right)
    return None


def _comparable(left: object, right: object) -> tuple[object, object]:
    """Return two moments as numbers if one of them has a time, so that offsets count; any other date as its text.

    Of a moment beside a time of day only its time of day counts, in the zone of the moment: ``now > '18:00'``.
    """
    if _has_time(left) or _has_time(right):
        earlier, later = moment_in(left), moment_in(right)
        if earlier is not None and later is not None:
            return order_numbers(earlier, later)
        times = _time_of_day(left, earlier), _time_of_day(right, later)
        if None not in times:
            return times
    left, right = (side.isoformat() if isinstance(side, date) else side for side in (left, right))
    return left, right


def _time_of_day(side: object, moment: date | None) -> str | None:
    if isinstance(moment, datetime):
        return iso_time(moment.time().isoformat())
    return iso_time(side) if isinstance(side, str) else None


def _has_time(side: object) -> bool:
    return isinstance(side, datetime) or (isinstance(side, str) and side[10:11] in {"T", " "} and side[4:5] == "-")


def _equal(left: object, right: object) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, str) != isinstance(right, str) and None not in (_number(left), _number(right)):
        return _number(left) == _number(right)
    return left == right


def _number(side: object) -> int | float | None:
    if isinstance(side, str):
        return number_in(side)
    return side if isinstance(side, int | float) and not isinstance(side, bool) else None


def _amount(side: object) -> int | float | None:
    """Return the number of a text that is a number with its unit, as people answer: `35岁`, `8 hours`, `70%`."""
    found = _AMOUNT.fullmatch(side) if isinstance(side, str) else None
    return None if found is None else number_in(found["number"])


def _contains(container: Any, item: object) -> bool:
    return text_of(item) in container if isinstance(container, str) else any(_equal(each, item) for each in container)


def text_of(value: object) -> str:
    """Convert a value to text: lists with commas, whole numbers without ``.0``, null as the empty text.

    Raises TypeError if it is not a value.
    """
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 1e15 else str(value)
        case str() | int():
            return str(value)
        case Recollections():
            return value.as_text
        case list() | tuple() | range() | Iterator():
            return ", ".join(text_of(item) for item in value)
        case dict():
            return ", ".join(f"{key}: {text_of(item)}" for key, item in value.items())
        case date():
            return value.isoformat()
        case TimeSpan():
            raise TypeError("a duration cannot be converted to text")
        case _:
            raise TypeError(f"{type(value).__name__} cannot be converted to text")


def literal(value: Value) -> str:
    """Return the expression of a plain value."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case list():
            return "[" + ", ".join(literal(item) for item in value) + "]"
        case dict():
            return "{" + ", ".join(f"{json.dumps(key)}: {literal(item)}" for key, item in value.items()) + "}"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return str(value)
