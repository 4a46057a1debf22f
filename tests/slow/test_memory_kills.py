"""kill -9 in the midst of work on a memory: nothing that was added is lost, nothing that was removed comes back, and in
the end every unit has its vector, and the index finds what is nearest.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.effort import repeats
from tests.support.paths import PROCESSES, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

KILLS = repeats(4) * 5  # it looks after each fifth


def test_work_that_is_killed_is_done_after_all(tmp_path: Path) -> None:
    script = PROCESSES / "change_memory.py"
    command = [sys.executable, str(script), str(tmp_path), str(KILLS)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=550, check=False)
    assert done.returncode == 0, done.stderr
    looks = [line for line in done.stdout.splitlines() if line.startswith(("good", "bad"))]
    assert [line for line in looks if line.startswith("bad")] == [], done.stderr
    assert len(looks) == KILLS // 5
    assert looks[-1].endswith("an index")
