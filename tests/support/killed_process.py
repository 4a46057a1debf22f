"""Start a process that writes to a database, and kill it at a given number of acknowledgements."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.paths import PROCESSES, ROOT


def start(script: str, folder: Path) -> subprocess.Popen[str]:
    """Start one of the programs in `processes` on a data folder."""
    return subprocess.Popen(
        [sys.executable, str(PROCESSES / script), str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def kill_after(writer: subprocess.Popen[str], acknowledgements: int) -> dict[str, int]:
    """Kill it at about that acknowledgement; return the last acknowledged turn of each of its sessions."""
    assert writer.stdout is not None
    lines = [writer.stdout.readline() for _ in range(acknowledgements + 1)]
    writer.send_signal(signal.SIGKILL)
    lines += writer.stdout.readlines()
    writer.wait()
    writer.stdout.close()
    complete = [line.split() for line in lines if line.endswith("\n") and line != "open\n"]
    return {session_id: int(turn) for session_id, turn in complete}
