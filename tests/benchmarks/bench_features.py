"""Turns that use a feature beside plain ones, alternately in blocks. Run by `make bench`.

The features are globals that every turn writes, sessions that are loaded for every turn with idempotency keys, and
webhooks: one that is never sent anything, and one that receives every turn.

A figure is the time at the client, which the user waits. The CPU of the server is printed beside it: it includes what
happens after the answer, such as the signed requests to the receiver, but not the receiver, which shares the machine.
"""

import asyncio
import contextlib
import itertools
import os
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from figures import Figure, line, ratio, show_table
from http_client import Connection
from measured_server import SCRIPT, MeasuredServer, begin, local_endpoint, server, timed_turn

BLOCK = 25  # turns
BLOCKS = int(os.environ.get("BENCH_BLOCKS", "16"))
SETTLED_S = 0.6  # after a block, for its deliveries
GLOBALS = """\
globals:
  - {var: count, type: number, value: 0}
  - {var: last, type: text}
"""
WITH_GLOBALS = SCRIPT.replace("script: bench\n", "script: globals\nuse: [globals.yaml]\n").replace(
    SCRIPT[SCRIPT.index("declare:") : SCRIPT.index("phases:")], ""
)
SCRIPTS = {"bench.yaml": SCRIPT, "with_globals.yaml": WITH_GLOBALS, "globals.yaml": GLOBALS}


class Turns:
    """Turns of sessions of a server, one session after the other, their seconds, and the CPU seconds of the server."""

    def __init__(self, on: MeasuredServer, script: str = "bench", sessions: int = 1, *, keys: bool = False) -> None:
        self.seconds: list[float] = []
        self.cpu_s = 0.0
        self._server = on
        self._connection = Connection("127.0.0.1", on.port)
        self._script, self._sessions, self._keys = script, sessions, keys
        self._paths: Iterator[str] | None = None

    async def block(self) -> None:
        """Run BLOCK turns, and wait for what they leave to do."""
        if self._paths is None:
            self._paths = itertools.cycle([await begin(self._connection, self._script) for _ in range(self._sessions)])
        before = self._server.cpu_s
        for path, _ in zip(self._paths, range(BLOCK), strict=False):
            key = f"turn{len(self.seconds)}" if self._keys else None
            self.seconds.append(await timed_turn(self._connection, path, key))
        await asyncio.sleep(SETTLED_S)
        self.cpu_s += self._server.cpu_s - before

    def start_measurement(self) -> None:
        """Forget the turns so far, which load what only turns need."""
        self.seconds.clear()
        self.cpu_s = 0.0

    async def close(self) -> None:
        """End the connection."""
        await self._connection.close()


async def alternate(plain: Turns, other: Turns) -> float:
    """Return the ratio of the medians of the times; print that of the CPU."""
    for each in (plain, other):
        await each.block()
        each.start_measurement()
    for _ in range(BLOCKS):
        for each in (plain, other):
            await each.block()
    for each in (plain, other):
        await each.close()
    cpu_ms = [each.cpu_s / len(each.seconds) * 1e3 for each in (other, plain)]
    print(
        "CPU of the server a turn {:.2f} ms, of a plain turn {:.2f} ms: {:.2f} x".format(*cpu_ms, cpu_ms[0] / cpu_ms[1])
    )
    return ratio(other.seconds, plain.seconds)


async def register(port: int, url: str, event: str) -> None:
    """Register a webhook."""
    connection = Connection("127.0.0.1", port)
    await connection.post("/api/webhooks", {"url": url, "events": [event]})
    await connection.close()


def measure() -> list[Figure]:
    """Print the times; return the figures."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = f"http://127.0.0.1:{stack.enter_context(local_endpoint())}/"
        names = ("plain", "uncached", "silent", "delivered")
        servers = {}
        for name in names:
            environment = {"CUEBOOK_SESSION_CACHE_MAX": "1"} if name == "uncached" else {}
            servers[name] = stack.enter_context(server(folder / name, SCRIPTS, **environment))
        asyncio.run(register(servers["silent"].port, url, "emit:never"))
        asyncio.run(register(servers["delivered"].port, url, "turn"))
        figures = []
        for name, turns in (
            ("globals", Turns(servers["plain"], "globals")),
            ("reloaded sessions with keys", Turns(servers["uncached"], sessions=2, keys=True)),
            ("a webhook, nothing delivered", Turns(servers["silent"])),
            ("a webhook, every turn delivered", Turns(servers["delivered"])),
        ):
            plain = Turns(servers["plain"])
            value = asyncio.run(alternate(plain, turns))
            print(line(name, turns.seconds, statistics.median(plain.seconds)).replace("the floor", "a plain turn"))
            figures.append(Figure(name=f"{name} / plain turns", value=value, must=1.3, aim=1.15))
        return figures


if __name__ == "__main__":
    show_table(measure())
