"""``cuebook sessions export`` and ``import``, with and without a server."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from api.cli import backend
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp, RunCommand, Serve, WriteFile


@pytest.fixture
async def talked(app: OpenApp, tmp_path: Path) -> list[str]:
    """Return the sessions of a record that no server holds."""
    async with app(tmp_path / "data") as api:
        ana = await api.create_session("visit", key="telegram:7")
        await api.send_texts(ana, "Ana")
        ben = await api.create_session("diary", user="ben")
    async with app(tmp_path / "other"):
        return [ana["sessionId"], ben["sessionId"]]


def test_one_session_to_the_screen_and_to_a_file(cuebook: RunCommand, talked: list[str]) -> None:
    shown = cuebook("sessions", "export", talked[0], "--format", "txt", "--data", "data")
    assert (shown.exit_code, shown.stdout.splitlines()[-1]) == (0, "[assistant] How old are you, Ana?")
    saved = cuebook("sessions", "export", "--key", "telegram:7", "-o", "ana.yaml", "--data", "data")
    assert (saved.exit_code, saved.stdout) == (0, "")
    imported = cuebook("sessions", "import", "ana.yaml", "--data", "other", "--json")
    assert imported.exit_code == 0, imported.stderr
    row = json.loads(imported.stdout)["files"][0]
    assert (row["sessionId"], row["key"], row["messages"]) == (talked[0], "telegram:7", 5)


def test_masked_it_is_for_reading_alone(cuebook: RunCommand, talked: list[str]) -> None:
    for every in ([talked[0], "-o", "a.json"], ["--all", "-o", "masked"]):
        assert cuebook("sessions", "export", *every, "--masked", "--data", "data").exit_code == 0
    document = json.loads(Path("masked", f"{talked[0]}.json").read_text())
    assert json.loads(Path("a.json").read_text())["turns"] == document["turns"]
    assert (document["masked"], document["session"]["key"]) == (True, None)
    refused = cuebook("sessions", "import", "a.json", "--data", "other")
    assert refused.exit_code == 1
    assert "masked" in refused.stdout


@pytest.mark.gate
def test_all_sessions_there_and_back(cuebook: RunCommand, talked: list[str]) -> None:
    exported = cuebook("sessions", "export", "--all", "-o", "out", "--data", "data")
    assert (exported.exit_code, exported.stderr.strip()) == (0, "2 sessions in out")
    assert {file.name for file in Path("out").iterdir()} == {f"{each}.json" for each in talked}
    tried = cuebook("sessions", "import", "out", "--dry-run", "--data", "other")
    assert (tried.exit_code, tried.stderr.strip()) == (0, "2 of 2 files can be imported")
    imported = cuebook("sessions", "import", "out", "--data", "other")
    assert (imported.exit_code, imported.stderr.strip()) == (0, "2 of 2 files imported")
    again = cuebook("sessions", "import", "out", "--data", "other")
    assert again.exit_code == 1
    assert "a session with this id exists" in again.stdout
    assert cuebook("sessions", "import", "out", "--replace", "--data", "other").exit_code == 0


async def test_all_sessions_include_those_that_continue(api: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "PAGE", 1)
    sessions = [await api.create_session("diary") for _ in range(3)]

    async def let_the_first_continue(answer: httpx.Response) -> None:
        if answer.request.url.path == "/api/sessions":
            await api.send_texts(sessions[0], "a day like others")

    api.event_hooks["response"].append(let_the_first_continue)
    found = await backend.Backend(api, is_served=True).sessions()
    assert {each["sessionId"] for each in found} == {each["sessionId"] for each in sessions}


def test_a_folder_of_nanobot_with_a_damaged_file(cuebook: RunCommand, write: WriteFile, talked: list[str]) -> None:
    good = '{"_type": "metadata", "created_at": "2026-02-10T10:00:00"}\n{"role": "user", "content": "Hi"}\n{"role":'
    retained = write("sessions/telegram_7.jsonl", good)
    write("sessions/cli_direct.jsonl", "garbage")
    result = cuebook("sessions", "import", "sessions", "--user", "ana", "--data", "other")
    assert result.exit_code == 1
    assert "telegram_7.jsonl:3: skipped: it is not JSON" in result.stdout
    assert "no line can be read" in result.stdout
    assert result.stderr.strip() == "1 of 2 files imported"
    assert retained.read_text() == good
    listed = json.loads(cuebook("sessions", "list", "--user", "ana", "--data", "other", "--json").stdout)
    assert [row["key"] for row in listed["data"]] == ["telegram:7"]


def test_an_import_creates_the_database_if_there_is_none(cuebook: RunCommand, write: WriteFile) -> None:
    write("cli_direct.jsonl", '{"role": "user", "content": "Hello"}')
    tried = cuebook("sessions", "import", "cli_direct.jsonl", "--dry-run", "--data", "new")
    assert (tried.exit_code, Path("new").exists()) == (2, False)
    imported = cuebook("sessions", "import", "cli_direct.jsonl", "--data", "new")
    assert (imported.exit_code, imported.stderr.strip()) == (0, "1 of 1 file imported")


def test_links_in_a_folder_are_not_followed(cuebook: RunCommand, write: WriteFile, talked: list[str]) -> None:
    file = write("elsewhere/telegram_7.jsonl", '{"role": "user", "content": "Hi"}')
    write("sessions/cli_direct.jsonl", '{"role": "user", "content": "Hello"}')
    Path("sessions/link.jsonl").symlink_to(file)
    result = cuebook("sessions", "import", "sessions", "--data", "other")
    assert (result.exit_code, result.stderr.strip()) == (1, "1 of 2 files imported")
    assert "it is a symbolic link" in result.stdout
    assert cuebook("sessions", "import", "sessions/link.jsonl", "--data", "other").exit_code == 0


@pytest.mark.gate
async def test_while_a_server_runs(cuebook: RunCommand, serve: Serve, talked: list[str]) -> None:
    server = serve()
    await server.ready()
    exported = await asyncio.to_thread(cuebook, "sessions", "export", talked[0], "-o", "a.json", "--data", "data")
    assert exported.exit_code == 0, exported.stderr
    imported = await asyncio.to_thread(cuebook, "sessions", "import", "a.json", "--copy", "--data", "data", "--json")
    assert imported.exit_code == 0, imported.stderr
    assert json.loads(imported.stdout)["files"][0]["messages"] == 5


@pytest.mark.gate
@pytest.mark.parametrize(
    "arguments",
    [
        ["export"],
        ["export", "--all"],
        ["export", "no-such"],
        ["export", "--key", "no-such"],
        ["export", "7109d623-8314-4cc4-b6a2-11c8d5b88e58", "--all", "-o", "x"],
        ["import", "nowhere.json"],
    ],
)
def test_wrong_use(cuebook: RunCommand, talked: list[str], arguments: list[str]) -> None:
    result = cuebook("sessions", *arguments, "--data", "data")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr
    assert "Traceback" not in result.stderr
