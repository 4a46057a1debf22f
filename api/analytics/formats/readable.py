"""Numbers and other values as people read them."""

from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from api.analytics.formats.json_and_csv import encode

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def number_text(value: float | None, unit: str = "") -> str:
    """Format a number: `12,345`, `0.0123`; with the unit `%` a share (`34.5 %`), with `s` a duration (`2 min 5 s`)."""
    if value is None:
        return "–"
    if unit == "%":
        return f"{_plain(round(value * 100, 1))} %"
    return _duration(value) if unit == "s" else _plain(value)


def label(value: Any) -> str:
    """Return a value as a label: `(none)` for null, dates without midnight."""
    match value:
        case None:
            return "(none)"
        case "":
            return "(empty)"
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | Decimal():
            return str(value)
        case float():
            return repr(value).removesuffix(".0")
        case datetime():
            moment = value.astimezone(UTC) if value.tzinfo else value
            return f"{moment:%Y-%m-%d}" if moment.time() == time() else f"{moment:%Y-%m-%d %H:%M:%S}"
        case timedelta():
            return number_text(value.total_seconds(), "s")
        case _:
            return encode(value).decode().strip('"')


def duration_unit(largest: float) -> tuple[float, str]:
    """Return the seconds in the unit that suits an axis up to a duration, and the name of the unit."""
    units = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (1.0, "s"))
    return next(((size, name) for size, name in units if largest >= 2 * size), (1.0, "s"))


def _plain(value: float) -> str:
    sign, size = ("−" if value < 0 else ""), abs(value)
    if size >= 1e15 or (size < 1 and size != 0):
        return f"{sign}{size:.3g}"
    if size == int(size):
        return f"{sign}{int(size):,}"
    return sign + f"{size:,.2f}".rstrip("0").rstrip(".")


def _duration(seconds: float) -> str:
    sign, size = ("−" if seconds < 0 else ""), abs(seconds)
    if size < 1:
        return f"{sign}{_plain(round(size * 1_000, 1))} ms" if size else "0 s"
    if size < _MINUTE:
        return f"{sign}{_plain(round(size, 1))} s"
    if size >= 10_000 * _DAY:
        return f"{sign}{_plain(round(size / _DAY))} d"
    for large, small, names in ((_DAY, _HOUR, ("d", "h")), (_HOUR, _MINUTE, ("h", "min")), (_MINUTE, 1, ("min", "s"))):
        parts = round(size / small)
        if parts * small >= large:
            whole, rest = divmod(parts, large // small)
            return f"{sign}{whole} {names[0]} {rest} {names[1]}" if rest else f"{sign}{whole} {names[0]}"
    return f"{sign}{_plain(round(size))} s"
