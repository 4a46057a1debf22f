"""Whether the values that measures took over some messages follow a course that an author described."""

import itertools
from collections.abc import Mapping, Sequence

from scripts.detectors.parts import Course, Pattern

TREND_MIN = 3  # fewer values make no trend, average or range
STEP_SHARE_MAX = 0.75  # a change of which one step makes up more is a jump, no trend
SLACK = 0.05  # so much may a value stray from a trend
EXACT = 1e-9

Series = Mapping[str, Sequence[float]]
"""For each measure, its values in the messages of the window that say something of it, oldest first."""


def holds(pattern: Pattern, series: Series) -> int:
    """How many messages a pattern rests on, 0 where it does not hold; one without courses never does."""
    if not pattern.courses:
        return 0
    return min((_holds(course, series.get(course.of, ())) for course in pattern.courses), default=0)


def _holds(course: Course, values: Sequence[float]) -> int:
    values = values[-course.span :] if course.span is not None else values
    return len(values) if values and all(_parts(course, values)) else 0


def _parts(course: Course, values: Sequence[float]) -> list[bool]:
    """What is asked of a course, part by part."""
    asked: list[bool] = []
    if course.trend is not None:
        asked.append(_is_steady(values, 1 if course.trend == "rising" else -1))
    if course.change is not None:
        moved = values[-1] - values[0] if course.trend is not None else max(abs(values[-1] - each) for each in values)
        asked.append(abs(moved) >= course.change - EXACT)
    if course.swings is not None:
        asked.append(swings(values, course.amplitude) >= course.swings)
    several = len(values) >= TREND_MIN
    average, width = sum(values) / len(values), max(values) - min(values)
    for found, low, high, enough in (
        (average, course.average_min, course.average_max, several),
        (width, course.range_min, course.range_max, several),
        (values[-1], course.last_min, course.last_max, True),
    ):
        if low is not None:
            asked.append(enough and found >= low - EXACT)
        if high is not None:
            asked.append(enough and found <= high + EXACT)
    return asked or [False]


def _is_steady(values: Sequence[float], sign: int) -> bool:
    steps = [sign * (after - before) for before, after in itertools.pairwise(values)]
    total = sum(steps)
    if len(values) < TREND_MIN or total <= 0 or steps[-1] <= 0:
        return False
    return all(step >= -SLACK for step in steps) and max(steps) <= STEP_SHARE_MAX * total


def swings(values: Sequence[float], amplitude: float) -> int:
    """How many moves up and down follow each other that are at least so large; a move of several steps is one."""
    count, direction = 0, 0
    turning = values[0]  # the outermost value since the last turn
    for value in values[1:]:
        if direction and (value - turning) * direction >= 0:
            turning = value
        elif abs(value - turning) >= amplitude - EXACT:
            count, direction, turning = count + 1, (1 if value > turning else -1), value
    return count
