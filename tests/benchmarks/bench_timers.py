"""Turns while many timers of one second fire. Run by `make bench`; prints, asserts nothing.

Sessions sleep until the same second. Other sessions get a message on schedule, before that second and from it until the
last timer has fired; their times before it are what the times after it are compared with.
"""

import asyncio
import itertools
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from figures import Figure, percentile, show_table
from http_client import Connection
from measured_server import SCRIPT, begin, server, timed_turn

TIMERS = int(os.environ.get("BENCH_TIMERS", "10000"))
CREATED_PER_S = 150  # a slow estimate, so that all sessions sleep before their second
CREATORS = 32
BEFORE_S = 15.0
FIRED_S = 300.0
TALKERS = 16
EVERY_S = 0.2
PAGE = 200
NAP = """\
cuebook: 1
script: nap
timezone: UTC
declare: [{var: due, type: datetime}]
actions:
  - wait: {until: =due}
  - say: Awake.
"""


async def create(port: int, due: datetime) -> None:
    """Create the sessions that sleep."""
    numbers = iter(range(TIMERS))
    body = {"scriptId": "nap", "initialVariables": {"due": f"{due:%Y-%m-%dT%H:%M:%S}"}}

    async def creator() -> None:
        connection = Connection("127.0.0.1", port)
        for number in numbers:
            await connection.post("/api/sessions", {"userId": f"user{number}", **body})
        await connection.close()

    await asyncio.gather(*(creator() for _ in range(CREATORS)))


async def talk(port: int, is_over: Callable[[], bool]) -> list[float]:
    """Return the seconds of the turns of sessions that get a message every EVERY_S seconds each."""

    async def one(number: int) -> list[float]:
        connection, times = Connection("127.0.0.1", port), list[float]()
        path = await begin(connection)
        start = time.monotonic() + number * EVERY_S / TALKERS
        for turn in itertools.count():
            if is_over():
                break
            await asyncio.sleep(max(0.0, start + turn * EVERY_S - time.monotonic()))
            times.append(await timed_turn(connection, path))
        await connection.close()
        return times

    return [each for times in await asyncio.gather(*map(one, range(TALKERS))) for each in times]


async def until_fired(port: int) -> float:
    """Return the seconds until no timer is left. Raises RuntimeError after FIRED_S."""
    connection, start = Connection("127.0.0.1", port), time.monotonic()
    while (await connection.get("/api/timers?limit=1"))["data"]:
        if time.monotonic() - start > FIRED_S:
            raise RuntimeError(f"timers are left after {FIRED_S:.0f} s")
        await asyncio.sleep(0.5)
    await connection.close()
    return time.monotonic() - start


async def turns_of_naps(port: int) -> list[int]:
    """Return the number of the last turn of each session that slept."""
    connection, turns, cursor = Connection("127.0.0.1", port), list[int](), ""
    while True:
        page = await connection.get(f"/api/sessions?scriptId=nap&limit={PAGE}{cursor}")
        turns += [each["turn"] for each in page["data"]]
        if page["nextCursor"] is None:
            await connection.close()
            return turns
        cursor = f"&cursor={page['nextCursor']}"


async def beside(port: int, work: Awaitable[float]) -> tuple[list[float], float]:
    """Return the times of turns while something is awaited, and its result."""
    task = asyncio.ensure_future(work)
    return await talk(port, task.done), await task


async def drive(port: int) -> list[Figure]:
    """Measure on a new server."""
    due = datetime.now(UTC) + timedelta(seconds=TIMERS / CREATED_PER_S + BEFORE_S + 5)
    await create(port, due)
    await asyncio.sleep(max(0.0, (due - datetime.now(UTC)).total_seconds() - BEFORE_S))
    before, _ = await beside(port, asyncio.sleep((due - datetime.now(UTC)).total_seconds() - 0.5, 0.0))
    await asyncio.sleep(max(0.0, (due - datetime.now(UTC)).total_seconds()))
    during, seconds = await beside(port, until_fired(port))
    turns = await turns_of_naps(port)
    if turns != [1] * TIMERS:
        raise RuntimeError(f"{len(turns)} sessions slept, {turns.count(1)} of them have one turn more")
    for name, times in (("before", before), ("while they fire", during)):
        p50, p95 = percentile(times, 0.5) * 1e3, percentile(times, 0.95) * 1e3
        print(f"{name:<18} {len(times):6} turns   p50 {p50:7.1f} ms   p95 {p95:7.1f} ms")
    print(f"{TIMERS} timers fired once each in {seconds:.1f} s: {TIMERS / seconds:.0f} per second")
    value = percentile(during, 0.95) / percentile(before, 0.95)
    return [Figure(name=f"turns while {TIMERS} timers fire, p95 to before", value=value, must=2.0)]


def measure() -> list[Figure]:
    """Print the times; return the figure. Raises RuntimeError if a timer did not fire once."""
    with (
        tempfile.TemporaryDirectory() as name,
        server(Path(name), {"bench.yaml": SCRIPT, "nap.yaml": NAP}) as running,
    ):
        return asyncio.run(drive(running.port))


if __name__ == "__main__":
    show_table(measure())
