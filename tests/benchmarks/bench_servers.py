"""Servers on one PostgreSQL database: turns with 1, 2 and 4 servers, beside one server with a database file, and beside
LangGraph with its Postgres saver in process. Run by `make bench`; prints, asserts nothing.

All run on this machine, PostgreSQL as well: with few cores, more servers share the same processors. The price of a turn
is the CPU of the servers and of PostgreSQL, and the bytes that it writes, so that the plan for more machines is
arithmetic (docs/explanation/capacity.md).
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import psycopg
from figures import Figure
from measured_server import SESSIONS, MeasuredServer, drive, server

from tests.support.postgres_server import PostgresServer, programs, running_server

TURNS_EACH = int(os.environ.get("BENCH_TURNS", "40"))
SERVERS = (1, 2, 4)
PEER = os.environ.get("BENCH_PEER", ".venv/peers/bin/python")
_TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def servers(folder: Path, url: str, number: int) -> Iterator[list[MeasuredServer]]:
    """Run servers on a database; the keys of the first one are the keys of all."""
    with ExitStack() as stack:
        keys = folder / "keys"
        keys.mkdir()
        yield [
            stack.enter_context(server(folder / str(each), CUEBOOK_DATABASE=url, CUEBOOK_KEY_FOLDER=str(keys)))
            for each in range(number)
        ]


async def many(ports: list[int], turns_each: int = TURNS_EACH) -> tuple[list[float], float]:
    """Drive SESSIONS new sessions at once, each on one of the servers; return the seconds of each turn, and of all."""
    start = time.perf_counter()
    times = await asyncio.gather(*(drive(ports[each % len(ports)], turns_each) for each in range(SESSIONS)))
    return [each for some in times for each in some], time.perf_counter() - start


def cpu_of(postgres: PostgresServer) -> float:
    """Return the CPU seconds of PostgreSQL: of its main process, those of its child processes that have ended, and of
    those that run.
    """
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, rest = stat.read_text("ascii", "replace").rpartition(")")
        except OSError:  # it has ended
            continue
        fields, is_main = rest.split(), head.startswith(f"{postgres.process.pid} ")
        if is_main or int(fields[1]) == postgres.process.pid:
            total += sum(map(int, fields[11 : 15 if is_main else 13]))
    return total / _TICKS


def bytes_of(url: str) -> tuple[int, int]:
    """Return the bytes of a database with its indexes, and of all that PostgreSQL has written to its log."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT pg_database_size(current_database()), pg_current_wal_lsn() - '0/0'").fetchone()
        assert row is not None
        return int(row[0]), int(row[1])


def measure_servers(postgres: PostgresServer, number: int) -> float:
    """Print what turns of so many servers cost; return their rate."""
    url = postgres.new_database()
    with tempfile.TemporaryDirectory() as name, servers(Path(name), url, number) as running:
        ports = [each.port for each in running]
        asyncio.run(many(ports, 5))
        before, before_database, before_bytes = sum(each.cpu_s for each in running), cpu_of(postgres), bytes_of(url)
        times, seconds = asyncio.run(many(ports))
        own = (sum(each.cpu_s for each in running) - before) / len(times)
        database = (cpu_of(postgres) - before_database) / len(times)
        at_rest, logged = (
            (after - before) / len(times) for after, before in zip(bytes_of(url), before_bytes, strict=True)
        )
    rate = len(times) / seconds
    p50, p95 = statistics.median(times), statistics.quantiles(times, n=20)[-1]
    print(
        f"{number} servers: {rate:,.0f} turns/s, p50 {p50 * 1e3:.1f} ms, p95 {p95 * 1e3:.1f} ms; CPU a turn: servers "
        f"{own * 1e3:.2f} ms, PostgreSQL {database * 1e3:.2f} ms; bytes a turn: {at_rest:,.0f}, in the log of "
        f"PostgreSQL {logged:,.0f}",
        flush=True,
    )
    return rate


def measure_file() -> float:
    """Print the rate of one server with a database file, and return it."""
    with tempfile.TemporaryDirectory() as name, server(Path(name)) as running:
        asyncio.run(many([running.port], 5))
        before = running.cpu_s
        times, seconds = asyncio.run(many([running.port]))
        cpu = (running.cpu_s - before) / len(times)
    print(f"database file: {len(times) / seconds:,.0f} turns/s, CPU a turn {cpu * 1e3:.2f} ms", flush=True)
    return len(times) / seconds


def measure_peer(postgres: PostgresServer) -> float | None:
    """Print the rate of LangGraph with its Postgres saver, and return it; None if it is not installed."""
    if not Path(PEER).exists():
        print("LangGraph is not installed: `make bench` installs it")
        return None
    turns_each = max(TURNS_EACH // 4, 3)
    arguments = [postgres.new_database("template1"), "20", str(SESSIONS), str(turns_each)]
    program = str(Path(__file__).with_name("langgraph_peer.py"))
    done = subprocess.run([PEER, program, *arguments], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    rate = SESSIONS * turns_each / found["many_s"]
    print(f"LangGraph with its Postgres saver, in process: {rate:,.0f} turns/s", flush=True)
    return rate


def measure_refresh(postgres: PostgresServer) -> float:
    """Print the p95 of turns without and with an analyst who asks again and again; return the ratio."""

    async def with_analyst(port: int) -> list[float]:
        is_over = asyncio.Event()

        async def ask() -> None:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
                while not is_over.is_set():
                    await client.post("/api/analytics/query", json={"sql": "SELECT count(*) FROM turns", "maxAge": 0})

        asking = asyncio.create_task(ask())
        times, _ = await many([port])
        is_over.set()
        await asking
        return times

    with tempfile.TemporaryDirectory() as name, servers(Path(name), postgres.new_database(), 1) as (running,):
        asyncio.run(many([running.port], 5))
        alone, _ = asyncio.run(many([running.port]))
        beside = asyncio.run(with_analyst(running.port))
    p95, p95_beside = (statistics.quantiles(times, n=20)[-1] for times in (alone, beside))
    print(f"p95 of a turn: {p95 * 1e3:.1f} ms; with an analyst's refreshes {p95_beside * 1e3:.1f} ms", flush=True)
    return p95_beside / p95


def measure() -> list[Figure]:
    """Print the rates; return the figures, none where there is no PostgreSQL."""
    found = programs()
    if found is None:
        print("PostgreSQL is not installed: its figures are left out")
        return []
    with running_server(found, options=()) as postgres:
        rates = {number: measure_servers(postgres, number) for number in SERVERS}
        of_file = measure_file()
        peer = measure_peer(postgres)
        refresh = measure_refresh(postgres)
    best = max(rates.values())
    figures = [
        Figure(name="servers on PostgreSQL / a database file, turns/s", must=0.3, value=best / of_file, is_rate=True),
        Figure(name="p95 of a turn with an analyst's refresh / without", must=1.5, value=refresh),
    ]
    if peer is not None:
        figures.append(
            Figure(name="servers / LangGraph with Postgres saver", must=8, aim=15, value=best / peer, is_rate=True)
        )
    return figures


if __name__ == "__main__":
    sys.exit(0 if measure() else 1)
