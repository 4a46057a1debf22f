"""Starts processes of `cuebook` as forks of one that has imported everything: each saves one to two seconds of CPU."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.support.paths import PROCESSES, ROOT


class Forked:
    """A process that is a child of the forker's, with the ways of Popen."""

    def __init__(self, connection: socket.socket) -> None:
        self.pid = int(connection.recv(32))
        self.returncode: int | None = None
        self._connection = connection

    def poll(self) -> int | None:
        """Return its exit code, or None while it runs."""
        ended = self.returncode is None and select.select([self._connection], [], [], 0)[0]
        return self.wait() if ended else self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code, once it has ended."""
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            with self._connection:
                self.returncode = int(self._connection.recv(32))
        return self.returncode

    def send_signal(self, which: signal.Signals) -> None:
        """Send a signal, unless the process has ended, whose exit code may still be on its way."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, which)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forker:
    """The process whose forks run the commands; it spares each of them the imports."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.address = f"{self._folder.name}/commands"
        command = [sys.executable, str(PROCESSES / "fork_commands.py"), self.address]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it listens

    def start(self, arguments: list[str], folder: Path, log: Path, environment: dict[str, str]) -> Forked:
        """Start a command of `cuebook`."""
        order = {"arguments": arguments, "folder": str(folder), "environment": environment}
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(self.address)
        with Path(os.devnull).open("rb") as nothing, log.open("ab") as output:
            streams = [nothing.fileno(), output.fileno(), output.fileno()]
            socket.send_fds(connection, [json.dumps(order).encode()], streams)
            return Forked(connection)

    def close(self) -> None:
        self._process.communicate(timeout=60)
        self._folder.cleanup()
