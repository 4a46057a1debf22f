"""Compute points in time from the moments of a script, in a time zone.

Days keep the clock time. A clock time that is skipped when the clocks go forward is the first valid moment after it;
one that occurs twice is the first of both.
"""

from datetime import UTC, date, datetime, time, timedelta, tzinfo

from scripts.expressions.time_values import parse_date
from scripts.model.moments import WEEKDAYS, Duration, Moment, QuietHours

DAYS_AHEAD = 15  # a clock time on some weekdays occurs within a week; days may be skipped as a whole


def at_clock(day: date, clock: time, zone: tzinfo) -> datetime:
    """Return the moment of a clock time of a day, in UTC."""
    local = datetime.combine(day, clock)
    later = local.replace(tzinfo=zone).astimezone(UTC)  # with the offset before a change
    if later.astimezone(zone).replace(tzinfo=None) == local:
        return later
    earlier = local.replace(tzinfo=zone, fold=1).astimezone(UTC)  # with the offset after it: the change is in between
    earlier, later = earlier.replace(microsecond=0), later.replace(microsecond=0)
    offset = later.astimezone(zone).utcoffset()
    while later - earlier > timedelta(seconds=1):
        middle = (earlier + (later - earlier) / 2).replace(microsecond=0)
        if middle.astimezone(zone).utcoffset() == offset:
            later = middle
        else:
            earlier = middle
    return later


def after_duration(start: datetime, duration: Duration, zone: tzinfo) -> datetime:
    """Return the moment a duration after `start`, in UTC. Raises OverflowError beyond the year 9999."""
    if duration.days:
        local = start.astimezone(zone)
        start = at_clock(local.date() + timedelta(days=duration.days), local.time(), zone)
    return start + timedelta(seconds=duration.seconds)


def next_clock(start: datetime, moment: Moment, zone: tzinfo) -> datetime:
    """Return the next time after `start` that a clock shows the time of a moment, on one of its weekdays, in UTC."""
    clock = moment.clock.time if moment.clock is not None else time()
    first = start.astimezone(zone).date()
    days = (first + timedelta(days=ahead) for ahead in range(DAYS_AHEAD))
    found = (at_clock(day, clock, zone) for day in days if not moment.days or WEEKDAYS[day.weekday()] in moment.days)
    return next(due for due in found if due > start)


def of_date(text: str, clock: time | None, zone: tzinfo) -> datetime | None:
    """Return the moment of an ISO date, at `clock` or midnight, or of an ISO date and time; None for any other text."""
    value = parse_date(text)
    if isinstance(value, datetime):
        if clock is not None:
            return at_clock(value.date(), clock, zone)
        return value.astimezone(UTC) if value.tzinfo is not None else at_clock(value.date(), value.time(), zone)
    return None if value is None else at_clock(value, clock or time(), zone)


def due_moment(moment: Moment, start: datetime, zone: tzinfo, until: str = "") -> datetime | None:
    """Return when a moment comes that is counted from `start`; `until` is the value of its expression.

    None if its date is not a date, or beyond the year 9999.
    """
    try:
        if moment.until is not None:
            return of_date(until, moment.clock.time if moment.clock is not None else None, zone)
        return next_clock(start, moment, zone) if moment.after is None else after_duration(start, moment.after, zone)
    except OverflowError:
        return None


def after_quiet_hours(due: datetime, quiet: QuietHours, zone: tzinfo) -> datetime:
    """Return a moment, or the end of the quiet hours that it lies in, unless that is beyond the year 9999."""
    end = quiet.end.time
    try:
        local = due.astimezone(zone)
        if not quiet.contains(local.time()):
            return due
        return at_clock(local.date() + timedelta(days=local.time() >= end), end, zone)
    except OverflowError:
        return due
