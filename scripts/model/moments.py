"""Moments of a script: durations, clock times, dates, and what a conversation does when one has come.

Texts are parsed once, when the script is read; `runtime.timers` computes the points in time.
"""

import re
from datetime import time
from typing import Literal, TypeAlias

from msgspec import Struct, field

from scripts.expressions.time_values import parse_date
from scripts.model.base import Expression, Node

SECONDS_MAX = 10 * 366 * 86_400  # of a duration: ten years
_SECONDS = {"second": 1, "s": 1, "minute": 60, "min": 60, "hour": 3_600, "h": 3_600}
_DAYS = {"day": 1, "week": 7}
_PART = re.compile(r"(?P<number>\d{1,9})\s*(?P<unit>second|minute|hour|day|week|s|min|h)")
_DURATION = re.compile(r"(?:\d{1,9}\s?(?:(?:second|minute|hour|day|week)s?|s|min|h)\s?)+")
_CLOCK = re.compile(r"(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)")

Weekday: TypeAlias = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WEEKDAYS: tuple[Weekday, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class Duration(Struct, frozen=True, gc=False):
    """A duration as written. Days keep the clock time, also when the clocks change; seconds are elapsed time."""

    text: str
    days: int = 0
    seconds: int = 0


class Clock(Struct, frozen=True, gc=False):
    """A time of day as written, `9:00`."""

    text: str

    @property
    def time(self) -> time:
        """The time of day."""
        hour, minute = self.text.split(":")
        return time(int(hour), int(minute))


class DateValue(Struct, frozen=True, gc=False):
    """A date or date and time as written, or `=` and an expression."""

    text: str

    @property
    def expression(self) -> Expression:
        """The expression of the date."""
        return Expression(self.text.removeprefix("=").strip() if self.is_expression else f'"{self.text}"')

    @property
    def is_expression(self) -> bool:
        """Whether the author wrote an expression."""
        return self.text.startswith("=")


class Moment(Node, frozen=True, kw_only=True):
    """A moment: after a duration, at the next such clock time (on some weekdays only), or at a date."""

    after: Duration | None = None
    clock: Clock | None = None  # written as `at`
    days: tuple[Weekday, ...] = ()
    until: DateValue | None = None

    @property
    def date(self) -> Expression | None:
        """The expression of `until`, with its place."""
        return None if self.until is None else Expression(self.until.expression.source, self.mark("until"))

    @property
    def text(self) -> str:
        """The moment as one line, which identifies it among the reminders of an action: `1 day`, `9:00 mon tue`."""
        parts = [self.after.text if self.after else "", self.until.text if self.until else ""]
        parts += [self.clock.text if self.clock else "", *self.days]
        return " ".join(part for part in parts if part)


class QuietHours(Node, frozen=True, kw_only=True):
    """The hours in which the session does not speak by itself; `from` may be later than `to`."""

    begin: Clock = field(name="from")
    end: Clock = field(name="to")

    def contains(self, local: time) -> bool:
        """Return whether a time of day lies in the quiet hours."""
        begin, end = self.begin.time, self.end.time
        return begin <= local < end if begin <= end else local >= begin or local < end


def parse_duration(text: str) -> Duration | None:
    """Parse `3 days`, `90 min` or `1 day 12 hours`; None if it is no duration, is zero, or is above ten years."""
    plain = " ".join(text.split())
    if not _DURATION.fullmatch(plain):
        return None
    days = seconds = 0
    for part in _PART.finditer(plain):
        number, unit = int(part["number"]), part["unit"]
        days += number * _DAYS.get(unit, 0)
        seconds += number * _SECONDS.get(unit, 0)
    return Duration(plain, days, seconds) if 0 < days * 86_400 + seconds <= SECONDS_MAX else None


def parse_clock(text: str) -> Clock | None:
    """Parse `9:00` or `21:30`; None if it is no time of day."""
    return Clock(text) if _CLOCK.fullmatch(text) else None


def parse_until(text: str) -> DateValue | None:
    """Parse an ISO date, an ISO date and time, or `=` and an expression; None for any other text."""
    return DateValue(text) if text.startswith("=") or parse_date(text) is not None else None
