"""Turns as streams beside turns as JSON, and with calls of a model kept beside none. Run by `make bench`; prints,
asserts nothing.

A turn takes a reply, asks the model for one utterance, puts a question and waits. The offline model is no language
model, so that nothing is kept of it; the scripted one says the same word by word, and its call is kept before and
after it is made, as any is. The floor is raw SQLite. The turns of a server come as JSON and as a stream
by turns.
"""

import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

from figures import line
from floors import sqlite_floor
from http_client import Connection
from measured_server import REPLY, server

SAID = "an utterance of an ordinary length, such as a model gives"
SCRIPT = f"""\
script: bench
phases:
  - phase: main
    topics:
      - topic: loop
        actions:
          - {{ai_say: "{SAID}", id: tell}}
          - {{ask: "What next?", id: ask}}
          - {{goto: loop, id: again}}
"""
REPLIES = f"replies: {{tell: ['{SAID}']}}\n"
TURNS = int(os.environ.get("BENCH_STREAM_TURNS", "300"))


async def drive(port: int, turns: int) -> tuple[list[float], list[float]]:
    """Seconds of each turn of two sessions, one answered as JSON and one as a stream."""
    connection = Connection("127.0.0.1", port)
    paths = []
    for _ in range(2):
        session = await connection.post("/api/sessions", {"userId": "bench", "scriptId": "bench"})
        paths.append(f"/api/sessions/{session['sessionId']}/messages")
    plain, streamed = [], []
    for _ in range(turns):
        start = time.perf_counter()
        answer = await connection.post(paths[0], {"content": REPLY})
        between = time.perf_counter()
        stream = await connection.stream(paths[1], {"content": REPLY})
        plain.append(between - start)
        streamed.append(time.perf_counter() - between)
        if answer["messages"][0]["content"] != SAID or b"event: turn" not in stream:
            raise RuntimeError(f"not the turn that is measured: {answer}, {stream!r}")
    await connection.close()
    return plain, streamed


def main() -> None:
    """Prints the figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        floor_times = sqlite_floor(folder / "floor.db", TURNS)
        floor = statistics.median(floor_times)
        print(line("raw SQLite (WAL, FULL), no HTTP", floor_times, floor))
        (folder / "replies.yaml").write_text(REPLIES)
        medians = {}
        for model, flag in (("offline", "offline"), ("scripted", f"scripted:{folder / 'replies.yaml'}")):
            own = folder / model
            own.mkdir()
            with server(own, {"bench.yaml": SCRIPT}, model=flag) as running:
                for kind, times in zip(("JSON", "stream"), asyncio.run(drive(running.port, TURNS)), strict=True):
                    medians[model, kind] = statistics.median(times)
                    print(line(f"{model} model, {kind}", times, floor))
        for what, one, other in (
            ("a stream beside JSON", ("offline", "stream"), ("offline", "JSON")),
            ("a call that is kept beside none", ("scripted", "JSON"), ("offline", "JSON")),
            ("a stream of words beside JSON", ("scripted", "stream"), ("scripted", "JSON")),
        ):
            print(f"{what:<34} {medians[one] / medians[other]:5.2f}x")


if __name__ == "__main__":
    main()
