"""`cuebook serve` as a process of its own."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import httpx

from tests.support.api_client import ApiClient
from tests.support.data_folders import is_postgres_chosen, url_of
from tests.support.paths import CONVERSATIONS, CUEBOOK
from tests.support.ports import free_port

START_S = 60.0  # of a busy machine


class Process(Protocol):
    """What tests use of `subprocess.Popen`."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: signal.Signals, /) -> None: ...

    def kill(self) -> None: ...


StartProcess: TypeAlias = Callable[[list[str], Path, Path, dict[str, str]], Process]
"""Start `cuebook` with these arguments, in this folder, with this log file and this environment."""


def start_cuebook(
    arguments: list[str], folder: Path, log: Path, environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    """Start a command of `cuebook` as a shell would."""
    with log.open("ab") as output:
        return subprocess.Popen([CUEBOOK, *arguments], stdout=output, stderr=output, cwd=folder, env=environment)


class ServerProcess:
    """`cuebook serve` on a free port of this machine."""

    def __init__(self, folder: Path, *flags: str, start: StartProcess, **environment: str) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = folder / "server.log"
        places = ["--port", str(self.port), "--data", str(folder / "data"), "--scripts", str(CONVERSATIONS)]
        arguments = ["serve", *places, *flags]
        database = {"CUEBOOK_DATABASE": url_of(folder / "data")} if is_postgres_chosen() else {}
        self.process = start(arguments, folder, self._log, clean_environment() | database | environment)

    async def ready(self) -> None:
        """Wait until the server answers; fail with its log if it ends instead."""
        async with asyncio.timeout(START_S), self.client() as client:
            while True:
                assert self.process.poll() is None, self.log
                try:
                    await client.get("/health")
                except httpx.TransportError:
                    await asyncio.sleep(0.01)
                else:
                    return

    async def unready(self) -> None:
        """Wait until the server says that it takes no more turns."""
        async with asyncio.timeout(START_S), self.client() as client:
            while (await client.get("/ready")).status_code != 503:  # noqa: ASYNC110  (the server acts)
                await asyncio.sleep(0.01)

    def client(self, **options: Any) -> ApiClient:
        """Return a client of this server."""
        return ApiClient(base_url=self.url, timeout=START_S, verify=False, **options)

    async def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for the end of the process; return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        return await asyncio.to_thread(self.process.wait, START_S)

    @property
    def log(self) -> str:
        """Return what the server logged."""
        return self._log.read_text("utf-8")


def clean_environment() -> dict[str, str]:
    """Return the environment without settings of Cuebook."""
    return {name: value for name, value in os.environ.items() if not name.startswith("CUEBOOK_")}
