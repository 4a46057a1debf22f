"""``cuebook sessions`` and ``cuebook query``: the database seen from the command line, with and without a server."""

import asyncio
import csv
import io
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from api.cli.output import plain
from api.embedded import open_runtime
from tests.support.fixture_types import OpenApp, RunCommand, Serve


@pytest.fixture
async def talked(app: OpenApp, tmp_path: Path) -> list[str]:
    """Return the sessions of a record that no server holds: ana's, then ben's, who is done."""
    async with app(tmp_path / "data") as api:
        ana = await api.create_session("visit", initialVariables={"channel": "web"})
        await api.send_texts(ana, "Ana [bold]")
        ben = await api.create_session("diary", user="ben")
        await api.send_texts(ben, "one\ttwo\nthree", "stop")
    return [ana["sessionId"], ben["sessionId"]]


@pytest.fixture
def run(cuebook: RunCommand) -> Callable[..., Any]:
    """Run a command beside the event loop of the test, and gives what it printed as JSON."""

    async def run(*arguments: object) -> Any:
        result = await asyncio.to_thread(cuebook, *arguments, "--json")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    return run


def as_list(cuebook: Callable[..., Any], *filters: str) -> list[list[str]]:
    result = cuebook("sessions", "list", "--data", "data", *filters)
    assert result.exit_code == 0, result.stderr
    return [line.split("\t") for line in result.stdout.splitlines()]


@pytest.mark.gate
def test_a_list_to_go_on_with(cuebook: RunCommand, talked: list[str]) -> None:
    head, *rows = as_list(cuebook)
    assert head == ["sessionId", "userId", "status", "turn", "messageCount", "updatedAt", "title", "preview"]
    assert [row[:5] for row in rows] == [
        [talked[1], "ben", "completed", "2", "8"],
        [talked[0], "ana", "active", "1", "5"],
    ]
    assert [row[6:] for row in rows] == [["diary", "one two three"], ["First visit", "Ana [bold]"]]
    assert [row[0] for row in as_list(cuebook, "--user", "ana")[1:]] == [talked[0]]
    assert [row[0] for row in as_list(cuebook, "--status", "completed")[1:]] == [talked[1]]
    assert [row[0] for row in as_list(cuebook, "--script", "visit", "--sort", "created")[1:]] == [talked[0]]
    assert as_list(cuebook, "--key-prefix", "no")[1:] == as_list(cuebook, "--metadata", "no:no")[1:] == []
    first = cuebook("sessions", "list", "--data", "data", "--limit", "1")
    cursor = first.stderr.split("--cursor ")[1].strip()
    assert [row[0] for row in as_list(cuebook, "--cursor", cursor)[1:]] == [talked[0]]
    page = json.loads(cuebook("sessions", "list", "--data", "data", "--json").stdout)
    assert [row["sessionId"] for row in page["data"]] == talked[::-1]


def test_a_session_in_full(cuebook: RunCommand, talked: list[str]) -> None:
    result = cuebook("sessions", "show", talked[0], "--data", "data")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == f"{talked[0]}  user ana  active"
    assert lines[1] == "turn 1, waiting_input at hello/who/ask_age"
    assert "  nickname = Ana [bold]" in lines
    assert lines[-2:] == ["     user  Ana [bold]", "assistant  How old are you, Ana [bold]?"]
    shown = json.loads(cuebook("sessions", "show", talked[1], "--data", "data", "--json").stdout)
    assert (shown["status"], len(shown["messages"])) == ("completed", 8)
    assert {message["role"] for message in shown["messages"]} == {"assistant", "user"}
    seen = cuebook("sessions", "show", talked[0], "--data", "data", "--context").stdout
    assert "context newest: messages 1 to " in seen
    for option in ("--calls", "--prompts"):
        seen = cuebook("sessions", "show", talked[0], "--data", "data", option).stdout
        assert seen.splitlines()[-1] == "no language model was called"


def test_a_search_in_what_was_said(cuebook: RunCommand, talked: list[str]) -> None:
    def search(*arguments: str) -> list[list[str]]:
        result = cuebook("sessions", "search", *arguments, "--data", "data")
        assert result.exit_code == 0, result.stderr
        return [line.split("\t") for line in result.stdout.splitlines()]

    head, *rows = search("[BOLD]")
    assert head == ["sessionId", "userId", "timestamp", "number", "role", "text"]
    assert [row[3:] for row in rows] == [
        ["5", "assistant", "How old are you, Ana [bold]?"],
        ["4", "user", "Ana [bold]"],
    ]
    assert [row[0] for row in search("two", "--role", "user", "--user", "ben")[1:]] == [talked[1]]
    assert (
        search('"how are"')[1:]
        == search("two", "--session", talked[0])[1:]
        == search("two", "--script", "visit")[1:]
        == []
    )
    (hit,) = json.loads(cuebook("sessions", "search", "Ana", "--role", "user", "--data", "data", "--json").stdout)[
        "data"
    ]
    assert hit["message"]["excerpt"] == [{"text": "Ana", "found": True}, {"text": " [bold]", "found": False}]


def test_what_a_session_came_to(cuebook: RunCommand, talked: list[str]) -> None:
    result = cuebook("sessions", "stats", talked[0], "--data", "data")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[:3] == [f"sessionId {talked[0]}", "turns 2", "messages 5"]
    assert "user 1 messages, 10.0 characters on average" in lines
    assert lines[-1] == "models 0 calls, 0 tokens in, 0 out"


def test_what_is_not_there(cuebook: RunCommand, talked: list[str]) -> None:
    for arguments in (
        ["sessions", "show", "no-such", "--data", "data"],
        ["sessions", "stats", "no-such", "--data", "data"],
        ["sessions", "search", " ", "--data", "data"],
        ["sessions", "list", "--data", "nowhere"],
        ["sessions", "list", "--data", "data", "--cursor", "rubbish"],
        ["query", "SELECT 1", "--data", "nowhere"],
    ):
        result = cuebook(*arguments)
        assert (result.exit_code, result.stdout) == (2, ""), arguments
        assert result.stderr
        assert "Traceback" not in result.stderr
    assert not Path("nowhere").exists()


@pytest.mark.database_file
@pytest.mark.parametrize("command", ["sessions list", "verify", "users export ana", "replay --all"])
def test_file_in_place_of_the_data_folder_is_named(cuebook: RunCommand, talked: list[str], command: str) -> None:
    result = cuebook(*command.split(), "--data", "data/cuebook.duckdb")
    assert result.exit_code == 2
    assert "data/cuebook.duckdb is a file" in result.stderr


@pytest.mark.database_file
@pytest.mark.parametrize("command", ["sessions list", "keys list", "verify", "query 1"])
def test_data_folder_that_the_system_refuses_is_an_error(cuebook: RunCommand, command: str) -> None:
    result = cuebook(*command.split(), "--data", "x" * 300)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "xxx cannot be opened: " in "".join(result.stderr.splitlines())


@pytest.mark.parametrize("command", ["simulate --data", "copy --to new --from"])
def test_file_name_that_the_system_refuses_is_an_error(cuebook: RunCommand, command: str) -> None:
    result = cuebook(*command.split(), "x" * 300)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "File name too long" in " ".join(result.stderr.split())


async def test_while_a_server_runs_it_is_asked(run: Callable[..., Any], serve: Serve) -> None:
    server = serve()
    await server.ready()
    async with server.client() as api:
        session = await api.create_session("diary")
        await api.send_texts(session, "one")
    where = ["--data", "data"]
    page = await run("sessions", "list", *where)
    assert [row["sessionId"] for row in page["data"]] == [session["sessionId"]]
    shown = await run("sessions", "show", session["sessionId"], *where)
    assert [message["content"] for message in shown["messages"]][2:4] == ["one", "Entry 1: one"]
    assert await server.stop() == 0
    assert await run("sessions", "show", session["sessionId"], *where) == shown


@pytest.mark.database_file
async def test_a_server_out_of_reach_is_named(cuebook: RunCommand, serve: Serve, tmp_path: Path) -> None:
    server = serve()
    await server.ready()
    (tmp_path / "data" / "server-address").write_text("http://127.0.0.1:1")
    listed = await asyncio.to_thread(cuebook, "sessions", "list", "--data", "data")
    assert listed.exit_code == 2
    assert "http://127.0.0.1:1" in listed.stderr.replace("\n", "")


async def test_server_on_an_ipv6_address_is_asked(run: Callable[..., Any], serve: Serve) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    server = serve("--host", "::1")
    server.url = f"http://[::1]:{server.port}"
    await server.ready()
    async with server.client() as api:
        session = await api.create_session("diary")
    (row,) = (await run("sessions", "list", "--data", "data"))["data"]
    assert row["sessionId"] == session["sessionId"]


@pytest.mark.database_file
async def test_a_command_reaches_no_server_of_another_folder(
    cuebook: RunCommand, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    await server.ready()
    monkeypatch.setenv("CUEBOOK_PORT", str(server.port))
    async with server.client() as api:
        session = await api.create_session("diary", user="ana")
        async with open_runtime(tmp_path / "other"):
            erased = await asyncio.to_thread(cuebook, "users", "erase", "ana", "--yes", "--data", "other")
        assert erased.exit_code == 2
        assert "in use by a program that is no server" in erased.stderr.replace("\n", " ")
        assert (await api.get(f"/api/sessions/{session['sessionId']}")).status_code == 200


async def test_server_on_this_machine_is_called_without_a_proxy(
    run: Callable[..., Any], serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    await server.ready()
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert (await run("sessions", "list", "--data", "data"))["data"] == []


SQL = "SELECT role, content FROM messages WHERE user_id = 'ben' ORDER BY seq LIMIT 3"
ROWS = [["assistant", "Dear diary."], ["assistant", "What comes after 0?"], ["user", "one\ttwo\nthree"]]


def test_a_query_in_every_format(cuebook: RunCommand, talked: list[str]) -> None:
    table = cuebook("query", SQL, "--unmasked", "--data", "data")
    assert table.exit_code == 0, table.stderr
    assert table.stdout.splitlines() == [
        "role\tcontent",
        "assistant\tDear diary.",
        "assistant\tWhat comes after 0?",
        "user\tone two three",
    ]
    text = cuebook("query", SQL, "--unmasked", "--data", "data", "--format", "csv").stdout
    assert list(csv.reader(io.StringIO(text))) == [["role", "content"], *ROWS]
    document = json.loads(cuebook("query", SQL, "--unmasked", "--data", "data", "--format", "json").stdout)
    assert document == [{"role": role, "content": content} for role, content in ROWS]


def test_a_query_of_odd_values(cuebook: RunCommand, talked: list[str]) -> None:
    sql = "SELECT now() AS t, uuid() AS u, 1.5::DECIMAL(4,2) AS d, [1, NULL] AS l, {'a': 1} AS s, NULL AS n"
    sql += ", 'x'::BLOB AS b, current_date AS day, INTERVAL 1 DAY AS i, 'nan'::DOUBLE AS nan, 10::HUGEINT ** 30 AS huge"
    for style in ("table", "csv", "json"):
        result = cuebook("query", sql, "--data", "data", "--format", style)
        assert result.exit_code == 0, result.stderr
    (row,) = json.loads(result.stdout)
    assert (row["l"], row["s"], row["n"]) == ([1, None], {"a": 1}, None)


def test_a_query_prints_the_json_of_the_server(cuebook: RunCommand, talked: list[str]) -> None:
    sql = "SELECT '1000000000000000000000000000007'::HUGEINT AS big, INTERVAL '1.000002 s' AS spent"
    sql += ", '12:00:00+02'::TIMETZ AS t"
    printed = cuebook("query", sql, "--data", "data", "--format", "json").stdout
    assert json.loads(printed) == [{"big": 10**30 + 7, "spent": "PT1.000002S", "t": "12:00:00+02:00"}]
    assert printed.endswith("]\n")
    cuebook("query", sql, "--data", "data", "--format", "table", "-o", "one.csv")
    assert Path("one.csv").read_text().splitlines()[1] == f"{10**30 + 7},PT1.000002S,12:00:00+02:00"


def test_a_query_of_more_rows_than_wanted_says_so(cuebook: RunCommand, talked: list[str]) -> None:
    result = cuebook("query", "SELECT * FROM range(5)", "--rows", "2", "--data", "data")
    assert result.stdout.splitlines() == ["range", "0", "1"]
    assert "--rows" in result.stderr


@pytest.mark.parametrize("text", ["\x1b[31mred", "\x9b2J", "a\u202eb", "bell\x07"])
def test_what_people_say_gives_the_terminal_no_orders(text) -> None:
    assert plain(text) != text
    assert not any(each in plain(text) for each in "\x1b\x9b\u202e\x07")
    assert plain("你好\n\tAna – fine") == "你好\n\tAna – fine"
