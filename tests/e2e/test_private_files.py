"""What is in a data folder is for the account of the server alone: 0600 and 0700, also what was there before."""

import asyncio
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from store.interface.private_files import restrict
from store.open_store import open_store
from tests.support.fixture_types import Serve


def open_to_others(folder: Path) -> dict[str, str]:
    """Return files and folders, the folder itself included, with any right for other accounts."""
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in (folder, *folder.rglob("*"))}
    return {str(path.relative_to(folder)): oct(mode) for path, mode in modes.items() if mode & 0o077}


async def use(server: Any) -> None:
    """Have the server write all that it can: the database, its log, an index of vectors, analytics, a snapshot."""
    async with server.client() as client:
        session = await client.create_session("visit")
        await client.send_texts(session, "Ana")
        units = [{"content": f"a note {number}"} for number in range(3)]
        added = await client.post("/api/memory/units", json={"userId": "ana", "units": units})
        assert added.is_success, added.text
        for masked in (True, False):
            query = {"sql": "FROM users", "masked": masked}
            asked = await client.post("/api/analytics/query", json=query)
            for _ in range(300):
                if asked.status_code != 503:
                    break
                await asyncio.sleep(0.2)  # the tables are being built
                asked = await client.post("/api/analytics/query", json=query)
            assert asked.status_code == 200, asked.text
        admitted = await client.post("/api/participants/tokens", json={"userId": "ana", "scriptId": "visit"})
        assert admitted.status_code == 201, admitted.text
        url = {"url": "http://127.0.0.1:9/", "events": ["*"]}
        assert (await client.post("/api/webhooks", json=url)).status_code == 201


async def test_all_that_a_server_writes_is_private(serve: Serve, tmp_path: Path) -> None:
    server = serve(CUEBOOK_EMBEDDER="hashed:64", CUEBOOK_SNAPSHOT_EVERY_H="0.0001")
    await server.ready()
    data = tmp_path / "data"
    await use(server)
    assert open_to_others(data) == {}
    names = {path.name for path in data.rglob("*")}
    assert {"cuebook.duckdb", "cuebook.duckdb.wal", "server-address", "webhook-key", "participant-key"} <= names
    await server.stop()
    assert open_to_others(data) == {}
    assert [path for path in (data / "analytics").iterdir() if path.suffix == ".duckdb"]
    assert "other accounts" not in server.log


@pytest.mark.slow
async def test_what_others_could_read_is_closed_at_start(serve: Serve, tmp_path: Path) -> None:
    server = serve(CUEBOOK_EMBEDDER="hashed:64")
    await server.ready()
    await use(server)
    await server.stop()
    data = tmp_path / "data"
    for path in (data, *data.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    server = serve(CUEBOOK_EMBEDDER="hashed:64")
    await server.ready()
    assert open_to_others(data) == {}
    assert "other accounts could read the data folder" in server.log
    await server.stop()


@pytest.mark.database_file
async def test_a_record_opened_in_a_program_is_private(tmp_path: Path) -> None:
    folder = tmp_path / "above" / "data"
    for _ in range(2):
        store = open_store(folder)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        await store.close()
        (folder / "cuebook.duckdb").chmod(0o644)
    store = open_store(folder)
    await store.close()
    assert stat.S_IMODE((folder / "cuebook.duckdb").stat().st_mode) == 0o600


def test_a_folder_with_files_of_others_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "cuebook.duckdb").touch()
    (tmp_path / "cuebook.duckdb").chmod(0o644)  # whatever the umask is
    foreign = tmp_path / "letters"
    for folder in (tmp_path / "analytics", foreign):
        folder.mkdir()
        folder.chmod(0o755)
    (tmp_path / "analytics" / "link").symlink_to(foreign)
    tmp_path.chmod(0o755)
    restricted = restrict(tmp_path)
    assert (restricted.closed, restricted.open) == (2, (tmp_path,))
    assert {*open_to_others(tmp_path)} == {".", "letters", "analytics/link"}
    (tmp_path / "analytics" / "link").unlink()
    foreign.rmdir()
    assert (restrict(tmp_path).closed, open_to_others(tmp_path)) == (1, {})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["masked.duckdb", "unmasked.duckdb"])
async def test_a_snapshot_that_a_command_writes_is_private(serve: Serve, tmp_path: Path, name: str) -> None:
    server = serve()
    await server.ready()
    flags = ["--unmasked"] if name.startswith("un") else []
    command = [
        Path(sys.executable).with_name("cuebook"),
        "snapshot",
        tmp_path / name,
        "--data",
        tmp_path / "data",
        *flags,
    ]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    await server.stop()
