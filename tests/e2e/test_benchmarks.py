"""Benchmarks run, each as a small version of itself; what they measure is not looked at."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SMALL = {
    "BENCH_BLOCKS": "1",
    "BENCH_CREATED": "20",
    "BENCH_LONG": "20",
    "BENCH_OPEN_LOOP_S": "1",
    "BENCH_OPEN_STREAMS": "50",
    "BENCH_SPEAKING_S": "1",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "figures"), [("features", 4), ("growth", 2), ("open_loop", 1), ("open_streams", 1), ("check", 1)]
)
def test_a_benchmark_ends_with_a_table_of_its_figures(name: str, figures: int) -> None:
    finished = subprocess.run(
        [sys.executable, BENCHMARKS / f"bench_{name}.py"],
        env=os.environ | SMALL,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert finished.returncode == 0, finished.stderr
    table = finished.stdout.partition("\nfigure ")[2].splitlines()[1:]
    assert len(table) == figures
    assert {row.split()[-1] for row in table} <= {"aim", "must", "MISSED"}


@pytest.mark.slow
def test_the_path_of_a_message_is_printed() -> None:
    finished = subprocess.run(
        [sys.executable, BENCHMARKS / "trace_turn.py"], capture_output=True, text=True, timeout=120
    )
    assert finished.returncode == 0, finished.stderr
    assert "9 frames" in finished.stdout and "runtime/actions/statements.py:say" in finished.stdout
