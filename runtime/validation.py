"""Whether a value is an answer an output accepts: type, choices, pattern, limits, and its own condition."""

from collections.abc import Mapping
from datetime import date, datetime

from msgspec import Struct

from runtime.patterns import PatternGivenUp, is_match
from runtime.run import Run
from scripts.strings import Phrase
from scripts.values import Value, ValueRefused, bounded, coerce, is_given, number_in
from scripts.variables import Output


class Refused(Struct, frozen=True):
    """Why a value is no answer, and which of the runtime's phrases says so."""

    reason: str
    phrase: Phrase


def checked(run: Run, output: Output, value: object, others: Mapping[str, Value] | None = None) -> Value | Refused:
    """The value as the output wants it, null where it is not given, or why it is refused.

    Its `validate` sees the `others`, by default what the action has taken so far.
    """
    declared = output.kind
    try:
        plain = bounded(value)
        if not is_given(plain):
            return None
        if declared is not None:
            plain = coerce(plain, declared, output.choices)
    except ValueRefused as refused:
        return Refused(str(refused), declared or "invalid")
    reason = _pattern(output, plain) or _limits(output, plain)
    if reason:
        return Refused(reason, "invalid")
    taken = {**(run.progress.values if others is None else others), output.get: plain}
    if output.validate is not None and not run.holds(output.validate, taken):
        return Refused(f"`{output.validate.source}` does not hold", "invalid")
    return plain


def _pattern(output: Output, value: Value) -> str:
    if output.pattern is None or not isinstance(value, str):
        return ""
    try:
        return "" if is_match(output.pattern, value) else "does not match the pattern"
    except PatternGivenUp as given_up:
        return str(given_up)


def _limits(output: Output, value: Value) -> str:
    if output.min is None and output.max is None:
        return ""
    if output.type == "date":
        size: date | int | float = _day(str(value))
        low, high = (None if limit is None else _day(str(limit)) for limit in (output.min, output.max))
    else:
        size = len(value) if isinstance(value, str | list | dict) else (value or 0)
        low, high = (_number(limit) for limit in (output.min, output.max))  # type: ignore[assignment]
    if low is not None and size < low:  # type: ignore[operator]
        return f"{size} is below {low}"
    if high is not None and size > high:  # type: ignore[operator]
        return f"{size} is above {high}"
    return ""


def _day(text: str) -> date:
    return datetime.fromisoformat(text).date()


def _number(limit: int | float | str | None) -> int | float | None:
    return number_in(limit) if isinstance(limit, str) else limit
