"""Turns over HTTP beside the floor of raw SQLite in the same run. Run by `make bench`; prints, asserts nothing.

A turn takes a reply, says three things, sets two variables and waits. The floor commits the same message rows and
state with SQLite (WAL, synchronous=FULL), one transaction a turn, without engine, HTTP or concurrency.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
from http_client import Connection

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
TURNS = int(os.environ.get("BENCH_TURNS", "2000"))
SESSIONS = 64
REPLY = "a reply of an ordinary length, such as people give"


@contextlib.contextmanager
def server(folder: Path, script: str = SCRIPT, model: str = "offline") -> Iterator[int]:
    """A server of its own on a free port."""
    scripts = folder / "scripts"
    scripts.mkdir()
    (scripts / "bench.yaml").write_text(script)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).parent / "cuebook"), "serve", "--port", str(port)]
    command += ["--data", str(folder / "data"), "--scripts", str(scripts), "--model", model]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with contextlib.suppress(httpx.TransportError):
                httpx.get(f"http://127.0.0.1:{port}/ready")
                break
            time.sleep(0.05)
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


async def drive(port: int, turns: int) -> list[float]:
    """Seconds of each turn of one session."""
    connection = Connection("127.0.0.1", port)
    session = await connection.post("/api/sessions", {"userId": "bench", "scriptId": "bench"})
    path = f"/api/sessions/{session['sessionId']}/messages"
    times = []
    for _ in range(turns):
        start = time.perf_counter()
        await connection.post(path, {"content": REPLY})
        times.append(time.perf_counter() - start)
    await connection.close()
    return times


def sqlite_floor(folder: Path, turns: int) -> list[float]:
    """Seconds of each turn's rows in SQLite."""
    connection = sqlite3.connect(folder / "floor.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE messages (session TEXT, turn INT, role TEXT, content TEXT)")
    connection.execute("CREATE TABLE states (session TEXT, turn INT, state TEXT)")
    times = []
    for turn in range(turns):
        start = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        rows = [("s", turn, "user", REPLY), ("s", turn, "ai", REPLY), ("s", turn, "ai", REPLY), ("s", turn, "ai", "?")]
        connection.executemany("INSERT INTO messages VALUES (?, ?, ?, ?)", rows)
        connection.execute("INSERT INTO states VALUES (?, ?, ?)", ("s", turn, "x" * 1_200))
        connection.execute("COMMIT")
        times.append(time.perf_counter() - start)
    connection.close()
    return times


def line(name: str, times: list[float], floor: float) -> str:
    """Median, 95th percentile and ratio to the floor's median."""
    ordered = sorted(times)
    p50, p95 = statistics.median(ordered), ordered[int(len(ordered) * 0.95)]
    return f"{name:<34} p50 {p50 * 1e3:7.2f} ms   p95 {p95 * 1e3:7.2f} ms   {p50 / floor:6.1f}x the floor"


async def many(port: int, turns_each: int) -> tuple[list[float], float]:
    """All times of 64 sessions driven at once, and the seconds it took."""
    start = time.perf_counter()
    times = await asyncio.gather(*(drive(port, turns_each) for _ in range(SESSIONS)))
    return [each for some in times for each in some], time.perf_counter() - start


def main() -> None:
    """Prints the figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        floor_times = sqlite_floor(folder, TURNS)
        floor = statistics.median(floor_times)
        print(line("raw SQLite (WAL, FULL), no HTTP", floor_times, floor))
        with server(folder) as port:
            times = asyncio.run(drive(port, TURNS))
            tenth = max(len(times) // 10, 1)
            print(line("one session over HTTP", times, floor))
            print(line(f"  its first {tenth} turns", times[:tenth], floor))
            print(line(f"  its last {tenth} turns", times[-tenth:], floor))
            each, seconds = asyncio.run(many(port, max(TURNS // 10, 10)))
            print(line(f"{SESSIONS} sessions at once over HTTP", each, floor))
            rate = len(each) / seconds
            print(f"{'':<34} {rate:,.0f} durable turns/s   {rate * floor:.2f} of the floor's {1 / floor:,.0f}/s")
        size = sum(file.stat().st_size for file in (folder / "data").iterdir())
        print(f"{'on disk':<34} {size / (TURNS + len(each)) / 1e3:7.2f} KB a turn")


if __name__ == "__main__":
    main()
