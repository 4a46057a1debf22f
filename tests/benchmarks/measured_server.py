"""Servers that benchmarks measure, each a process of its own on this machine, and the turns that they are sent."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
from http_client import Connection

ROOT = Path(__file__).parents[2]
SCRIPT = """\
script: bench
declare:
  - {var: count, type: number, value: 0}
  - {var: last, type: text}
phases:
  - phase: main
    topics:
      - topic: loop
        actions:
          - {ask: "What next?", id: ask, output: [{get: last}]}
          - {set: {count: count + 1}, id: add}
          - {say: "That was reply number {{ count }}.", id: number}
          - {say: "You said: {{ last }}", id: echo}
          - {goto: loop, id: again}
"""
REPLY = "a reply of an ordinary length, such as people give"
SESSIONS = 64
START_S = 60.0
STOP_S = 30.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class MeasuredServer:
    """A running server."""

    port: int
    pid: int
    data: Path

    @property
    def cpu_s(self) -> float:
        """CPU seconds that the process has used so far, in all its threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


@contextlib.contextmanager
def server(
    folder: Path,
    scripts: Mapping[str, str] | None = None,
    *,
    model: str = "offline",
    code: Path = ROOT,
    python: str = sys.executable,
    **environment: str,
) -> Iterator[MeasuredServer]:
    """Start a server with these scripts (file name: text; by default SCRIPT), and stop it at the end.

    `folder` gets its scripts, data and log; `code` is the checkout whose code `python` runs; `environment` are further
    variables.
    """
    library = folder / "scripts"
    library.mkdir(parents=True, exist_ok=True)
    for name, text in (scripts or {"bench.yaml": SCRIPT}).items():
        (library / name).write_text(text, "utf-8")
    port, data = free_port(), folder / "data"
    flags = ["--port", str(port), "--data", str(data), "--scripts", str(library), "--model", model]
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [python, "-c", _program(code), "serve", *flags],
            cwd=folder,
            stderr=output,
            env={name: value for name, value in os.environ.items() if not name.startswith("CUEBOOK_")}
            | {"PYTHONPATH": str(code)}
            | environment,
        )
    try:
        _wait_until_ready(port, process, log)
        yield MeasuredServer(port, process.pid, data)
    finally:
        stop(process)


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextlib.contextmanager
def local_endpoint(words_per_s: float = 20, words: int = 1) -> Iterator[int]:
    """Start `local_endpoint.py`; yield its port."""
    port = free_port()
    program = str(Path(__file__).with_name("local_endpoint.py"))
    process = subprocess.Popen([sys.executable, program, str(port), str(words_per_s), str(words)])
    try:
        _wait_until_listening(port)
        yield port
    finally:
        stop(process)


def _wait_until_listening(port: int) -> None:
    until = time.monotonic() + START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return


def stop(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """End a process, by force if it does not end by itself."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _program(code: Path) -> str:
    """Return a program that runs the command `cuebook` of a checkout."""
    module, function = tomllib.loads((code / "pyproject.toml").read_text("utf-8"))["project"]["scripts"][
        "cuebook"
    ].split(":")
    return f"from {module} import {function}; {function}()"


def _wait_until_ready(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"http://127.0.0.1:{port}/ready").status_code == httpx.codes.OK:
                return
        time.sleep(0.05)
    raise RuntimeError(f"the server did not start, exit code {process.poll()}: {log.read_text('utf-8')}")


async def begin(connection: Connection, script: str = "bench") -> str:
    """Create a session; return the path of its messages."""
    session = await connection.post("/api/sessions", {"userId": "bench", "scriptId": script})
    return f"/api/sessions/{session['sessionId']}/messages"


async def timed_turn(connection: Connection, path: str, key: str | None = None) -> float:
    """Return the seconds of one turn."""
    start = time.perf_counter()
    await connection.post(path, {"content": REPLY}, key)
    return time.perf_counter() - start


async def drive(port: int, turns: int, script: str = "bench") -> list[float]:
    """Return the seconds of each turn of a new session."""
    connection = Connection("127.0.0.1", port)
    path = await begin(connection, script)
    times = [await timed_turn(connection, path) for _ in range(turns)]
    await connection.close()
    return times


async def many(port: int, turns_each: int, script: str = "bench") -> tuple[list[float], float]:
    """Drive SESSIONS new sessions at once; return the seconds of each turn, and of all together."""
    start = time.perf_counter()
    times = await asyncio.gather(*(drive(port, turns_each, script) for _ in range(SESSIONS)))
    return [each for some in times for each in some], time.perf_counter() - start
