"""What a backup costs: its time beside a copy of the file, and how long turns take while it is written.

Run by `make bench`; prints, asserts nothing. BENCH_STORE_TURNS sets the number of turns in the database. The baselines
are a copy of the closed file with a sync, and the turns of the same sessions without a backup.
"""

import asyncio
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from store.interface.private_files import FILE_NAME, sync
from store.open_store import open_store
from store.store import Store
from tests.benchmarks.bench_store_size import fill
from tests.support.store_rows import Conversation

TURNS = int(os.environ.get("BENCH_STORE_TURNS", "200000"))
SESSIONS = 8
PAUSE_S = 0.02  # between two turns of a session
ALONE_S = 5.0


async def talk(store: Store, conversation: Conversation, times: list[float]) -> None:
    """Commit turn after turn, and note how long each takes, in seconds."""
    while True:
        start = time.perf_counter()
        await conversation.say(store)
        times.append(time.perf_counter() - start)
        await asyncio.sleep(PAUSE_S)


def shown(times: list[float]) -> str:
    """Return the median and the 95th percentile in milliseconds."""
    percentiles = statistics.quantiles(times, n=20)
    return f"p50 {1_000 * percentiles[9]:6.2f} ms   p95 {1_000 * percentiles[18]:6.2f} ms   {len(times)} turns"


async def measure(folder: Path) -> None:
    """Print the figures."""
    start = time.perf_counter()
    shutil.copyfile(folder / FILE_NAME, folder / "copy")
    sync(folder / "copy")
    copied = time.perf_counter() - start
    store = open_store(folder)
    conversations = [Conversation() for _ in range(SESSIONS)]
    for conversation in conversations:
        await conversation.create(store)
    times: list[float] = []
    talking = [asyncio.create_task(talk(store, each, times)) for each in conversations]
    await asyncio.sleep(ALONE_S)
    alone, start = times[:], time.perf_counter()
    times.clear()
    size = await store.maintenance.back_up(folder / "backup")
    backed_up, beside = time.perf_counter() - start, times[:]
    for task in talking:
        task.cancel()
    await asyncio.gather(*talking, return_exceptions=True)
    await store.close()
    ratio = backed_up / copied
    print(f"backup of {TURNS:,} turns, {size / 1e6:.0f} MB: {backed_up:.1f} s, {ratio:.1f} x a copy of the file")
    print(f"  turns without it   {shown(alone)}")
    print(f"  turns beside it    {shown(beside)}")
    p95, p95_alone = (statistics.quantiles(each, n=20)[18] for each in (beside, alone))
    print(f"  p95 beside it / without it: {p95 / p95_alone:.2f}")


def main() -> None:
    """Fill a database and measure."""
    with tempfile.TemporaryDirectory() as name:
        fill(Path(name), TURNS // 10, TURNS)
        asyncio.run(measure(Path(name)))


if __name__ == "__main__":
    main()
