"""What a variable can hold: JSON values, their types, their bounds, and the lossless coercions between them."""

import math
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Literal, TypeAlias, assert_never

# One level is spelt out; the decoder has no recursive aliases, and `bounded` guards what lies deeper.
Value: TypeAlias = str | int | float | bool | list[Any] | dict[str, Any] | None
ValueType: TypeAlias = Literal["text", "number", "boolean", "date", "choice", "list", "record", "null"]
DeclaredType: TypeAlias = Literal["text", "number", "boolean", "date", "choice", "list", "record"]

TEXT_CHARS_MAX = 20_000
LIST_ITEMS_MAX = 1_000
DEPTH_MAX = 8
VALUE_NODES_MAX = 5_000
INTEGER_ABS_MAX = 2**53  # what every JSON reader keeps exactly


class ValueRefused(ValueError):
    """A value that does not fit its type or its bounds; the message is written for the script's author."""


def infer_type(value: Value) -> ValueType:
    """The type of a value nobody declared. ISO dates stay text: only a declaration makes a date."""
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
    """Whether a value counts as an answer: ``""`` and null do not, ``0`` and ``false`` do."""
    return value is not None and value != ""


def coerce(value: Value, declared: DeclaredType, choices: Sequence[str] = ()) -> Value:
    """The same value as the declared type, where nothing is lost by it; null passes, it means "unset".

    Raises ValueRefused, naming what was expected and what was found.
    """
    if value is None:
        return None
    match declared:
        case "text":
            return _as_text(value)
        case "number":
            return _as_number(value)
        case "boolean":
            return _as_boolean(value)
        case "date":
            return _as_date(value)
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


def _mismatch(value: Value, declared: str) -> ValueRefused:
    return ValueRefused(f"expected {declared}, found {infer_type(value)} {shorten(value)}")


def _as_text(value: Value) -> Value:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _mismatch(value, "text")
    return str(value)


def _as_number(value: Value) -> Value:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        number = number_in(value)
        if number is not None:
            return number
    raise _mismatch(value, "number")


def number_in(text: str) -> int | float | None:
    """The number a text spells exactly (``"28"``, ``"-1.5"``), or None; ``"1e999"`` and ``"nan"`` are none."""
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


def _as_boolean(value: Value) -> Value:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
        return value.strip().lower() == "true"
    raise _mismatch(value, "boolean")


def _as_date(value: Value) -> Value:
    if isinstance(value, str):
        text = value.strip()
        try:
            return date.fromisoformat(text).isoformat()
        except ValueError:
            pass
        try:
            datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            return text
    raise ValueRefused(f"expected a date such as 2026-01-31, found {infer_type(value)} {shorten(value)}")


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
    raise ValueRefused(f"expected one of {', '.join(choices)}; found {shorten(value)}")


def shorten(value: object, chars_max: int = 60) -> str:
    """A value as it may stand in a message: one line, bounded."""
    text = repr(value) if isinstance(value, str) else str(value)
    text = " ".join(text.split())
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"


def bounded(value: object) -> Value:
    """A plain JSON value within the limits of this module, from what an expression, client or model gave.

    Tuples become lists. Raises ValueRefused for what is no JSON value, too deep, too long or not finite.
    """
    return _bounded(value, depth=0, budget=[VALUE_NODES_MAX])


def _bounded(value: object, depth: int, budget: list[int]) -> Value:
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
            return _bounded_text(value)
        case list() | tuple():
            if len(value) > LIST_ITEMS_MAX:
                raise ValueRefused(f"a list may have at most {LIST_ITEMS_MAX} items")
            return [_bounded(item, depth + 1, budget) for item in value]
        case dict():
            if len(value) > LIST_ITEMS_MAX:
                raise ValueRefused(f"a record may have at most {LIST_ITEMS_MAX} fields")
            return {_bounded_key(key): _bounded(item, depth + 1, budget) for key, item in value.items()}
        case date():
            return value.isoformat()
        case _:
            raise ValueRefused(f"{type(value).__name__} is not a value a variable can hold")


def _bounded_text(value: str) -> str:
    if len(value) > TEXT_CHARS_MAX:
        raise ValueRefused(f"a text may have at most {TEXT_CHARS_MAX} characters, this one has {len(value)}")
    if not is_unicode(value):
        raise ValueRefused("a text must be valid Unicode")
    return str(value)


def is_unicode(text: str) -> bool:
    """Whether a text can be written down: Python's may hold halves of a surrogate pair, which no file takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _bounded_key(key: object) -> str:
    if not isinstance(key, str):
        raise ValueRefused("the fields of a record are named by texts")
    return _bounded_text(key)
