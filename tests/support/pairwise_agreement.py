"""Krippendorff's alpha from its definition over all pairs of values, which the product computes in another way."""

from collections.abc import Sequence
from itertools import combinations

from api.reviews.agreement import Level


def by_pairs(units: Sequence[Sequence[int]], level: Level) -> float | None:
    """Return one minus the mean distance within units, in parts of the mean distance of all values."""
    compared = [values for values in units if len(values) > 1]
    every = [value for values in compared for value in values]
    if len(set(every)) < 2:
        return None

    def distance(one: int, other: int) -> float:
        if level == "nominal":
            return float(one != other)
        if level == "interval":
            return float((one - other) ** 2)
        low, high = sorted((one, other))
        ranked = [1.0 if low < value < high else 0.5 * (value in (low, high)) for value in every]
        return sum(ranked) ** 2 if one != other else 0.0

    within = sum(
        2 * distance(one, other) / (len(values) - 1) for values in compared for one, other in combinations(values, 2)
    ) / len(every)
    between = sum(2 * distance(one, other) for one, other in combinations(every, 2)) / (len(every) * (len(every) - 1))
    return 1 - within / between
