"""Killed at any moment, an index is there as it was before or after; what was removed stays so, nothing is missing."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.effort import repeats
from tests.support.paths import PROCESSES, ROOT

KILLS = repeats(20)


def deaths(folder: Path, how: str, count: int) -> list[tuple[str, str]]:
    """Return how each process ended, and what it left."""
    script = PROCESSES / "change_index.py"
    command = [sys.executable, str(script), str(folder), how, str(count)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.split(" ", 1) for line in done.stdout.splitlines()]
    assert len(lines) == count
    return [(ending, left) for ending, left in lines]


@pytest.mark.slow
def test_kills_at_any_moment(tmp_path: Path) -> None:
    left = deaths(tmp_path, "kill", KILLS)
    assert {ending for ending, _ in left} == {"-9"}
    assert [outcome for _, outcome in left if not outcome.startswith("good")] == []
    in_the_middle = sum(outcome not in {"good, 0 files", "good, 3 files"} for _, outcome in left)
    assert in_the_middle >= KILLS / 20


@pytest.mark.slow
def test_a_death_at_every_step_of_a_save(tmp_path: Path) -> None:
    left = deaths(tmp_path, "step", 30)
    assert [outcome for _, outcome in left if not outcome.startswith("good")] == []
    endings = Counter(ending for ending, _ in left)
    assert endings.keys() == {"0", "3"}
    assert endings["3"] >= 10
    assert left[-1] == ("0", "good, 3 files")


@pytest.mark.gate
def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    left = deaths(tmp_path, "disk", 20)
    assert [outcome for _, outcome in left if not outcome.startswith("good")] == []
    assert {ending for ending, _ in left} == {"0", "4"}
