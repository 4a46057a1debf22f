"""``cuebook sessions pause|resume|end|set|rewind|clear|fork``: the same operations from the command line."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.fixture_types import OpenApp, RunCommand, Serve


@pytest.fixture
async def talked(app: OpenApp, tmp_path: Path) -> str:
    """Return a session of a record that no server holds."""
    async with app(tmp_path / "data") as api:
        session = await api.create_session("diary")
        await api.send_texts(session, "one", "two")
    found: str = session["sessionId"]
    return found


@pytest.fixture
def do(cuebook: RunCommand) -> Callable[..., Any]:
    """Do something to a session, and gives what was printed."""

    def do(what: str, *arguments: str) -> Any:
        result = cuebook("sessions", what, *arguments, "--data", "data")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout) if "--json" in arguments else result.stdout

    return do


def transcript(do: Callable[..., Any], session: str) -> list[str]:
    return [message["content"] for message in do("show", session, "--json")["messages"]]


@pytest.mark.gate
def test_a_session_is_changed_and_says_where_it_stands(do: Callable[..., Any], talked: str) -> None:
    assert do("pause", talked) == f"{talked}  paused, turn 3 at main/talk/next\n"
    assert do("pause", talked, "--json")["turn"] == 3
    assert do("resume", talked, "--json")["status"] == "active"
    found = do("set", talked, "count=7", "note=a b", 'list=["x"]', "--json")
    assert {name: found["variables"][name] for name in ("count", "note", "list")} == {
        "count": 7,
        "note": "a b",
        "list": ["x"],
    }
    before = transcript(do, talked)
    assert do("rewind", talked, "--before", "1", "--json")["variables"]["count"] == 1
    assert transcript(do, talked) == before[:5]
    do("clear", talked)
    assert transcript(do, talked) == []
    assert do("end", talked, "--reason", "over", "--json")["status"] == "completed"


def test_a_session_is_copied(do: Callable[..., Any], talked: str) -> None:
    copy = do("fork", talked, "--turn", "1", "--key", "again").split()[0]
    assert copy != talked
    assert transcript(do, copy) == transcript(do, talked)[:5]
    assert do("show", copy, "--json")["key"] == "again"
    assert do("fork", talked, "--json")["turn"] == 2


def test_what_cannot_be_done_is_reported(cuebook: RunCommand, talked: str) -> None:
    for arguments, message in (
        (("pause", "no-such"), "not found"),
        (("rewind", talked), "turn"),
        (("rewind", talked, "--turn", "9"), "no turn 9"),
        (("set", talked, "count"), "NAME=VALUE"),
        (("set", talked, "count=many"), "count"),
        (("fork", talked, "--turn", "0", "--before", "0"), "either"),
    ):
        result = cuebook("sessions", *arguments, "--data", "data")
        assert (result.exit_code, result.stdout) == (2, ""), arguments
        assert message in result.stderr.replace("\n", " ")
    assert cuebook("sessions", "pause", talked, "--data", "nowhere").exit_code == 2


async def test_while_a_server_runs_it_does_it(cuebook: RunCommand, serve: Serve, tmp_path: Path) -> None:
    server = serve()
    await server.ready()
    async with server.client() as api:
        session = await api.create_session("diary")
        result = await asyncio.to_thread(cuebook, "sessions", "pause", session["sessionId"], "--data", "data")
        assert result.exit_code == 0, result.stderr
        assert (await api.send_message(session, {"content": "x"})).status_code == 409
    assert await server.stop() == 0


def test_a_rewind_names_one_place_by_its_options(cuebook: RunCommand, talked: str) -> None:
    for place in ((), ("--turn", "1", "--before", "0")):
        result = cuebook("sessions", "rewind", talked, *place, "--data", "data")
        assert (result.exit_code, result.stderr) == (
            2, "error name the turn to rewind to: either --turn or --before\n",
        )  # fmt: skip


def test_an_id_that_is_no_id_leads_nowhere_else(cuebook: RunCommand, talked: str) -> None:
    for command in ("show", "stats"):
        result = cuebook("sessions", command, f"../sessions/{talked}", "--data", "data")
        assert result.exit_code == 2
        assert "Session not found" in result.stderr
