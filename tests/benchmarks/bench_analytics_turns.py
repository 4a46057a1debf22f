"""Turns over HTTP with and without an analyst's heavy queries at the same time. Prints, asserts nothing.

Both are measured in turns within one run, round by round, so that what else the machine does is in both. The queries
are run by the server in a process of their own: one that is stopped after a while, and then short ones after each
other, before each of which the analytics are brought up to date with the turns taken meanwhile.
"""

import asyncio
import os
import statistics
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from bench_turns import drive, server

TURNS = int(os.environ.get("BENCH_TURNS", "1000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
TIMEOUT_S = 10.0
QUERIES = {
    "a query that does not end": """
        SELECT action_id, count(*), sum(hash(seq, range)), approx_count_distinct(hash(session_id, range))
        FROM action_visits, range(1_000_000_000) GROUP BY ALL""",
    "a query of some seconds, again and again": """
        SELECT action_id, count(*), sum(hash(range)), approx_count_distinct(hash(range))
        FROM (FROM action_visits LIMIT 10), range(2_000_000) GROUP BY ALL""",
}


@asynccontextmanager
async def asked(port: int, sql: str) -> AsyncIterator[list[float]]:
    """An analyst asks this all the time meanwhile; gives how long each answer took."""
    times: list[float] = []
    over = asyncio.Event()

    async def ask() -> None:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=4 * TIMEOUT_S) as client:
            while not over.is_set():
                answer = await client.post("/api/analytics/query", json={"sql": sql, "timeoutS": TIMEOUT_S})
                if answer.status_code not in {200, 422}:  # 422: it took its time, and was stopped
                    raise RuntimeError(answer.json()["error"]["message"])
                times.append(answer.elapsed.total_seconds())

    asking = asyncio.create_task(ask())
    await asyncio.sleep(2.0)  # until it is under way
    yield times
    over.set()
    await asking


def percentile(times: list[float], share: float) -> float:
    """In milliseconds."""
    return sorted(times)[int(len(times) * share)] * 1e3


async def compare(port: int, name: str, sql: str) -> None:
    """Prints the turns of some rounds without the query and with it, and how they compare."""
    without: list[float] = []
    beside: list[float] = []
    answers: list[float] = []
    ratios: list[float] = []
    for _ in range(ROUNDS):
        alone = await drive(port, TURNS)
        async with asked(port, sql) as answered:
            together = await drive(port, TURNS)
        without += alone
        beside += together
        answers += answered
        ratios.append(percentile(together, 0.95) / percentile(alone, 0.95))
    print(name)
    for label, times in (("turns without it", without), ("turns beside it", beside)):
        print(f"  {label:<20} p50 {percentile(times, 0.5):6.2f} ms   p95 {percentile(times, 0.95):6.2f} ms")
    p50 = percentile(beside, 0.5) / percentile(without, 0.5)
    p95 = percentile(beside, 0.95) / percentile(without, 0.95)
    print(f"  {'beside / without':<20} p50 {p50:6.2f}      p95 {p95:6.2f}      (goal 1.5)", end="   ")
    print(f"p95 round by round: {' '.join(f'{each:.2f}' for each in ratios)}")
    if answers:
        print(f"  {len(answers)} answers meanwhile, each in {statistics.median(answers):.1f} s")


async def run(port: int) -> None:
    """All of it."""
    await drive(port, TURNS)  # something to ask about, and a server that is warm
    for name, sql in QUERIES.items():
        await compare(port, name, sql)


def main() -> None:
    """Prints the figures."""
    with tempfile.TemporaryDirectory() as folder, server(Path(folder)) as port:
        asyncio.run(run(port))


if __name__ == "__main__":
    main()
