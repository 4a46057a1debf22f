"""``cuebook users``, ``sessions delete`` and ``compact``: what operators do, with and without a server."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from store.duckdb.database import Database
from store.interface.maintenance_rows import MARGIN_BYTES
from tests.support.fixture_types import OpenApp, RunCommand, Serve

DATA = ("--data", "data")


@pytest.fixture
async def talked(app: OpenApp, tmp_path: Path) -> list[str]:
    """Return the sessions of a record that no server holds: ana's two, then ben's."""
    async with app(tmp_path / "data") as api:
        sessions = [await api.create_session("diary", user=user) for user in ("ana", "ana", "ben")]
        for session in sessions:
            await api.send_texts(session, f"Schmetterling {session['sessionId']}")
    return [session["sessionId"] for session in sessions]


@pytest.fixture
def run(cuebook: RunCommand) -> Callable[..., Any]:
    """Run a command that succeeds; what it printed as documents."""

    def run(*arguments: object) -> str:
        result = cuebook(*arguments, *DATA)
        assert result.exit_code == 0, result.stderr
        text: str = result.stdout
        return text

    return run


def table(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.splitlines()]


def test_variables_are_set_and_shown(run: Callable[..., Any], talked: list[str]) -> None:
    assert table(run("users", "variables", "ana")) == [["name", "type", "source", "lastUpdated", "value"]]
    run("users", "variables", "ana", "--set", "name=Ana", "--set", "age=34", "--set", "pets=[]")
    rows = table(run("users", "variables", "ana", "--unset", "pets", "--set", "nick=a=b"))[1:]
    assert [[row[0], row[1], row[2], row[4]] for row in rows] == [
        ["age", "number", "api", "34"],
        ["name", "text", "api", '"Ana"'],
        ["nick", "text", "api", '"a=b"'],
    ]
    assert json.loads(run("users", "variables", "ana", "--json"))["age"]["value"] == 34


def test_everything_of_a_user_goes_to_a_file_or_standard_output(run: Callable[..., Any], talked: list[str]) -> None:
    run("users", "export", "ana", "-o", "ana.json")
    document = json.loads(Path("ana.json").read_text("utf-8"))
    assert {session["sessionId"] for session in document["sessions"]} == set(talked[:2])
    printed = json.loads(run("users", "export", "ana"))
    assert printed | {"exportedAt": None} == document | {"exportedAt": None}
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["ana.json", "data"]


def in_files(word: str) -> bool:
    """Return whether the files of the database contain a word; `analyst` in a comment does not count as `ana`."""
    files = (path.read_bytes() for path in Path("data").rglob("*") if path.is_file())
    return any(word.encode() in found.replace(b"analyst", b"") for found in files)


@pytest.mark.gate
@pytest.mark.database_file
def test_a_user_is_erased_and_the_file_rewritten(
    cuebook: RunCommand, run: Callable[..., Any], talked: list[str]
) -> None:
    refused = cuebook("users", "erase", "ana", *DATA)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--yes" in refused.stderr
    erased = cuebook("users", "erase", "ana", "--yes", *DATA)
    assert erased.exit_code == 0, erased.stderr
    assert dict(table(erased.stdout))["sessions"] == "2"
    assert "cuebook compact" in erased.stderr
    again = json.loads(run("users", "erase", "ana", "--yes", "--compact", "--json"))
    assert (set(again["counts"].values()), again["compacted"]) == ({0}, True)
    assert not in_files(f"Schmetterling {talked[0]}")
    assert not in_files("ana")
    assert in_files(f"Schmetterling {talked[2]}")
    (row,) = table(run("sessions", "list"))[1:]
    assert row[0] == talked[2]


def test_sessions_are_deleted(cuebook: RunCommand, run: Callable[..., Any], talked: list[str]) -> None:
    refused = cuebook("sessions", "delete", talked[0], *DATA)
    assert (refused.exit_code, "--yes" in refused.stderr) == (2, True)
    run("sessions", "delete", talked[0], "--yes")
    half = cuebook("sessions", "delete", talked[0], talked[1], "--yes", *DATA)
    assert half.exit_code == 2
    assert f"{talked[0]}: Session not found" in half.stderr
    assert f"deleted {talked[1]}" in half.stderr
    assert [row[0] for row in table(run("sessions", "list"))[1:]] == [talked[2]]


@pytest.mark.database_file
def test_the_database_is_compacted(cuebook: RunCommand, run: Callable[..., Any], talked: list[str]) -> None:
    head, row = table(run("compact", "--dry-run"))
    assert head == ["bytes", "reclaimableBytes", "neededBytes", "diskFreeBytes"]
    assert int(row[2]) >= MARGIN_BYTES
    run("sessions", "delete", talked[0], "--yes")
    done = cuebook("compact", *DATA)
    assert (done.exit_code, done.stdout) == (0, "")
    assert "compacted: " in done.stderr
    assert not in_files(f"Schmetterling {talked[0]}")
    assert json.loads(run("compact", "--json"))["bytesAfter"] > 0


@pytest.mark.database_file
def test_a_disk_without_room_is_reported(
    cuebook: RunCommand, talked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.interface.maintenance_rows.MARGIN_BYTES", 10**18)
    for arguments in (["compact"], ["users", "erase", "ana", "--yes", "--compact"]):
        refused = cuebook(*arguments, *DATA)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "free bytes on the disk" in refused.stderr.replace("\n", " ")
    assert cuebook("compact", "--dry-run", *DATA).exit_code == 1


def test_what_is_not_there(cuebook: RunCommand, talked: list[str]) -> None:
    for arguments in (
        ["users", "variables", "ana", "--data", "nowhere"],
        ["users", "variables", "ana", *DATA, "--set", "=1"],
        ["users", "variables", "ana", *DATA, "--set", f"{'x' * 201}=1"],
        ["users", "export", "ana", "--data", "nowhere"],
        ["users", "export", "ana", *DATA, "-o", "no/such/folder.json"],
        ["users", "erase", "ana", "--yes", "--data", "nowhere"],
        ["sessions", "delete", "no-such", "--yes", *DATA],
        ["compact", "--data", "nowhere"],
    ):
        result = cuebook(*arguments)
        assert (result.exit_code, result.stdout) == (2, ""), arguments
        assert result.stderr
        assert "Traceback" not in result.stderr


@pytest.mark.database_file
async def test_while_a_server_runs_it_does_the_work(cuebook: RunCommand, serve: Serve, tmp_path: Path) -> None:
    async def run(*arguments: object) -> Any:
        result = await asyncio.to_thread(cuebook, *arguments, *DATA)
        assert result.exit_code == 0, result.stderr
        return result

    server = serve()
    await server.ready()
    async with server.client() as api:
        ana, ben, eve = [await api.create_session("diary", user=user) for user in ("ana", "ben", "eve")]
        await api.send_texts(ana, "Schmetterling")
        await run("users", "variables", "ana", "--set", "name=Ana")
        assert (await api.read("/api/users/ana/variables"))["variables"]["name"]["value"] == "Ana"
        await run("users", "export", "ana", "-o", "ana.json")
        text = await asyncio.to_thread((tmp_path / "ana.json").read_text, "utf-8")
        (session,) = json.loads(text)["sessions"]
        assert session["messages"][2]["content"] == "Schmetterling"
        await run("users", "erase", "ana", "--yes", "--compact")
        await run("sessions", "delete", ben["sessionId"], "--yes")
        await run("compact")
        for gone in (ana, ben):
            assert (await api.get(f"/api/sessions/{gone['sessionId']}")).status_code == 404
        assert (await api.send_texts(eve, "still here"))["turn"] == 1
        assert (await api.get("/ready")).status_code == 200
    assert not await asyncio.to_thread(in_files, "Schmetterling")
    assert await server.stop() == 0
    Database.open(tmp_path / "data", read_only=True).close()


@pytest.mark.database_file
@pytest.mark.parametrize(
    ("folder", "command"), [("erasures", ("users", "erase", "ana", "--yes")), ("analytics", ("query", "FROM about"))]
)
def test_a_folder_that_cannot_be_written_is_named(
    cuebook: RunCommand, tmp_path: Path, talked: list[str], folder: str, command: tuple[str, ...]
) -> None:
    (tmp_path / "data" / folder).touch()  # as on a disk that can only be read: no folder can be made
    refused = cuebook(*command, *DATA)
    assert refused.exit_code == 2
    assert f"error the folder `{folder}` in the data folder cannot be written: File exists" in refused.stderr
    assert "Traceback" not in refused.stderr and "site-packages" not in refused.stderr
