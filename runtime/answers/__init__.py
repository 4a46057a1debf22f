"""Typed values out of a person's free reply, without a language model, in the language of its locale.

Each parser gives None where a reply does not say one thing clearly: asking again costs less than a wrong value.
"""

from collections.abc import Sequence
from datetime import date
from typing import assert_never

import msgspec

from runtime.answers.booleans import parse_boolean
from runtime.answers.choices import Choice, match_choice
from runtime.answers.dates import parse_date
from runtime.answers.labels import labelled_parts
from runtime.answers.lists import parse_list
from runtime.answers.numbers import parse_number
from scripts.model import Locale
from scripts.values import DeclaredType, Value, ValueRefused, bounded

__all__ = [
    "Choice",
    "labelled_parts",
    "match_choice",
    "parse_answer",
    "parse_boolean",
    "parse_date",
    "parse_list",
    "parse_number",
]


def parse_answer(
    text: str, declared: DeclaredType | None, *, choices: Sequence[Choice | str], today: date, locale: Locale
) -> Value:
    """The value of the declared type a reply gives, or None; untyped and text take the reply as it stands, stripped."""
    try:
        return bounded(_parsed(text.strip(), declared, choices, today, locale))
    except ValueRefused:
        return None


def _parsed(
    text: str, declared: DeclaredType | None, choices: Sequence[Choice | str], today: date, locale: Locale
) -> object:
    match declared:
        case None | "text":
            return text or None
        case "number":
            return parse_number(text, locale)
        case "boolean":
            return parse_boolean(text, locale)
        case "date":
            return parse_date(text, today, locale)
        case "choice":
            return match_choice(text, choices, locale)
        case "list":
            return parse_list(text, locale)
        case "record":
            return _record(text)
        case _:
            assert_never(declared)


def _record(text: str) -> object:
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):  # no JSON, lone surrogates, nested too deep
        return None
    return value if isinstance(value, dict) else None
