"""kill -9 at any moment: no acknowledged turn is lost, none is torn, none is doubled by a retry with the same key.

A server is a fork of a process that has imported everything, which would take most of the time.
"""

import asyncio
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from store.duckdb.database import Database
from tests.support.effort import repeats
from tests.support.fixture_types import Serve

KILLS = max(5, repeats(10))  # of each of two crowds; after fewer, too little may have happened between them

pytestmark = [pytest.mark.slow, pytest.mark.gate, pytest.mark.timeout(600)]


@pytest.mark.parametrize("seed", range(2))
async def test_killed_while_eight_people_write(
    serve: Serve, diary_clients: Callable[[int], Any], tmp_path: Path, seed: int
) -> None:
    people, chance = diary_clients(seed), random.Random(seed)
    for _ in range(KILLS):
        server = serve()
        await server.ready()
        async with server.client() as client:
            writing = asyncio.create_task(people.write(client))
            await people.answered(chance.randrange(25))
            await asyncio.sleep(chance.uniform(0, 0.02))
            await server.stop(signal.SIGKILL)
            await writing
    assert people.acknowledged > 2 * KILLS  # enough happened between the kills
    assert people.retries > KILLS // 3
    await assert_all_there(serve, people)
    assert_whole(tmp_path / "data")


async def test_killed_while_it_starts(serve: Serve, diary_clients: Callable[[int], Any], tmp_path: Path) -> None:
    people, chance = diary_clients(99), random.Random(99)
    for _ in range(2 * KILLS):
        server = serve()
        await asyncio.sleep(chance.uniform(0, 0.4))
        async with server.client() as client:
            writing = asyncio.create_task(people.write(client))
            await asyncio.sleep(0.01)
            await server.stop(signal.SIGKILL)
            await writing
    await assert_all_there(serve, people)
    assert_whole(tmp_path / "data")


async def assert_all_there(serve: Callable[..., Any], people: Any) -> None:
    server = serve()
    await server.ready()
    async with server.client() as api:
        await people.finish(api)
        await people.check(api)
    assert await server.stop() == 0


def assert_whole(folder: Path) -> None:
    """Turn, messages and events of every session are numbered without gaps, and no key made two turns."""
    database = Database.open(folder, read_only=True)
    cursor = database.cursor()
    for view, number, first in [("turns", "turn", 0), ("messages", "seq", 1), ("events", "seq", 1)]:
        gaps = cursor.execute(
            f"""SELECT session_id FROM {view} GROUP BY session_id HAVING min({number}) <> {first}
            OR max({number}) <> {first} + count(*) - 1 OR count(DISTINCT {number}) <> count(*)"""
        ).fetchall()
        assert gaps == [], view
    doubled = cursor.execute(
        """SELECT session_id, idempotency_key FROM turns WHERE idempotency_key IS NOT NULL
        GROUP BY ALL HAVING count(*) > 1"""
    ).fetchall()
    assert doubled == []
    starts = cursor.execute(
        "SELECT count(*), count(DISTINCT key), (SELECT count(*) FROM turns WHERE turn = 0) FROM session_starts"
    ).fetchone()
    assert starts is not None
    assert len(set(starts)) == 1
    cursor.close()
    database.close()
