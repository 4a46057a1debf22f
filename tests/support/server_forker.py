"""Starts server processes as forks of one process that has imported everything: each start saves two seconds of CPU."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.paths import PROCESSES, ROOT


class Forked:
    """A process that is a child of the forker's, with the ways of Popen."""

    def __init__(self, pid: int, reap: Callable[[int], int]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._reap = reap
        self._descriptor = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Return its exit code, or None while it runs."""
        ended = self.returncode is None and select.select([self._descriptor], [], [], 0)[0]
        return self.wait() if ended else self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code, once it has ended."""
        if self.returncode is None:
            if not select.select([self._descriptor], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            os.close(self._descriptor)
            self.returncode = self._reap(self.pid)
        return self.returncode

    def send_signal(self, which: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, which)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forker:
    """The process whose forks the servers are; it spares each of them the imports."""

    def __init__(self) -> None:
        command = [sys.executable, str(PROCESSES / "fork_servers.py")]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environment
        )

    def start(self, arguments: list[str], folder: Path, log: Path, environment: dict[str, str]) -> Forked:
        """Start a command of `cuebook`."""
        order = {"arguments": arguments, "folder": str(folder), "log": str(log), "environment": environment}
        return Forked(self._answer(order), self._reap)

    def _reap(self, pid: int) -> int:
        return self._answer({"reap": pid})

    def _answer(self, order: dict[str, Any]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=60)
