"""The delay of a word by the server, with many streams open of which some speak. Run by `make bench`.

The endpoint of the model is a process of its own; a word is the time when it was written, and its delay ends when this
process has read the event with it. The other streams are event streams of sessions in which nothing happens.
"""

import asyncio
import os
import re
import statistics
import tempfile
import time
from pathlib import Path

from figures import Figure, percentile, show_table
from http_client import Connection
from measured_server import REPLY, begin, local_endpoint, server

STREAMS = int(os.environ.get("BENCH_OPEN_STREAMS", "1000"))
SPEAKING = STREAMS // 5
WORDS_PER_S = 20
SECONDS = float(os.environ.get("BENCH_SPEAKING_S", "20"))
WORDS = int(WORDS_PER_S * SECONDS)
OPENED_AT_A_TIME, OPENED_S = 20, 30.0
SETTLED_S = 2.0  # after the first word of all: prompts, first calls and new connections are over
SCRIPT = """\
script: bench
phases:
  - phase: main
    topics:
      - topic: loop
        actions:
          - {ask: "What next?", id: ask}
          - {ai_say: "Talk.", id: talk}
          - {goto: loop, id: again}
"""


async def listen(port: int) -> tuple[list[tuple[float, float]], int]:
    """Return of each word when it was written and its delay, in seconds; and how many silent streams were open."""
    heard: list[tuple[float, float]] = []

    async def silent(begun: asyncio.Event) -> None:
        connection = Connection("127.0.0.1", port)
        path = (await begin(connection)).removesuffix("/messages")
        begun.set()
        async for _ in connection.chunks("GET", f"{path}/events"):
            pass

    async def speaking() -> None:
        connection, rest = Connection("127.0.0.1", port), b""
        async for chunk in connection.chunks("POST", await begin(connection), {"content": REPLY}):
            now = time.monotonic()
            *events, rest = (rest + chunk).split(b"\n\n")
            for event in events:
                if b"event: message.delta" in event:
                    written = (int(word) / 1e6 for word in re.findall(rb"\d{15}", event))
                    heard.extend((at, now - at) for at in written)
        await connection.close()

    quiet: list[asyncio.Task[None]] = []
    while len(quiet) < STREAMS - SPEAKING:
        events = [asyncio.Event() for _ in range(OPENED_AT_A_TIME)]
        quiet += [asyncio.create_task(silent(event)) for event in events]
        async with asyncio.timeout(OPENED_S):
            await asyncio.gather(*(event.wait() for event in events))
    await asyncio.sleep(SETTLED_S)
    await asyncio.gather(*(speaking() for _ in range(SPEAKING)))
    open_still = sum(not task.done() for task in quiet)
    for task in quiet:
        task.cancel()
    await asyncio.gather(*quiet, return_exceptions=True)
    return heard, open_still


def measure() -> list[Figure]:
    """Print the delays; return the figure. Raises RuntimeError if words or streams are missing."""
    with (
        local_endpoint(WORDS_PER_S, WORDS) as port,
        tempfile.TemporaryDirectory() as name,
        server(
            Path(name),
            {"bench.yaml": SCRIPT},
            model="openai:words",
            CUEBOOK_MODEL_URL=f"http://127.0.0.1:{port}/v1",
            CUEBOOK_MODEL_KEY="none",
            CUEBOOK_MODEL_CONCURRENCY=str(SPEAKING),
        ) as running,
    ):
        before = running.cpu_s
        heard, silent = asyncio.run(listen(running.port))
        cpu = running.cpu_s - before
    if len(heard) < SPEAKING * WORDS or silent != STREAMS - SPEAKING:
        raise RuntimeError(f"{len(heard)} of {SPEAKING * WORDS} words were heard, {silent} silent streams were open")
    begun = min(written for written, _ in heard) + SETTLED_S
    delays = [delay for written, delay in heard if written > begun] or [delay for _, delay in heard]
    p50, p95, p99 = statistics.median(delays), percentile(delays, 0.95), percentile(delays, 0.99)
    print(f"{STREAMS:,} open streams, {SPEAKING} with {WORDS_PER_S} words/s; CPU of the server {cpu:.1f} s")
    shares = {"p50": p50, "p95": p95, "p99": p99, "max": max(delays)}
    print("a word's delay: " + ", ".join(f"{name} {delay * 1e3:.1f} ms" for name, delay in shares.items()))
    return [Figure(name=f"{STREAMS:,} streams: a word's delay, p95", value=p95 * 1e3, must=50, aim=20, unit="ms")]


if __name__ == "__main__":
    show_table(measure())
