"""Files that are made from the database contain nothing of an erased user, however the erasure is interrupted."""

import asyncio
from pathlib import Path

from tests.api.privacy.test_erasure_during_creation import THINKS_FIRST, HeldModel
from tests.support.fixture_types import OpenApp

SNAPSHOT = "cuebook-2020-01-01T000000Z.duckdb"


def add_snapshot(data: Path) -> None:
    (data / "snapshots").mkdir(exist_ok=True)
    (data / "snapshots" / SNAPSHOT).touch()


def snapshots(data: Path) -> list[str]:
    return [path.name for path in (data / "snapshots").iterdir()]


def add_what_cannot_be_removed(data: Path) -> None:
    (data / "snapshots" / SNAPSHOT).mkdir(parents=True)  # a folder in place of a file


def remove_what_cannot_be_removed(data: Path) -> None:
    (data / "snapshots" / SNAPSHOT).rmdir()


async def test_an_erasure_removes_them_although_its_client_disconnects(app: OpenApp, tmp_path: Path) -> None:
    model = HeldModel(1)
    add_snapshot(tmp_path)
    async with app(tmp_path, model) as api:
        await api.publish_script(THINKS_FIRST)
        creation = asyncio.create_task(api.post("/api/sessions", json={"userId": "ana", "scriptId": "thinks_first"}))
        await model.all_asked.wait()
        erasure = asyncio.create_task(api.delete("/api/users/ana"))
        await asyncio.wait({erasure}, timeout=0.1)
        erasure.cancel()
        await asyncio.wait({erasure})
        model.go[0].set()
        assert (await creation).status_code == 200
    assert erasure.cancelled()
    assert snapshots(tmp_path) == []


async def test_erasure_that_removed_only_rows_ends_at_the_next_start(app: OpenApp, tmp_path: Path) -> None:
    add_what_cannot_be_removed(tmp_path)
    async with app(tmp_path) as api:
        assert (await api.delete("/api/users/ana")).status_code == 500
    remove_what_cannot_be_removed(tmp_path)
    add_snapshot(tmp_path)
    async with app(tmp_path):
        assert snapshots(tmp_path) == []
    add_snapshot(tmp_path)
    async with app(tmp_path):
        assert snapshots(tmp_path) == [SNAPSHOT]
