"""Turns over HTTP beside LangGraph, raw SQLite and a DuckDB commit, by turns in the same run. Run by `make bench`.

A turn takes a reply, says three things, sets two variables and waits. LangGraph does the same in process, in an
environment of its own (`make bench` installs it). The floors commit rows of the same size, one transaction a turn,
without engine, HTTP or concurrency. Ratios are medians of rounds.
"""

import asyncio
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from figures import Figure, line, show_table
from floors import duckdb_floor, sqlite_floor
from http_client import Connection
from measured_server import ROOT, SESSIONS, MeasuredServer, drive, many, server

ROUNDS = 3
TURNS = int(os.environ.get("BENCH_TURNS", "700"))  # of one session in a round
PEER = ROOT / ".venv/peers/bin/python"
PEER_TIMEOUT_S = 300


def langgraph(folder: Path, turns: int) -> tuple[list[float], float]:
    """Return the seconds of each turn of LangGraph in one session, and the turns per second of SESSIONS sessions."""
    folder.mkdir()
    each = max(turns // 50, 2)
    arguments = [str(folder), str(max(turns // 4, 20)), str(SESSIONS), str(each)]
    finished = subprocess.run(
        [PEER, Path(__file__).with_name("langgraph_peer.py"), *arguments],
        env={"LANGSMITH_TRACING": "false", "PATH": os.environ["PATH"]},  # nothing is sent to other machines
        capture_output=True,
        check=True,
        timeout=PEER_TIMEOUT_S,
    )
    answer = json.loads(finished.stdout)
    return answer["one"], SESSIONS * each / answer["many_s"]


async def size_at_rest(running: MeasuredServer) -> int:
    """Return the bytes of the database after a compaction."""
    connection = Connection("127.0.0.1", running.port)
    await connection.post("/api/operations/compact", None)
    await connection.close()
    return sum(file.stat().st_size for file in running.data.iterdir() if file.is_file())


def measure_round(folder: Path, running: MeasuredServer) -> tuple[dict[str, float], int]:
    """Measure everything once, one after the other; return the ratios, and the turns of the server."""
    sqlite = sqlite_floor(folder / "floor.db", TURNS)
    floor = statistics.median(sqlite)
    times = asyncio.run(drive(running.port, TURNS))
    peer, peer_rate = langgraph(folder / "langgraph", TURNS)
    each, seconds = asyncio.run(many(running.port, max(TURNS // 15, 5)))
    committed = duckdb_floor(folder / "floor.duckdb", TURNS)
    rate, own, raw = len(each) / seconds, statistics.median(times), 1 / statistics.median(sqlite)
    print(line("raw SQLite (WAL, FULL), no HTTP", sqlite, floor))
    print(line("a DuckDB commit, no HTTP", committed, floor))
    print(line("one session of LangGraph, no HTTP", peer, floor))
    print(line("one session over HTTP", times, floor))
    print(line(f"{SESSIONS} sessions at once over HTTP", each, floor))
    print(
        f"{'durable turns/s':<34} {rate:,.0f}; LangGraph in {SESSIONS} threads {peer_rate:,.0f}; raw SQLite {raw:,.0f}"
    )
    ratios = {"peer": own / statistics.median(peer), "rate": rate / peer_rate, "raw": rate / raw}
    return ratios, len(times) + len(each)


def measure() -> list[Figure]:
    """Print the times of each round; return the figures."""
    rounds, turns = [], 0
    with tempfile.TemporaryDirectory() as name, server(Path(name)) as running:
        for number in range(ROUNDS):
            folder = Path(name, f"round{number}")
            folder.mkdir()
            ratios, done = measure_round(folder, running)
            rounds.append(ratios)
            turns += done
        size = asyncio.run(size_at_rest(running))
    median = {of: statistics.median(each[of] for each in rounds) for of in rounds[0]}
    return [
        Figure(name="one session over HTTP, p50 / LangGraph in process", value=median["peer"], must=0.4, aim=0.2),
        Figure(name=f"{SESSIONS} sessions, turns/s / LangGraph", value=median["rate"], must=15, aim=25, is_rate=True),
        Figure(
            name=f"{SESSIONS} sessions, turns/s / raw SQLite", value=median["raw"], must=0.25, aim=0.4, is_rate=True
        ),
        Figure(name="a turn at rest, after compaction", value=size / turns / 1e3, must=4, aim=3, unit="KB"),
    ]


if __name__ == "__main__":
    show_table(measure())
