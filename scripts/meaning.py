"""What values mean in the language: how they compare, and how they stand in a text."""

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any

from scripts.memories import Recollections
from scripts.values import number_in

SIGNS = {"eq": "==", "ne": "!=", "gt": ">", "gteq": ">=", "lt": "<", "lteq": "<=", "in": "in", "notin": "not in"}
"""The comparisons by Jinja's names for them."""

_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gteq": operator.ge,
    "lt": operator.lt,
    "lteq": operator.le,
}


_AMOUNT = re.compile(r"\s*(?P<number>[+-]?[0-9]{1,15}(?:\.[0-9]{1,9})?)\s?(?:[^\W\d_]{1,12}|%|％)\s*")


def compare(sign: str, left: object, right: object) -> bool | None:
    """One comparison of two values, by its name in `SIGNS`; None where they do not compare.

    A text that spells a number compares with a number as that number, and by size with another such text; two texts
    are equal only to the letter ("01" is not "1"), and true is not 1. By size, a number with its unit ("35岁") compares
    with a number too.
    """
    if sign in {"in", "notin"}:
        if not isinstance(right, str | Sequence | Mapping):
            return None
        found = _contains(right, left)
        return found if sign == "in" else not found
    left, right = (side.isoformat() if isinstance(side, date) else side for side in (left, right))
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
    """The number of a text that is one with its unit, as people answer: `35岁`, `8 hours`, `70%`."""
    found = _AMOUNT.fullmatch(side) if isinstance(side, str) else None
    return None if found is None else number_in(found["number"])


def _contains(container: Any, item: object) -> bool:
    if isinstance(container, str):
        return text_of(item) in container
    return any(_equal(each, item) for each in container)


def text_of(value: object) -> str:
    """A value as it stands in a text: lists with commas, whole numbers without ``.0``, null as nothing.

    Raises TypeError for what is no value.
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
        case list() | tuple() | range():
            return ", ".join(text_of(item) for item in value)
        case dict():
            return ", ".join(f"{key}: {text_of(item)}" for key, item in value.items())
        case date():
            return value.isoformat()
        case Iterator():
            return ", ".join(text_of(item) for item in value)
        case _:
            raise TypeError(f"{type(value).__name__} is nothing that can be said")
