"""The figures that benchmarks measure, and the table of them that `make bench` ends with."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A measured value; the highest value it must have, and the one it should have. Of a rate: the lowest ones."""

    name: str
    value: float
    must: float
    aim: float | None = None
    unit: str = "x"
    is_rate: bool = False

    def reaches(self, goal: float) -> bool:
        """Whether the value is as good as `goal`."""
        return self.value >= goal if self.is_rate else self.value <= goal

    @property
    def verdict(self) -> str:
        """Return `aim`, `must` or `MISSED`."""
        if self.reaches(self.must if self.aim is None else self.aim):
            return "aim" if self.aim is not None else "must"
        return "must" if self.reaches(self.must) else "MISSED"


def show_table(figures: Sequence[Figure]) -> None:
    """Print a row for each figure."""
    print(f"\n{'figure':<66} {'measured':>12} {'must':>10} {'aim':>10}  reached")
    for figure in figures:
        sign = ">=" if figure.is_rate else "<="
        goals = [f"{sign} {goal:g}" if goal is not None else "" for goal in (figure.must, figure.aim)]
        measured = f"{figure.value:,.3g}" if figure.value < 1_000 else f"{figure.value:,.0f}"
        shown = f"{measured} {figure.unit}"
        print(f"{figure.name:<66} {shown:>12} {goals[0]:>10} {goals[1]:>10}  {figure.verdict}")


def percentile(times: Sequence[float], share: float) -> float:
    """Return the value below which `share` of the times are."""
    return sorted(times)[min(int(len(times) * share), len(times) - 1)]


def line(name: str, times: Sequence[float], floor: float) -> str:
    """Return median, 95th percentile and ratio to the floor's median."""
    p50, p95 = statistics.median(times), percentile(times, 0.95)
    return f"{name:<34} p50 {p50 * 1e3:7.2f} ms   p95 {p95 * 1e3:7.2f} ms   {p50 / floor:6.1f}x the floor"


def ratio(times: Sequence[float], others: Sequence[float]) -> float:
    """Return the ratio of the medians."""
    return statistics.median(times) / statistics.median(others)
