"""kill -9 at any moment of a compaction: the old record or the new one is there, whole, and the next start goes on."""

import asyncio
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from store.duckdb.commit_mark import MARK
from store.duckdb.database import Database
from store.interface.private_files import FILE_NAME
from store.open_store import open_store
from tests.support.fixture_types import OpenApp, Serve
from tests.support.paths import PROCESSES, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

GONE = b"Schmetterling"
STAYS = b"Kolibri"

DATABASE = [FILE_NAME, FILE_NAME + MARK]


@pytest.fixture
async def crashed(app: OpenApp, tmp_path: Path) -> Path:
    """Return a database as a killed server leaves it, with a log, and with bytes of an erased user in its file."""
    async with app(tmp_path / "data") as api:
        for user, word in (("ana", GONE), ("ben", STAYS)):
            session = await api.create_session("diary", user=user)
            await api.send_texts(session, *[f"{word.decode()} {number} {'x' * 5_000}" for number in range(60)])
        await api.post("/api/operations/compact")
        await api.delete("/api/users/ana")
        last = await api.create_session("diary", user="eve")
        await api.send_texts(last, STAYS.decode())
        return shutil.copytree(tmp_path / "data", tmp_path / "crashed")


def compacting(folder: Path, what: object) -> subprocess.CompletedProcess[str]:
    """Return a process that compacts a record and does not come to its end."""
    script = PROCESSES / "compact.py"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(script), str(folder), str(what)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)


def contents(folder: Path) -> dict[str, Any]:
    """Return every table with its rows in their order; opening the database removes what a killed process left."""
    database = Database.open(folder)
    cursor = database.cursor()
    tables = cursor.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = 'cuebook'").fetchall()
    columns = {"erasures": "* EXCLUDE (compacted_at)"}
    held = {
        table: cursor.execute(f"SELECT {columns.get(table, '*')} FROM {table}").fetchall()
        for (table,) in sorted(tables)
    }
    database.checkpoint(cursor)
    cursor.close()
    database.close()
    return held


def traces(folder: Path) -> set[bytes]:
    texts = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    return {word for word in (GONE, STAYS) if any(word in text for text in texts)}


def test_killed_at_every_step_it_leaves_a_whole_record(crashed: Path, tmp_path: Path) -> None:
    before = contents(shutil.copytree(crashed, tmp_path / "before"))
    assert traces(crashed) == {GONE, STAYS}
    steps: list[str] = []
    while steps[-1:] != ["done"]:
        folder = shutil.copytree(crashed, tmp_path / f"killed {len(steps)}")
        died = compacting(folder, len(steps) + 1)
        steps += died.stdout.split("\n")[:1]
        assert (died.returncode, died.stderr) == (0 if steps[-1] == "done" else -signal.SIGKILL, "")
        assert contents(folder) == before, steps[-1]
        assert sorted(path.name for path in folder.glob(f"{FILE_NAME}*")) == DATABASE, steps[-1]
        is_new = steps[-1] in {"opening the new file", "done"}
        assert traces(folder) == ({STAYS} if is_new else {GONE, STAYS}), steps[-1]
        shutil.rmtree(folder)
    assert steps[0] == "creating a new file"
    assert steps[-4:] == ["writing the new file to disk", "replacing the file", "opening the new file", "done"]


async def test_after_one_that_was_killed_the_next_leaves_no_trace(crashed: Path) -> None:
    assert compacting(crashed, 8).returncode == -signal.SIGKILL
    store = open_store(crashed)
    await store.maintenance.compact()
    await store.close()
    assert traces(crashed) == {STAYS}


def test_a_full_disk_refuses_it_and_nothing_is_lost(crashed: Path, tmp_path: Path) -> None:
    before = contents(shutil.copytree(crashed, tmp_path / "before"))
    done = compacting(crashed, "full")
    refused, state, end = done.stdout.splitlines()
    assert refused.startswith("StoreUnavailable the database could not be copied"), done
    assert state.startswith("None "), done
    assert "compacting" not in state
    assert end == "done"
    assert contents(crashed) == before
    assert traces(crashed) == {STAYS}


async def test_killed_while_eight_clients_write_during_compactions(
    serve: Serve, diary_clients: Callable[[int], Any], tmp_path: Path
) -> None:
    people, chance = diary_clients(7), random.Random(7)

    async def compact_again_and_again(client: httpx.AsyncClient) -> None:
        with contextlib.suppress(httpx.TransportError):
            while True:
                answer = await client.post("/api/operations/compact")
                assert answer.status_code == 200, answer.text

    for _ in range(12):
        server = serve()
        await server.ready()
        async with server.client() as client:
            working = asyncio.gather(people.write(client), compact_again_and_again(client))
            await people.answered(chance.randrange(30))
            await asyncio.sleep(chance.uniform(0, 0.1))
            await server.stop(signal.SIGKILL)
            await working
    assert people.acknowledged > 50  # enough happened between the kills
    server = serve()
    await server.ready()
    async with server.client() as api:
        await people.finish(api)
        await people.check(api)
    assert await server.stop() == 0
    left = await asyncio.to_thread(os.listdir, tmp_path / "data")
    assert sorted(name for name in left if name.startswith(FILE_NAME)) == DATABASE
