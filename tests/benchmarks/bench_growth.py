"""Whether turns become dearer as a session, or the number of sessions, grows. Run by `make bench`.

A session of many turns and a new one take turns alternately, as do a server with many sessions and a new server.
"""

import asyncio
import os
import tempfile
import time
from pathlib import Path

from figures import Figure, ratio, show_table
from http_client import Connection
from measured_server import SESSIONS, begin, server, timed_turn

LONG = int(os.environ.get("BENCH_LONG", "10000"))  # turns of the long session
CREATED = int(os.environ.get("BENCH_CREATED", "100000"))  # sessions of the full server
FILL_S = 240.0  # the longest time for creating them
EARLY = 100  # the turn of the new session
PAIRS = max(min(600, LONG // 10), 10)


async def long_session(port: int) -> float:
    """Return the cost of turns of the long session by that of turns around EARLY of new ones."""
    connection = Connection("127.0.0.1", port)
    path = await begin(connection)
    for _ in range(LONG):
        await timed_turn(connection, path)
    late, early = [], []
    while len(late) < PAIRS:
        new = await begin(connection)
        for _ in range(EARLY // 2):
            await timed_turn(connection, new)
        for _ in range(EARLY):
            late.append(await timed_turn(connection, path))
            early.append(await timed_turn(connection, new))
    await connection.close()
    return ratio(late, early)


async def fill(port: int) -> int:
    """Create CREATED sessions, or as many as FILL_S allows; return their number."""
    left, until, created = iter(range(CREATED)), time.monotonic() + FILL_S, 0

    async def create() -> None:
        nonlocal created
        connection = Connection("127.0.0.1", port)
        for _ in left:
            if time.monotonic() > until:
                break
            await begin(connection)
            created += 1
        await connection.close()

    await asyncio.gather(*(create() for _ in range(SESSIONS)))
    return created


async def new_sessions(full: int, empty: int) -> float:
    """Return the cost of a new session and its first turn on a full server by that on an empty one."""
    connections = [Connection("127.0.0.1", port) for port in (full, empty)]
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(PAIRS + 20):
        for connection, seconds in zip(connections, times, strict=True):
            start = time.perf_counter()
            await timed_turn(connection, await begin(connection))
            if number >= 20:  # both are warm
                seconds.append(time.perf_counter() - start)
    for connection in connections:
        await connection.close()
    return ratio(*times)


def measure() -> list[Figure]:
    """Print what is done; return the figures."""
    with tempfile.TemporaryDirectory() as name, server(Path(name, "full")) as full:
        print(f"a session of {LONG:,} turns")
        turns = asyncio.run(long_session(full.port))
        start = time.perf_counter()
        created = asyncio.run(fill(full.port))
        print(f"{created:,} sessions created in {time.perf_counter() - start:.0f} s")
        with server(Path(name, "empty")) as empty:
            sessions = asyncio.run(new_sessions(full.port, empty.port))
    return [
        Figure(name=f"turn {LONG:,} / turn {EARLY} of a session", value=turns, must=1.05),
        Figure(name=f"session {created:,} / the first", value=sessions, must=1.05),
    ]


if __name__ == "__main__":
    show_table(measure())
