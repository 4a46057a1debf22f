"""``cuebook migrate`` and ``cuebook check --against``: what a new version does to running sessions, and doing it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.fixture_types import OpenApp, RunCommand, Serve, WriteFile

OLD = """\
script: talk
phases:
  - phase: main
    topics:
      - topic: who
        actions:
          - {say: Welcome., id: welcome}
          - {ask: Your name?, id: ask_name, output: [{get: name}]}
          - {ask: Your age?, id: ask_age, output: [{get: age, type: number}]}
      - topic: more
        actions: [{ask: Anything else?, id: ask_more}]
"""
RENAMED = OLD.replace("ask_age", "how_old") + "migrations: {actions: {main/who/ask_age: main/who/how_old}}\n"
BLOCKS = OLD.replace("topic: more", "topic: rest")


@pytest.fixture
async def talked(app: OpenApp, tmp_path: Path) -> list[str]:
    """Sessions of the first version: at the name, at the age, in the last topic, and one that is over."""
    (tmp_path / "old.yaml").write_text(OLD)
    async with app(tmp_path / "data") as api:
        await api.publish_script(OLD)
        sessions = []
        for replies in ([], ["Ana"], ["Ben", "3"], ["Cy", "4", "no"]):
            session = await api.create_session("talk")
            sessions.append(session["sessionId"])
            for reply in replies:
                await api.send_texts(session, reply)
        await api.create_session("diary")
    return sessions


def rows(result: Any) -> dict[str, list[str]]:
    head, *found = [line.split("\t") for line in result.stdout.splitlines()]
    assert head == ["sessionId", "place", "verdict", "newPlace", "why"]
    return {row[0]: row[1:] for row in found}


@pytest.mark.slow
def test_a_dry_run_with_a_file_publishes_and_moves_nothing(cuebook: RunCommand, write: WriteFile, talked: Any) -> None:
    write("new.yaml", RENAMED)
    result = cuebook("migrate", "new.yaml", "--dry-run", "--data", "data")
    assert result.exit_code == 0, result.stderr
    assert rows(result) == {
        talked[0]: ["main/who/ask_name", "safe", "", ""],
        talked[1]: ["main/who/ask_age", "mapped", "main/who/how_old", "main/who/ask_age is main/who/how_old now"],
        talked[2]: ["main/more/ask_more", "safe", "", ""],
    }
    assert result.stderr.strip() == "4 sessions: 2 safe, 1 mapped, 1 ended"
    sql = "SELECT DISTINCT script_version FROM sessions"
    assert cuebook("query", sql, "--data", "data").stdout.split() == ["script_version", "1"]
    sql = "SELECT count(*) FROM scripts WHERE script_id = 'talk'"
    assert cuebook("query", sql, "--data", "data").stdout.split()[-1] == "1"


@pytest.mark.slow
def test_file_is_published_sessions_migrated_and_one_undone(cuebook: RunCommand, write: WriteFile, talked: Any) -> None:
    write("new.yaml", RENAMED)
    result = cuebook("migrate", "new.yaml", "--data", "data", "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert (document["moved"], document["summary"]) == (3, {"ended": 1, "safe": 2, "mapped": 1})
    shown = json.loads(cuebook("sessions", "show", talked[1], "--data", "data", "--json").stdout)
    assert (shown["position"]["actionId"], shown["turn"]) == ("how_old", 2)
    again = cuebook("migrate", "talk", "--data", "data")
    assert again.stderr.strip() == "4 sessions: 1 ended, 3 current; 0 migrated"
    back = cuebook("migrate", "--undo", talked[1], "--data", "data")
    assert (back.exit_code, back.stderr.strip()) == (0, "moved back from version 2 to version 1, at main/who/ask_age")
    assert cuebook("migrate", "--undo", talked[1], "--data", "data").exit_code == 2
    sql = "SELECT kind, verdict, from_version, to_version FROM session_migrations ORDER BY turn, kind, verdict"
    assert cuebook("query", sql, "--data", "data").stdout.splitlines()[1:] == [
        "migrate\tsafe\t1\t2",
        "migrate\tmapped\t1\t2",
        "migrate\tsafe\t1\t2",
        "undo\tsafe\t2\t1",
    ]


@pytest.mark.gate
def test_blocked_sessions_stay_and_the_command_says_so(cuebook: RunCommand, write: WriteFile, talked: Any) -> None:
    write("new.yaml", BLOCKS)
    result = cuebook("migrate", "new.yaml", "--data", "data", "--only", "safe")
    assert result.exit_code == 1
    assert rows(result)[talked[2]][1] == "blocked"
    assert "main/more is gone" in rows(result)[talked[2]][3]
    assert result.stderr.strip() == "4 sessions: 2 safe, 1 blocked, 1 ended; 2 migrated"
    back = cuebook("migrate", "talk", "--to", "1", "--session", talked[0], "--data", "data")
    assert (back.exit_code, list(rows(back))) == (0, [talked[0]])


@pytest.mark.gate
@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nobody"],
        ["talk", "--to", "9"],
        ["talk", "--only", "mappped"],
        ["talk", "--session", "none"],
        ["broken.yaml"],
        ["old.yaml", "--to", "1"],
        ["--undo", "none"],
    ],
)
def test_wrong_use_is_reported_and_changes_nothing(
    cuebook: RunCommand, write: WriteFile, talked: Any, arguments: list[str]
) -> None:
    write("broken.yaml", "script: talk\n")
    result = cuebook("migrate", *arguments, "--data", "data")
    if arguments == ["talk", "--to", "9"]:  # said of each session
        assert result.exit_code == 1
        assert "has no version 9" in result.stdout
    else:
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr
    assert "Traceback" not in result.stderr


async def test_while_a_server_runs_it_moves_them(cuebook: RunCommand, write: WriteFile, serve: Serve) -> None:
    server = serve()
    await server.ready()
    write("new.yaml", RENAMED)
    async with server.client() as api:
        await api.publish_script(OLD)
        session = await api.create_session("talk")
        await api.send_texts(session, "Ana")
        looked = await asyncio.to_thread(cuebook, "migrate", "new.yaml", "--dry-run", "--data", "data")
        assert rows(looked)[session["sessionId"]][1] == "mapped"
        moved = await asyncio.to_thread(cuebook, "migrate", "new.yaml", "--data", "data")
        assert moved.exit_code == 0, moved.stderr
        assert (await api.send_texts(session, "34"))["position"]["actionId"] == "ask_more"


def test_a_script_is_checked_against_the_version_before(cuebook: RunCommand, write: WriteFile, talked: Any) -> None:
    write("new.yaml", OLD.replace("ask_age", "how_old"))
    result = cuebook("check", "new.yaml", "--against", "old.yaml")
    assert result.exit_code == 0
    assert "warning ID_REMOVED the action main/who/ask_age was removed" in result.stdout
    assert cuebook("check", "new.yaml", "--against", "old.yaml", "--strict").exit_code == 1
    result = cuebook("check", "new.yaml", "--against-data", "data")
    assert "main/who/ask_age was removed; 1 running session is there" in result.stdout
    assert "3 running sessions" in result.stderr
    assert cuebook("check", "old.yaml", "--against-data", "data", "--strict").exit_code == 0


def test_nothing_to_compare_with_is_reported(cuebook: RunCommand, write: WriteFile, talked: Any) -> None:
    write("other.yaml", OLD.replace("script: talk", "script: other"))
    write("broken.yaml", "script: talk\n")
    for arguments in (["--against-data", "data"], ["--against", "broken.yaml"], ["old.yaml", "--against", "old.yaml"]):
        result = cuebook("check", "other.yaml", *arguments)
        assert (result.exit_code, result.stdout) == (2, ""), arguments
        assert result.stderr
