"""Files that are made from the database contain nothing of an erased user, however the erasure is interrupted."""

import asyncio
from pathlib import Path

import pytest

from tests.api.privacy.test_erasure_during_creation import THINKS_FIRST, HeldModel
from tests.support.fixture_types import OpenApp


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """Return the path of a snapshot in a new folder."""
    folder = tmp_path / "snapshots"
    folder.mkdir()
    return folder / "cuebook-2020-01-01T000000Z.duckdb"


async def test_an_erasure_removes_them_although_its_client_disconnects(
    app: OpenApp, tmp_path: Path, snapshot: Path
) -> None:
    model = HeldModel(1)
    snapshot.touch()
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
    assert not snapshot.exists()


async def test_an_erasure_that_removed_only_rows_is_completed_at_the_next_start(
    app: OpenApp, tmp_path: Path, snapshot: Path
) -> None:
    snapshot.mkdir()  # not a file, so that it cannot be removed
    async with app(tmp_path) as api:
        assert (await api.delete("/api/users/ana")).status_code == 500
    snapshot.rmdir()
    snapshot.touch()
    async with app(tmp_path):
        assert not snapshot.exists()
    snapshot.touch()
    async with app(tmp_path):
        assert snapshot.exists()
