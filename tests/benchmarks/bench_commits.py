"""This checkout beside another commit, by turns in the same run; BENCH_AGAINST names the commit. Run by `make bench`.

The other commit is extracted into a temporary folder. It runs with the packages of this checkout, or, if it needs
others, with the interpreter BENCH_AGAINST_PYTHON. A figure is the median of three rounds; each round starts both
servers, one after the other.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from figures import Figure, show_table
from measured_server import ROOT, SESSIONS, drive, many, server

ROUNDS = 3
AGAINST = os.environ.get("BENCH_AGAINST", "")
AGAINST_PYTHON = os.environ.get("BENCH_AGAINST_PYTHON", sys.executable)
TURNS = int(os.environ.get("BENCH_TURNS", "700"))


@dataclass(frozen=True)
class Costs:
    """What a checkout needs."""

    p50: float
    rate: float
    alone_cpu_s: float
    many_cpu_s: float


def extract(commit: str, folder: Path) -> None:
    """Write the files of a commit. Raises CalledProcessError if there is no such commit."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True, timeout=60).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(folder, filter="data")


def costs(code: Path, python: str = sys.executable) -> Costs:
    """Return what the turns of a checkout cost; CPU is that of the server process, for one turn."""
    with tempfile.TemporaryDirectory() as name, server(Path(name), code=code, python=python) as running:
        asyncio.run(drive(running.port, 50))  # loads what only turns need
        before = running.cpu_s
        times = asyncio.run(drive(running.port, TURNS))
        between = running.cpu_s
        each, seconds = asyncio.run(many(running.port, max(TURNS // 10, 5)))
        after = running.cpu_s
    return Costs(
        statistics.median(times), len(each) / seconds, (between - before) / len(times), (after - between) / len(each)
    )


def measure() -> list[Figure]:
    """Print the costs of each round; return the figures, none without BENCH_AGAINST."""
    if not AGAINST:
        print("BENCH_AGAINST=COMMIT compares with another commit: CPU a turn is left out")
        return []
    pairs = []
    with tempfile.TemporaryDirectory() as name:
        extract(AGAINST, Path(name))
        for _ in range(ROUNDS):
            pairs.append((costs(ROOT), costs(Path(name), AGAINST_PYTHON)))
            for what, cost in zip(("this checkout", AGAINST), pairs[-1], strict=True):
                print(
                    f"{what:<20} p50 {cost.p50 * 1e3:.2f} ms, {cost.rate:,.0f} turns/s, CPU of the server a turn "
                    f"{cost.alone_cpu_s * 1e3:.2f} ms alone, {cost.many_cpu_s * 1e3:.2f} ms in {SESSIONS} sessions"
                )
    return [
        Figure(name=f"{what} / {AGAINST}", must=0.6, aim=0.45, value=_median_ratio(pairs, field))
        for what, field in (
            ("server CPU a turn, one session", "alone_cpu_s"),
            (f"server CPU a turn, {SESSIONS} sessions", "many_cpu_s"),
        )
    ]


def _median_ratio(pairs: list[tuple[Costs, Costs]], field: str) -> float:
    return statistics.median(getattr(new, field) / getattr(old, field) for new, old in pairs)


if __name__ == "__main__":
    show_table(measure())
