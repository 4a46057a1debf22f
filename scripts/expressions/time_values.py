"""Dates in expressions: ISO texts that count. `appointment - days(1)`, `today - born`, `days_since(last_visit)`.

A text that is an ISO date, or an ISO date and time, is a date wherever it meets a duration, another date, or a function
of time. A result is a date object, which is stored as its ISO text again.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache

from msgspec import Struct

DAYS_MAX = 3_660  # of a duration: ten years
DAY_S = 86_400

Moment = date | datetime


class TimeInvalid(ValueError):
    """An operation on dates has no result; the message is for the author of the script."""


class TimeSpan(Struct, frozen=True, gc=False):
    """A duration. Days keep the clock time, also when the clocks change; seconds are elapsed time."""

    days: int = 0
    seconds: float = 0

    def __neg__(self) -> "TimeSpan":
        return TimeSpan(-self.days, -self.seconds)


def parse_date(text: str) -> Moment | None:
    """Parse an ISO date, or date and time; None for any other text."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def iso_time(text: str) -> str | None:
    """Return the ISO text of a clock time such as `9:30` or `21:30:15`, without seconds if they are 0; else None."""
    try:
        clock = time.fromisoformat(f"0{text}" if text[1:2] == ":" else text) if ":" in text else None
    except ValueError:
        return None
    if clock is None or clock.tzinfo is not None:
        return None
    return clock.isoformat(timespec="auto" if clock.second or clock.microsecond else "minutes")


def iso_date(text: str) -> str | None:
    """Return the ISO text of a day; the text itself if it is an ISO date and time."""
    moment = parse_date(text)
    return text if isinstance(moment, datetime) else moment.isoformat() if moment is not None else None


def iso_datetime(text: str) -> str | None:
    """Return the ISO text of a date and time, with its offset if it has one; None for any other text."""
    moment = parse_date(text)
    return moment.isoformat() if isinstance(moment, datetime) else None


@lru_cache(maxsize=1_000)
def zone_of(name: str) -> tzinfo | None:
    """Return a time zone of the IANA database, `Europe/Berlin`; None for any other name."""
    from zoneinfo import ZoneInfo  # imported here because few scripts need it

    try:
        return ZoneInfo(name)
    except (ValueError, LookupError, OSError):  # not a name, an unknown one, or a folder of the database
        return None


def zone_name(text: str) -> str | None:
    """Return the name of a time zone of the IANA database; None for any other text."""
    return text if zone_of(text) is not None else None


def moment_in(value: object) -> Moment | None:
    """Return the date that a value is, or that a text spells with its hyphens; None for any other value."""
    if isinstance(value, str):
        return parse_date(value.strip()) if "-" in value[:11] else None
    return value if isinstance(value, date) else None


def time_span(unit: str, amount: object) -> TimeSpan:
    """Return a number of weeks, days, hours or minutes as a span. Raises TimeInvalid."""
    if isinstance(amount, bool) or not isinstance(amount, int | float):
        raise TimeInvalid("needs a number")
    days = amount * {"weeks": 7, "days": 1}.get(unit, 0)
    seconds = amount * {"hours": 3_600, "minutes": 60}.get(unit, 0)
    if not abs(days) + abs(seconds) / DAY_S <= DAYS_MAX:
        raise TimeInvalid(f"a duration has at most {DAYS_MAX:,} days")
    if days != int(days):
        raise TimeInvalid("needs a whole number")
    return TimeSpan(int(days), seconds)


def combine(sign: str, left: object, right: object, zone: Callable[[], tzinfo]) -> Moment | TimeSpan | float | None:
    """Evaluate `+` or `-` of dates and durations; None if the operands are neither. Raises TimeInvalid.

    A date with a duration is a date, and two durations are one. The difference of two dates is a number of days, which
    is whole unless a date has a time. A date and time without an offset is in the zone that `zone` returns.
    """
    if sign == "+" and isinstance(left, TimeSpan):
        left, right = right, left
    if sign not in {"+", "-"} or not _is_about_time(sign, left, right):
        return None
    if isinstance(left, TimeSpan) and isinstance(right, TimeSpan):
        span = right if sign == "+" else -right
        return TimeSpan(left.days + span.days, left.seconds + span.seconds)
    start = moment_in(left)
    if start is None:
        raise TimeInvalid("a duration is added to a date, or subtracted from one")
    if isinstance(right, TimeSpan):
        return _shift(start, right if sign == "+" else -right, zone())
    end = moment_in(right)
    return None if end is None else _days_between(end, start, zone())


def _is_about_time(sign: str, left: object, right: object) -> bool:
    """Return whether an operand is a duration, or both are dates; two texts may also be joined, but not subtracted."""
    if isinstance(right, TimeSpan):
        return True
    return sign == "-" and moment_in(left) is not None and moment_in(right) is not None


def _shift(start: Moment, span: TimeSpan, zone: tzinfo) -> Moment:
    try:
        if not isinstance(start, datetime):
            if not span.seconds:
                return start + timedelta(days=span.days)
            start = datetime.combine(start, time())
        local = _aware(start, zone)
        if span.days:  # by the clock; adding nothing would turn the second of two equal clock times into the first
            local += timedelta(days=span.days)
        return (local.astimezone(UTC) + timedelta(seconds=span.seconds)).astimezone(local.tzinfo)
    except OverflowError as error:
        raise TimeInvalid("the date would be out of range") from error


def _days_between(start: Moment, end: Moment, zone: tzinfo) -> float:
    if not isinstance(start, datetime) and not isinstance(end, datetime):
        return (end - start).days
    return seconds_between(start, end, zone) / DAY_S


def seconds_between(start: Moment, end: Moment, zone: tzinfo) -> float:
    """Return the elapsed seconds; a date begins at midnight in `zone`."""
    return (_aware(end, zone) - _aware(start, zone)).total_seconds()


def days_since(value: object, now: datetime) -> int:
    """Return the number of midnights since a date, in the zone of `now`. Raises TimeInvalid."""
    moment = _moment(value)
    if isinstance(moment, datetime):
        moment = _aware(moment, _zone(now)).astimezone(now.tzinfo).date()
    return (now.date() - moment).days


def minutes_since(value: object, now: datetime) -> int:
    """Return the whole minutes since a date. Raises TimeInvalid."""
    return int(seconds_between(_moment(value), now, _zone(now)) // 60)


SINCE: Mapping[str, Callable[[object, datetime], int]] = {"days_since": days_since, "minutes_since": minutes_since}
SPANS = ("weeks", "days", "hours", "minutes")
PLACES = ("visits", "minutes_spent")
FUNCTIONS = frozenset({*SPANS, *SINCE, *PLACES})
"""The functions of time. A variable may have such a name: only a call is the function."""


def order_numbers(left: Moment, right: Moment) -> tuple[float, float]:
    """Return two dates as numbers in the order of the dates; what has no offset is in the zone of the other one."""
    zone = _zone(left) if isinstance(left, datetime) and left.tzinfo else _zone(right)
    return _aware(left, zone).timestamp(), _aware(right, zone).timestamp()


def _moment(value: object) -> Moment:
    moment = moment_in(value)
    if moment is None:
        raise TimeInvalid("needs a date such as 2026-01-31")
    return moment


def _zone(moment: Moment) -> tzinfo:
    return (moment.tzinfo if isinstance(moment, datetime) else None) or UTC


def _aware(moment: Moment, zone: tzinfo) -> datetime:
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, time())
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)
