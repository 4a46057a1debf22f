"""Krippendorff's alpha: how well raters agree, beyond what chance would give.

Computed from the matrix of coincidences, as in K. Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011),
which allows any number of raters and missing ratings.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import permutations
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["nominal", "ordinal", "interval"]
Distance: TypeAlias = Callable[[float, float], float]


def alpha(units: Iterable[Sequence[float]], level: Level) -> float | None:
    """Return alpha for the values that raters gave to each unit: 1 for full agreement, 0 for that of chance.

    Nominal values are numbers that stand for names. None if no unit has two values, or if all values that can be
    compared are the same: then nothing can be said about agreement.
    """
    coincidences = defaultdict[tuple[float, float], float](float)
    totals = defaultdict[float, float](float)
    for values in units:
        for one, other in permutations(values, 2):
            coincidences[one, other] += 1 / (len(values) - 1)
            totals[one] += 1 / (len(values) - 1)
    if len(totals) < 2:
        return None
    distance = _distance(level, totals)
    observed = sum(count * distance(*pair) for pair, count in coincidences.items())
    expected = sum(totals[one] * totals[other] * distance(one, other) for one, other in permutations(totals, 2))
    return 1 - (sum(totals.values()) - 1) * observed / expected


def _distance(level: Level, totals: Mapping[float, float]) -> Distance:
    match level:
        case "nominal":
            return lambda one, other: float(one != other)
        case "ordinal":
            return lambda one, other: _between(totals, one, other) ** 2
        case "interval":
            return lambda one, other: (one - other) ** 2


def _between(totals: Mapping[float, float], one: float, other: float) -> float:
    """Return the number of values from one rank to another, with half of those at each end."""
    low, high = min(one, other), max(one, other)
    inside = sum(count for value, count in totals.items() if low <= value <= high)
    return inside - (totals[one] + totals[other]) / 2
