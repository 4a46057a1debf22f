"""Snapshots that the server makes by itself."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from api.analytics.files import AnalyticsFiles
from api.analytics.process import Processes
from api.analytics.queries import AnalyticsQueries
from api.analytics.schedule import FOLDER, Snapshots
from api.catalog.catalog import Catalog
from api.metrics import Metrics
from api.settings import Settings
from store.open_store import open_store
from store.store import Store
from tests.support.fixture_types import OpenApp

START = datetime(2025, 3, 1, 12, tzinfo=UTC)


class Scheduled:
    """Snapshots of a database, and a clock that the test sets."""

    def __init__(self, store: Store, processes: Processes, data: Path, **settings: Any) -> None:
        self.now = START
        files = AnalyticsFiles(store, Catalog(store, self.clock), processes, data, Metrics())
        analytics = AnalyticsQueries(files, processes, Metrics())
        self.snapshots = Snapshots(store, analytics, Settings(data=data, **settings), self.clock)

    def clock(self) -> datetime:
        return self.now

    async def after(self, hours: float) -> None:
        self.now += timedelta(hours=hours)
        await self.snapshots.look()


@pytest.fixture
def scheduled(data: Path) -> Callable[..., Any]:
    """Open it: ``async with scheduled(snapshot_every_h=6) as scheduled``."""

    @asynccontextmanager
    async def opening(**settings: Any) -> AsyncIterator[Scheduled]:
        store, processes = open_store(data), Processes()
        try:
            yield Scheduled(store, processes, data, **settings)
        finally:
            processes.close()
            await store.close()

    return opening


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.slow
async def test_one_is_made_when_it_is_due_and_the_oldest_go(scheduled: Any, data: Path) -> None:
    async with scheduled(snapshot_every_h=6, snapshot_keep=2, snapshot_storage_version="v1.0.0") as server:
        await server.after(0)
        assert names(data / FOLDER) == ["cuebook-2025-03-01T120000Z.duckdb"]
        await server.after(5.9)
        assert len(names(data / FOLDER)) == 1
        await server.after(0.1)
        await server.after(10)
        assert names(data / FOLDER) == ["cuebook-2025-03-01T180000Z.duckdb", "cuebook-2025-03-02T040000Z.duckdb"]
    with duckdb.connect(str(data / FOLDER / "cuebook-2025-03-02T040000Z.duckdb"), read_only=True) as snapshot:
        assert snapshot.execute("SELECT is_masked FROM about").fetchall() == [(True,)]
        assert snapshot.execute("SELECT count(*) > 5 FROM sessions").fetchall() == [(True,)]
    assert (data / FOLDER / "cuebook-2025-03-02T040000Z.duckdb").read_bytes()[12] == 64  # what DuckDB 1.0 reads


async def test_schedule_passes_over_snapshots_of_the_future(scheduled: Any, data: Path) -> None:
    ahead = data / FOLDER / "cuebook-2026-03-01T120000Z.duckdb"
    ahead.parent.mkdir(parents=True)
    ahead.touch()
    async with scheduled(snapshot_every_h=6, snapshot_keep=2) as server:
        await server.after(0)
        await server.after(3)
        assert names(ahead.parent) == ["cuebook-2025-03-01T120000Z.duckdb", ahead.name]
        await server.after(3)
        assert not ahead.exists()


async def test_what_others_put_there_stays_and_what_a_kill_left_goes(
    scheduled: Any, data: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    retained = ["cuebook-monday.duckdb", "cuebook-school-2020-01-01T000000Z.duckdb", "notes.txt"]
    for name in [*retained, ".cuebook-2020-01-01T000000Z.duckdb.x1", "cuebook-2020-01-01T000000Z.duckdb"]:
        (folder / name).touch()
    async with scheduled(snapshot_every_h=1, snapshot_keep=1, snapshot_folder=folder) as server:
        await server.after(0)
        assert names(folder) == sorted([*retained, "cuebook-2025-03-01T120000Z.duckdb"])
        await server.snapshots.forget("default")
        assert names(folder) == sorted(retained)


@pytest.mark.slow
async def test_one_that_cannot_be_made_is_tried_again(scheduled: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with scheduled(snapshot_every_h=1, snapshot_folder=tmp_path / "file" / "folder") as server:
        await server.after(0)
        (tmp_path / "file").unlink()
        await server.after(0)
        assert len(names(tmp_path / "file" / "folder")) == 1


async def test_server_makes_a_snapshot_and_an_erasure_removes_it(app: OpenApp, data: Path) -> None:
    async with app(data, embedder="none", snapshot_every_h=24) as api:
        async with asyncio.timeout(60):
            while not list((data / FOLDER).glob("*.duckdb")):  # noqa: ASYNC110 - a folder tells nobody
                await asyncio.sleep(0.05)
        assert (await api.delete("/api/users/ana")).status_code == 200
        assert names(data / FOLDER) == []
