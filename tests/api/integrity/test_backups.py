"""Backups over HTTP and by schedule."""

import asyncio
import resource
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from api.integrity.backups import Backups
from api.settings import Settings
from store.interface.errors import BackupFailed
from store.open_store import open_store
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp

PATH = "/api/operations/backups"
START = datetime(2026, 11, 26, 6, tzinfo=UTC)


@pytest.mark.database_file
async def test_backup_is_created_listed_and_deleted(api: ApiClient, tmp_path: Path) -> None:
    await api.send_texts(await api.create_session("diary"), "Ana")
    folder = str(tmp_path / "data" / "backups")
    assert (await api.read(PATH)) == {"folder": folder, "data": [], "nextCursor": None, "running": None}
    made = await api.post(PATH)
    backup = made.json()
    assert (made.status_code, made.headers["Location"]) == (201, PATH)
    assert backup["bytes"] == (tmp_path / "data" / "backups" / backup["backupId"] / "cuebook.duckdb").stat().st_size
    assert (await api.read(PATH))["data"] == [backup]
    assert (await api.delete(f"{PATH}/{backup['backupId']}")).status_code == 204
    assert list((tmp_path / "data" / "backups").iterdir()) == []
    gone = await api.delete(f"{PATH}/{backup['backupId']}")
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "BACKUP_NOT_FOUND")


async def test_no_other_folder_can_be_deleted(api: ApiClient, tmp_path: Path) -> None:
    await api.post(PATH)
    (tmp_path / "data" / "backups" / "notes").mkdir(parents=True, exist_ok=True)
    for name in ("notes", "..%2Fbackups", ".", "2026-11-26T060000Z%2F.."):
        assert (await api.delete(f"{PATH}/{name}")).status_code in {404, 405}, name
    assert (tmp_path / "data" / "backups" / "notes").is_dir()


@pytest.mark.database_file
async def test_copy_contains_the_secrets_and_its_sessions_verify(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "data") as api:
        hooked = await api.post(
            "/api/webhooks", json={"url": "https://receiver.invalid/hook", "events": ["session.completed"]}
        )
        assert hooked.status_code == 201, hooked.text
        session = await api.create_session("diary")
        await api.send_texts(session, "Ana")
        place = tmp_path / "data" / "backups" / (await api.post(PATH)).json()["backupId"]
    assert {path.name for path in place.iterdir()} == {"backup.json", "cuebook.duckdb", "webhook-key"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in (place, *place.iterdir()))
    async with app(place) as copy:
        assert (await copy.read("/api/operations/verify"))["findings"] == []
        assert (await copy.read(f"/api/sessions/{session['sessionId']}"))["turn"] == 1


@pytest.mark.database_file
async def test_size_says_what_is_in_the_log(api: ApiClient) -> None:
    await api.create_session("diary")
    size = await api.read("/api/operations/compact")
    assert 0 < size["logBytes"] < size["bytes"]
    await api.post("/api/operations/compact")
    assert (await api.read("/api/operations/compact"))["logBytes"] == 0


@pytest.mark.database_file
async def test_schedule_writes_backups_and_deletes_the_oldest(tmp_path: Path) -> None:
    now, store = START, open_store(tmp_path / "data")
    settings = Settings(data=tmp_path / "data", backup_folder=tmp_path / "far", backup_every_h=6, backup_keep=2)
    backups = Backups(store, settings, lambda: now)
    left_by_a_killed_process = tmp_path / "far" / ".2026-11-25T000000Z.partial"
    left_by_a_killed_process.mkdir(parents=True)
    for hours in (0, 3, 6, 12):
        now = START + timedelta(hours=hours)
        await backups.look()
    await store.close()
    assert sorted(path.name for path in (tmp_path / "far").iterdir()) == ["2026-11-26T120000Z", "2026-11-26T180000Z"]
    assert [each.created_at.hour for each in await backups.all()] == [18, 12]


@pytest.mark.database_file
async def test_schedule_passes_over_backups_of_the_future(tmp_path: Path) -> None:
    now = START + timedelta(days=300)  # the clock was ahead
    store = open_store(tmp_path / "data")
    backups = Backups(store, Settings(data=tmp_path / "data", backup_every_h=6, backup_keep=2), lambda: now)
    await backups.look()
    found = []
    for hours in (0, 3, 6):
        now = START + timedelta(hours=hours)
        await backups.look()
        found.append([each.created_at for each in await backups.all()])
    await store.close()
    ahead, first, second = START + timedelta(days=300), START, START + timedelta(hours=6)
    assert found == [[ahead, first], [ahead, first], [second, first]]


@pytest.mark.database_file
async def test_scheduled_backup_that_fails_is_tried_again(tmp_path: Path) -> None:
    store = open_store(tmp_path / "data")
    (tmp_path / "far").write_text("a file in the place of the folder")
    settings = Settings(data=tmp_path / "data", backup_folder=tmp_path / "far", backup_every_h=6)
    backups = Backups(store, settings, lambda: START)
    with pytest.raises(BackupFailed, match="could not be written"):
        await backups.look()
    (tmp_path / "far").unlink()
    await backups.look()
    await store.close()
    assert len(await backups.all()) == 1


@pytest.mark.database_file
async def test_error_of_a_backup_names_its_folder_and_the_setting(api: ApiClient, tmp_path: Path) -> None:
    (tmp_path / "data" / "backups").write_text("a file in the place of the folder")
    error = (await api.post(PATH)).json()["error"]
    assert (error["code"], "data/backups could not be written: File exists" in error["message"]) == (
        "BACKUP_FAILED",
        True,
    )
    assert "`backup_folder`" in error["recovery"]["suggestion"]


@pytest.mark.database_file
async def test_error_of_a_backup_on_a_full_disk_says_so(api: ApiClient, tmp_path: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    try:
        refused = await api.post(PATH)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    error = refused.json()["error"]
    assert error["code"] == "BACKUP_FAILED"
    assert error["message"].endswith("File too large")
    assert not (tmp_path / "data" / "backups").exists()
    assert (await api.post(PATH)).status_code == 201


@pytest.mark.database_file
async def test_second_backup_of_a_second_is_refused(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "data", clock=lambda: START) as api:
        assert [(await api.post(PATH)).status_code for _ in range(2)] == [201, 409]


@pytest.mark.database_file
async def test_one_backup_is_written_at_a_time(api: ApiClient) -> None:
    answers = await asyncio.gather(*[api.post(PATH) for _ in range(3)])
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409]
    refused = next(answer for answer in answers if answer.status_code == 409)
    assert refused.json()["error"]["code"] == "BACKUP_RUNNING"
    assert len((await api.read(PATH))["data"]) == 1
