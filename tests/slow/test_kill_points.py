"""A server that is killed at a named point of its work has lost, torn and doubled nothing, as its clients see it."""

import asyncio
import contextlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.effort import repeats
from tests.support.fixture_types import Serve
from tests.support.kill_points import POINTS

KILLS = repeats(20)  # at each point
DURING_S = 0.01
PASSES = {"during an erasure": 3, "during a compaction": 2, "during a checkpoint": 4}
"""How often a point is passed at most before the process dies there; 40 times where nothing is said."""

AT_START = {"before the answer": 4, "during a checkpoint": 1}
"""How often a point is passed before the server is ready: at its first start, it migrates and publishes two scripts."""

pytestmark = [pytest.mark.slow, pytest.mark.gate, pytest.mark.timeout(900)]


async def erase(api: httpx.AsyncClient) -> None:
    """Create sessions of a user and erase the user, again and again, until the server is dead."""
    with contextlib.suppress(httpx.TransportError):
        while True:
            for _ in range(3):
                await api.post("/api/sessions", json={"userId": "erased", "scriptId": "diary"})
            answer = await api.delete("/api/users/erased")
            assert answer.status_code == 200, answer.text


async def compact(api: httpx.AsyncClient) -> None:
    """Compact the database, again and again, until the server is dead."""
    with contextlib.suppress(httpx.TransportError):
        while True:
            answer = await api.post("/api/operations/compact")
            assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("point", POINTS)
async def test_killed_at_a_point_it_has_lost_torn_and_doubled_nothing(
    serve: Serve, diary_clients: Callable[[int], Any], tmp_path: Path, point: str
) -> None:
    clients, chance = diary_clients(sum(map(ord, point))), random.Random(point)
    for _ in range(KILLS):
        passes = chance.randint(AT_START.get(point, 0) + 1, PASSES.get(point, 40))
        kill = {"name": point, "passes": passes, "after_s": chance.uniform(0, DURING_S)}
        server = serve(KILL_AT=json.dumps(kill))
        await server.ready()
        async with server.client() as api:
            work = [clients.write(api)]
            work += [erase(api)] if point == "during an erasure" else []
            work += [compact(api)] if point == "during a compaction" else []
            await asyncio.gather(*work)
        assert await server.stop() == -9
    server = serve()
    await server.ready()
    async with server.client() as api:
        assert (await api.get("/ready")).status_code == 200
        await clients.finish(api)
        await clients.check(api)
    assert await server.stop() == 0
