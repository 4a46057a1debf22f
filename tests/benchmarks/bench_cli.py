"""CPU time of commands that must start fast, beside `python -c pass` in the same run: medians of five processes."""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

RUNS = 5
CUEBOOK = str(Path(sys.executable).with_name("cuebook"))
SIMULATE = [CUEBOOK, "simulate", "--sessions", "2", "--days", "2", "--seed", "1", "--data", "cuebook-data"]
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "cuebook --help": [CUEBOOK, "--help"],
    "cuebook sessions --help": [CUEBOOK, "sessions", "--help"],
    "cuebook sessions list": [CUEBOOK, "sessions", "list"],
    "cuebook check SCRIPT": [CUEBOOK, "check", str(Path(__file__).parents[2] / "scripts/library/intake.yaml")],
}


def cpu_s(command: list[str], folder: str) -> float:
    """Return the CPU seconds of one process, user and system."""
    before = os.times()
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=60)
    after = os.times()
    used: float = after.children_user - before.children_user + after.children_system - before.children_system
    return used


def run() -> None:
    """Print a line a command: seconds, and how many times the bare interpreter that is."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(SIMULATE, cwd=folder, capture_output=True, check=True, timeout=120)
        base = None
        for name, command in COMMANDS.items():
            median = statistics.median(cpu_s(command, folder) for _ in range(RUNS))
            base = base or max(median, 0.001)
            print(f"{name:26} {median:6.2f} s CPU {median / base:7.1f} x")


if __name__ == "__main__":
    run()
