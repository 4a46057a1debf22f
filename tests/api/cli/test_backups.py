"""``cuebook backups``, with and without a server."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.support.fixture_types import OpenApp, RunCommand, Serve


@pytest.fixture
async def data(app: OpenApp, tmp_path: Path) -> tuple[str, str]:
    """Return the options for a database with one session, which no server uses."""
    async with app(tmp_path / "data") as api:
        await api.create_session("diary")
    return "--data", str(tmp_path / "data")


def session_id(cuebook: RunCommand, data: tuple[str, str]) -> str:
    found: str = json.loads(cuebook("sessions", "list", "--json", *data).stdout)["data"][0]["sessionId"]
    return found


def sessions(cuebook: RunCommand, data: tuple[str, str]) -> int:
    return len(cuebook("sessions", "list", *data).stdout.splitlines()) - 1


@pytest.mark.gate
@pytest.mark.database_file
def test_backup_is_created_restored_and_deleted(cuebook: RunCommand, data: tuple[str, str]) -> None:
    made = json.loads(cuebook("backups", "create", "--json", *data).stdout)
    assert json.loads(cuebook("backups", "list", "--json", *data).stdout)["data"] == [made]
    assert cuebook("sessions", "delete", session_id(cuebook, data), "--yes", *data).exit_code == 0
    assert sessions(cuebook, data) == 0
    restored = cuebook("backups", "restore", made["backupId"], "--yes", *data)
    assert restored.exit_code == 0, restored.stderr
    assert "replaced-" in restored.stderr
    assert sessions(cuebook, data) == 1
    for command in ("delete", "restore"):
        refused = cuebook("backups", command, made["backupId"], *data)
        assert (refused.exit_code, "use --yes" in refused.stderr) == (2, True)
    assert cuebook("backups", "delete", made["backupId"], "--yes", *data).exit_code == 0
    assert json.loads(cuebook("backups", "list", "--json", *data).stdout)["data"] == []


@pytest.mark.database_file
def test_backup_is_restored_elsewhere_by_its_path(cuebook: RunCommand, data: tuple[str, str], tmp_path: Path) -> None:
    made = json.loads(cuebook("backups", "create", "--json", *data).stdout)
    elsewhere = ("--data", str(tmp_path / "elsewhere"))
    path = tmp_path / "data" / "backups" / made["backupId"]
    assert cuebook("backups", "restore", path, *elsewhere).exit_code == 2
    assert not (tmp_path / "elsewhere").exists()
    assert cuebook("backups", "restore", path, "--yes", *elsewhere).exit_code == 0
    assert sessions(cuebook, elsewhere) == 1


@pytest.mark.database_file
def test_backup_contains_the_key_files_and_puts_them_back(
    cuebook: RunCommand, data: tuple[str, str], tmp_path: Path
) -> None:
    keys, file = tmp_path / "keys", tmp_path / "cuebook.toml"
    keys.mkdir()
    (keys / "web-push-key").write_text("of the backup")
    file.write_text(f'key_folder = "{keys}"')
    made = json.loads(cuebook("backups", "create", "--json", "--config", str(file), *data).stdout)
    (keys / "web-push-key").write_text("of the server")
    restored = cuebook("backups", "restore", made["backupId"], "--yes", "--config", str(file), *data)
    assert restored.exit_code == 0, restored.stderr
    assert (keys / "web-push-key").read_text() == "of the backup"


@pytest.mark.database_file
async def test_no_database_is_replaced_that_a_server_uses(
    cuebook: RunCommand, data: tuple[str, str], serve: Serve
) -> None:
    made = json.loads((await asyncio.to_thread(cuebook, "backups", "create", "--json", *data)).stdout)
    await serve().ready()
    refused = await asyncio.to_thread(cuebook, "backups", "restore", made["backupId"], "--yes", *data)
    assert (refused.exit_code, "in use by process" in refused.stderr) == (2, True)
    listed = await asyncio.to_thread(cuebook, "backups", "list", "--json", *data)
    assert json.loads(listed.stdout)["data"] == [made]


def test_folder_that_is_no_backup_is_refused(cuebook: RunCommand, data: tuple[str, str]) -> None:
    missing = cuebook("backups", "restore", "2020-01-01T000000Z", "--yes", *data)
    assert (missing.exit_code, "cuebook backups list" in missing.stderr) == (2, True)
    assert sessions(cuebook, data) == 1


@pytest.mark.database_file
def test_nothing_is_restored_in_the_place_of_postgresql(
    cuebook: RunCommand, data: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = json.loads(cuebook("backups", "create", "--json", *data).stdout)
    path = tmp_path / "data" / "backups" / made["backupId"]
    (path / "webhook-key").write_text("of the backup")
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "webhook-key").write_text("of the server")
    monkeypatch.setenv("CUEBOOK_DATABASE", "postgresql://db.example.com/cuebook")
    refused = cuebook("backups", "restore", path, "--yes", "--data", tmp_path / "server")
    assert (refused.exit_code, "pg_restore" in refused.stderr) == (2, True)
    assert (tmp_path / "server" / "webhook-key").read_text() == "of the server"
