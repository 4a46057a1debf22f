"""Where an axis has its marks: at round numbers, lengths of time, moments."""

import math
from datetime import UTC, datetime, timedelta

_LENGTHS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400)
_MINUTE, _DAY = 60, 86_400
_MOMENTS = (
    1,
    5,
    15,
    30,
    60,
    300,
    900,
    1_800,
    3_600,
    7_200,
    10_800,
    21_600,
    43_200,
    _DAY,
    2 * _DAY,
    7 * _DAY,
    14 * _DAY,
)
_MONTHS = (1, 3, 6, 12, 24, 60, 120, 240, 600, 1_200, 2_400, 6_000, 12_000, 60_000)
_MONDAY = 4 * _DAY  # 5 January 1970, the first Monday
_TINY = 1e-300


def round_ticks(low: float, high: float, count_max: int, unit: str = "", *, whole: bool = False) -> list[float]:
    """At least two round numbers in equal steps, whole ones if so asked: from at most the low to at least the high."""
    span = high - low
    if span < _TINY:
        low, high = min(low, 0.0), max(low, 0.0)
        if high - low < _TINY:
            high = 1.0
        span = high - low
    step = _step(span / count_max, unit, whole=whole)
    first = math.floor(low / step)
    last = max(math.ceil(high / step - 1e-9), first + 1)
    return [number * step for number in range(first, last + 1)]


def _step(least: float, unit: str, *, whole: bool) -> float:
    least = max(least, 1.0) if whole else least
    if unit == "s" and 1 <= least <= _LENGTHS[-1]:
        return next(float(length) for length in _LENGTHS if length >= least)
    power = 10.0 ** math.floor(math.log10(least))
    factors = (1, 2, 5, 10, 20) if whole and power < 10 else (1, 2, 2.5, 5, 10, 20)
    return next(factor * power for factor in factors if factor * power >= least)


def moments(first: datetime, last: datetime, count_max: int, *, days: bool = False) -> list[tuple[datetime, str]]:
    """Round moments within a time, in UTC, days at least if so asked; each with how it is written. One or more."""
    start, end = first.timestamp(), last.timestamp()
    least = max((end - start) / count_max, _DAY if days else 0)
    step = next((step for step in _MOMENTS if step >= least), None)
    if step is None:
        found = _months(first, last, least)
        return found or [(first, f"{first:%Y-%m-%d}")]
    offset = _MONDAY if step % (7 * _DAY) == 0 else 0
    number = math.ceil((start - offset) / step)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    places: list[datetime] = []
    while number * step + offset <= end:
        places.append(epoch + timedelta(seconds=number * step + offset))
        number += 1
    form = "%Y-%m-%d" if step >= _DAY else "%Y-%m-%d %H:%M" if step >= _MINUTE else "%Y-%m-%d %H:%M:%S"
    return [(place, place.strftime(form)) for place in places or [first]]


def _months(first: datetime, last: datetime, least: float) -> list[tuple[datetime, str]]:
    step = next((step for step in _MONTHS if step * 30 * _DAY >= least), _MONTHS[-1])
    number = math.ceil((first.year * 12 + first.month - (first.day == 1)) / step) * step
    places = []
    while number // 12 <= last.year:
        place = datetime(max(number // 12, 1), number % 12 + 1, 1, tzinfo=UTC)
        if first <= place <= last:
            places.append((place, f"{place.year}" if step >= 12 else f"{place:%Y-%m}"))
        number += step
    return places
