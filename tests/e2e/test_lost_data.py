"""Folders of a server are deleted or replaced while it runs: no turn is acknowledged that would be lost."""

import asyncio
import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from store.interface.private_files import FILE_NAME
from tests.support.fixture_types import Serve
from tests.support.openai_server import Endpoint

TALK = """\
script: talk
phases:
  - phase: main
    topics:
      - topic: loop
        actions:
          - {ask: "What next?", id: ask}
          - {ai_say: "Say something kind.", id: kind}
          - {goto: loop, id: again}
"""


def delete(folder: Path) -> None:
    shutil.rmtree(folder)


def restore_backup(folder: Path) -> None:
    """Replace the files by a copy."""
    folder.rename(folder.with_name("moved"))
    shutil.copytree(folder.with_name("moved"), folder)


@pytest.mark.slow
@pytest.mark.parametrize("lose", [delete, restore_backup])
async def test_turns_stop_where_the_data_is_lost(serve: Serve, tmp_path: Path, lose: Callable[[Path], None]) -> None:
    server = serve()
    await server.ready()
    async with server.client() as api:
        session = await api.create_session("diary")
        await api.send_texts(session, "one")
        lose(tmp_path / "data")
        for number in range(3):
            refused = await api.send_message(session, {"content": f"lost {number}"})
            assert refused.status_code == 503
            error = refused.json()["error"]
            assert (error["code"], error["recovery"]["canRetry"]) == ("DATABASE_FILE_LOST", False)
        begun = await api.post("/api/sessions", json={"userId": "ben", "scriptId": "diary"})
        assert (begun.status_code, begun.json()["error"]["code"]) == (503, "DATABASE_FILE_LOST")
        ready = await api.get("/ready")
        assert ready.status_code == 503
        assert "while the server had it open" in ready.json()["checks"]["database"]
        assert (await api.get("/health")).status_code == 200
        assert [text for role, text in await api.transcript(session) if role == "user"] == ["one"]
        async with asyncio.timeout(30):
            while "is lost" not in server.log:
                await api.read("/health")
    if lose is restore_backup:  # a second server begins on what is there now, and the first leaves its files alone
        second = serve(folder=tmp_path)
        await second.ready()
        key = (tmp_path / "data" / "server-key").read_text()
        await server.stop()
        assert (tmp_path / "data" / "server-key").read_text() == key
        async with second.client() as api:
            assert (await api.send_texts(session, "two"))["turn"] == 2
    else:
        await server.stop()
        assert not (tmp_path / "data").exists()  # where a backup is to be put
    lines = [json.loads(line) for line in server.log.splitlines() if line.startswith("{")]
    assert len([line for line in lines if line["level"] == "critical"]) == 1
    assert not [line for line in lines if line.get("code") == "DATABASE_FILE_LOST"]


@pytest.mark.slow
async def test_no_model_is_asked_where_the_data_is_lost(serve: Serve, tmp_path: Path, endpoint: Endpoint) -> None:
    """A turn that could not be written is not paid for."""
    server = serve("--model", "openai:test", CUEBOOK_MODEL_URL=endpoint.url, CUEBOOK_MODEL_KEY="none")
    await server.ready()
    async with server.client() as api:
        await api.publish_script(TALK)
        session = await api.create_session("talk")
        await api.send_texts(session, "hello")
        asked = len(endpoint.requests)
        shutil.rmtree(tmp_path / "data")
        refused = await api.send_message(session, {"content": "lost"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "DATABASE_FILE_LOST")
        assert len(endpoint.requests) == asked


@pytest.mark.database_file
async def test_a_damaged_log_is_reported_until_the_loss_is_accepted(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    await server.ready()
    async with server.client() as api:
        session = await api.create_session("diary")
        await api.send_texts(session, "one", "two", "three")
    await server.stop(signal.SIGKILL)
    log = tmp_path / "data" / f"{FILE_NAME}.wal"
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    server = serve()
    await server.ready()
    async with server.client() as api:
        ready = await api.get("/ready")
        assert ready.status_code == 503
        assert "lost acknowledged writes" in ready.json()["checks"]["database"]
        found = await api.read("/api/operations/verify")
        assert [each["code"] for each in found["findings"]] == ["commits_missing"]
        (tmp_path / "data" / f"{FILE_NAME}.lost-commits").unlink()
        assert (await api.get("/ready")).status_code == 200
        assert (await api.read("/api/operations/verify"))["findings"] == []
    await server.stop()
    assert "acknowledged commits are missing" in server.log
