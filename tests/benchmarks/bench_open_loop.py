"""Answers at 60 % of the peak, sent on schedule whatever the server does, with checkpoints. Run by `make bench`.

BENCH_OPEN_LOOP_S is the duration: a minute, unless it says otherwise; ten are the measurement that counts. The slowest
answers are printed with what else happened meanwhile: a checkpoint (DuckDB's log became shorter), a delay of this
process (it was not run when it wanted to be), or a disk that was slow for others too.
"""

import asyncio
import gc
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from figures import Figure, percentile, show_table
from http_client import Connection
from measured_server import SESSIONS, begin, many, server, timed_turn

SECONDS = float(os.environ.get("BENCH_OPEN_LOOP_S", "60"))
SHARE = 0.6
CONVERSATIONS = 4 * SESSIONS  # so that a session is hardly ever busy when it is its turn
PEAK_TURNS = 100  # of each session
LOOK_S = 0.005
LATE_S = 0.02
SYNC_EVERY_S = 0.1
SHOWN = 5


@dataclass
class Watch:
    """What happened during the run, as times of the monotonic clock."""

    log: Path
    checkpoints: list[float] = field(default_factory=list)
    late: list[tuple[float, float]] = field(default_factory=list)  # from, to
    syncs: list[tuple[float, float]] = field(default_factory=list)

    async def run(self) -> None:
        """Look at the log every LOOK_S seconds until cancelled."""
        size, then = 0, time.perf_counter()
        while True:
            await asyncio.sleep(LOOK_S)
            now = time.perf_counter()
            if now - then > LOOK_S + LATE_S:
                self.late.append((then, now))
            then, before = now, size
            size = self.log.stat().st_size if self.log.exists() else 0
            if size < before:
                self.checkpoints.append(now)

    async def run_disk(self) -> None:
        """Sync a small file of the same disk every SYNC_EVERY_S seconds until cancelled."""
        with self.log.with_name("synced").open("wb", buffering=0) as file:
            while True:
                await asyncio.sleep(SYNC_EVERY_S)
                file.write(b"x")
                then = time.perf_counter()
                await asyncio.to_thread(os.fsync, file.fileno())
                self.syncs.append((then, time.perf_counter()))

    def causes(self, start: float, end: float) -> str:
        """Return what happened between two times."""
        causes = ["a checkpoint"] if any(start <= at <= end + LOOK_S for at in self.checkpoints) else []
        for what, spans in (("this process late", self.late), ("a sync of another file", self.syncs)):
            longest = max((to - since for since, to in spans if since < end and to > start), default=0.0)
            if longest > LATE_S:
                causes.append(f"{what}: {longest * 1e3:.0f} ms")
        return ", ".join(causes) or "none of these"


async def open_loop(port: int, rate: float, watch: Watch) -> list[tuple[float, float]]:
    """Send turns at `rate` for SECONDS; return when each was due, and the seconds from then to its answer."""
    idle: asyncio.Queue[tuple[Connection, str]] = asyncio.Queue()
    for _ in range(CONVERSATIONS):
        connection = Connection("127.0.0.1", port)
        idle.put_nowait((connection, await begin(connection)))
    answers: list[tuple[float, float]] = []

    async def turn(due: float) -> None:
        connection, path = await idle.get()
        await timed_turn(connection, path)
        answers.append((due, time.perf_counter() - due))
        idle.put_nowait((connection, path))

    watching = [asyncio.create_task(each) for each in (watch.run(), watch.run_disk())]
    begun, running = time.perf_counter(), set()
    for number in range(int(rate * SECONDS)):
        due = begun + number / rate
        await asyncio.sleep(due - time.perf_counter())
        task = asyncio.create_task(turn(due))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)
    for task in watching:
        task.cancel()
    while not idle.empty():
        await idle.get_nowait()[0].close()
    return answers


def show(answers: Sequence[tuple[float, float]], watch: Watch) -> None:
    """Print the distribution and the slowest answers."""
    times = [seconds for _, seconds in answers]
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
    print(", ".join(f"{name} {percentile(times, share) * 1e3:.1f} ms" for name, share in shares.items()), end="; ")
    print(
        f"{len(watch.checkpoints)} checkpoints, this process late {len(watch.late)} times, "
        f"a sync at most {max((to - since for since, to in watch.syncs), default=0.0) * 1e3:.0f} ms"
    )
    for sent, seconds in sorted(answers, key=lambda answer: -answer[1])[:SHOWN]:
        at = sent - answers[0][0]
        print(f"  {seconds * 1e3:6.1f} ms, {at:5.1f} s after the start, with: {watch.causes(sent, sent + seconds)}")


def measure() -> list[Figure]:
    """Print the distribution; return the figure."""
    with tempfile.TemporaryDirectory() as name, server(Path(name)) as running:
        each, seconds = asyncio.run(many(running.port, PEAK_TURNS))
        rate = SHARE * len(each) / seconds
        print(f"peak {rate / SHARE:,.0f} turns/s; {rate:,.0f} turns/s for {SECONDS:.0f} s")
        (log,) = running.data.glob("*.wal")
        watch = Watch(log)
        gc.freeze()
        gc.disable()  # pauses of this process would count as those of the server
        try:
            answers = asyncio.run(open_loop(running.port, rate, watch))
        finally:
            gc.enable()
    show(answers, watch)
    times = [seconds for _, seconds in answers]
    beyond = (max(times) - statistics.median(times)) * 1e3
    return [
        Figure(
            name=f"{SECONDS:.0f} s at {SHARE:.0%} of the peak: max beyond p50",
            value=beyond,
            must=100,
            aim=50,
            unit="ms",
        )
    ]


if __name__ == "__main__":
    show_table(measure())
