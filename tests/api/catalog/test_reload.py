"""``cuebook serve --reload``: a running server takes changed scripts, and keeps its sessions as they are."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.fixture_types import Serve

WAIT_S = 60.0

SCRIPT = """\
script: greeting
use: [globals.yaml]
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {ask: "Hello, {{ who }}. One?", id: one}
          - {say: Thank you (first)., id: thanks}
"""
GLOBALS = "globals: [{var: who, value: Ana}]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "greeting.yaml").write_text(SCRIPT)
    (scripts / "globals.yaml").write_text(GLOBALS)
    return scripts


async def logged(server: Any, event: str, words: str = "") -> Any:
    """Return the log line of an event, once it is there."""
    async with asyncio.timeout(WAIT_S):
        while True:
            assert server.process.poll() is None, server.log
            lines = [
                json.loads(line) for line in server.log.splitlines() if line.startswith("{") and line.endswith("}")
            ]
            for line in reversed(lines):
                if line["event"] == event and words in json.dumps(line, ensure_ascii=False):
                    return line
            await asyncio.sleep(0.02)


async def test_changed_script_is_a_new_version_beside_running_sessions(serve: Serve, folder) -> None:
    server = serve("--scripts", str(folder), "--reload")
    await server.ready()
    pid = server.process.pid
    async with server.client() as api:
        old = await api.create_session("greeting")
        assert old["messages"][0]["content"] == "Hello, Ana. One?"
        (folder / "greeting.yaml").write_text(SCRIPT.replace("(first)", "(second)"))
        assert (await logged(server, "script published", '"version": 2'))["script"] == "greeting"
        new = await api.create_session("greeting", user="ben")
        assert (await api.send_texts(new, "x"))["messages"][-1]["content"] == "Thank you (second)."
        assert (await api.send_texts(old, "x"))["messages"][-1]["content"] == "Thank you (first)."

        (folder / "globals.yaml").write_text(GLOBALS.replace("Ana", "Eve"))
        await logged(server, "script published", '"version": 3')
        assert (await api.create_session("greeting", user="cem"))["messages"][0]["content"] == "Hello, Eve. One?"
    assert server.process.pid == pid
    assert await server.stop() == 0


async def test_a_broken_file_is_reported_and_the_last_version_remains(serve: Serve, folder) -> None:
    server = serve("--scripts", str(folder), "--reload")
    await server.ready()
    async with server.client() as api:
        (folder / "greeting.yaml").write_text(SCRIPT.replace("{say: Thank", "{sai: Thank"))
        problem = (await logged(server, "script not published", "ACTION_TYPE_UNKNOWN"))["problem"]
        assert problem.startswith(f"{folder}/greeting.yaml:9:14 ")
        assert (await api.create_session("greeting"))["messages"][0]["content"] == "Hello, Ana. One?"
        (folder / "greeting.yaml").write_text(SCRIPT.replace("(first)", "(mended)"))
        await logged(server, "script published", '"version": 2')


async def test_new_files_are_published_and_removed_ones_stay_published(serve: Serve, folder) -> None:
    server = serve("--scripts", str(folder), "--reload")
    await server.ready()
    async with server.client() as api:
        (folder / "below").mkdir()
        part = folder / "below" / "part"
        part.write_text(SCRIPT.replace("script: greeting", "script: other").replace("use: [globals.yaml]\n", ""))
        part.rename(part.with_name("other.yaml"))  # as an editor saves
        await logged(server, "script published", "other")
        await api.create_session("other")
        (folder / "copy.yaml").write_text(SCRIPT)
        await logged(server, "script not published", "the script greeting is in ")
        (folder / "greeting.yaml").unlink()
        gone = await logged(server, "script removed")
        assert (gone["script"], gone["file"]) == ("greeting", f"{folder}/greeting.yaml")
        await api.create_session("greeting")


async def test_a_folder_that_is_moved_in_is_published_whole(serve: Serve, folder, tmp_path: Path) -> None:
    drafts = tmp_path / "drafts"
    (drafts / "deep").mkdir(parents=True)
    (drafts / "deep" / "other.yaml").write_text(SCRIPT.replace("script: greeting", "script: other"))
    (drafts / "deep" / "globals.yaml").write_text(GLOBALS)
    server = serve("--scripts", str(folder), "--reload")
    await server.ready()
    drafts.rename(folder / "drafts")
    await logged(server, "script published", "other")
    (folder / "drafts").rename(tmp_path / "drafts")
    assert (await logged(server, "script removed"))["script"] == "other"


async def test_without_it_nothing_is_read_again(serve: Serve, folder) -> None:
    server = serve("--scripts", str(folder))
    await server.ready()
    (folder / "greeting.yaml").write_text(SCRIPT.replace("(first)", "(second)"))
    async with server.client() as api:
        session = await api.create_session("greeting")
        assert (await api.send_texts(session, "x"))["messages"][-1]["content"] == "Thank you (first)."
