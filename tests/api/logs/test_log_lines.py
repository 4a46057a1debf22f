"""Lines of the log: JSON, with the session, script and action of a turn that failed, none for what is no failure."""

import asyncio
import json
import os
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from api.errors import log_failure, translate
from api.logs.configuration import configure_logging, log_unawaited
from runtime.models.offline_model import OfflineModel
from runtime.state.ports import ModelFailed, ModelReply, ModelRequest, OnReply, Usage
from store.interface.errors import DatabaseUnreachable, WriteFailed
from tests.support.fixture_types import OpenApp, Serve
from tests.support.server_process import start_cuebook

WORDS = "Wilhelmina Quist"
SCRIPT = """
script: greeting
declare: [{var: full_name}, {var: figure, type: number}]
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {ask: What are you called?, id: ask_name, output: [{get: full_name}]}
          - ACTION
"""
ACTIONS = {
    "greet": ("ai_say: Greet them.\n            id: greet", "LLM_SERVICE_ERROR"),
    "broken": ("ai_say: Greet them.\n            id: broken", "INTERNAL_ERROR"),
    "count": ("set: {figure: full_name}\n            id: count", "ACTION_EXECUTION_ERROR"),
}


class Failing(OfflineModel):
    """A language model that fails, and one with a defect."""

    def goes_to(self, request: ModelRequest) -> str:
        return "main"

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        if request.action_id == "thank":
            return ModelReply(text=WORDS, usage=Usage(model="m-1", input_tokens=7, output_tokens=3))
        if request.action_id == "greet":
            raise ModelFailed("the endpoint is down")
        raise LookupError(WORDS)


Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Iterator[Lines]:
    """Return the lines that were logged since the last call, at the level of the test."""
    configure_logging(getattr(request, "param", "info"))
    yield lambda: [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    structlog.reset_defaults()


async def test_unawaited_error_is_logged_without_its_message(lines: Lines) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(log_unawaited)

    def fail(error: Exception) -> None:
        raise error

    loop.call_soon(fail, LookupError(WORDS))
    await asyncio.sleep(0.01)
    (line,) = lines()
    assert (line["event"], line["level"]) == ("an error in the background", "error")
    assert line["exception"].endswith("LookupError")
    assert WORDS not in str(line)


@pytest.mark.parametrize("action", ACTIONS)
async def test_the_line_of_a_failed_turn_says_where(app: OpenApp, tmp_path: Path, lines: Lines, action: str) -> None:
    text, code = ACTIONS[action]
    async with app(tmp_path, Failing()) as api:
        await api.publish_script(SCRIPT.replace("ACTION", text))
        await api.publish_script(SCRIPT.replace("ACTION", text).replace("you called", "your name"))
        session = await api.create_session("greeting")
        lines()
        answer = await api.send_message(session, {"content": WORDS})
        assert answer.json()["error"]["code"] == code
        (line,) = [each for each in lines() if each["level"] == "error"]
    context = answer.json()["error"]["context"]
    assert line["code"] == code
    assert line["request_id"] == context["requestId"]
    wanted = {
        "session_id": session["sessionId"],
        "script": "greeting",
        "script_version": 2,
        "turn": 1,
        "phase_id": "p",
        "topic_id": "t",
        "action_id": action,
    }
    assert {name: line.get(name) for name in wanted} == wanted
    assert WORDS not in json.dumps(line)


@pytest.mark.database_file
async def test_a_commit_that_fails_names_its_session(
    app: OpenApp, tmp_path: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with app(tmp_path) as api:
        session = await api.create_session("visit")

        def fail(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr("store.duckdb.database.Database.sync_log", fail)
            answer = await api.send_message(session, {"content": "Ana"})
        assert answer.json()["error"]["code"] == "DATABASE_UNAVAILABLE"
        (line,) = [each for each in lines() if each["level"] == "error" and "session_id" in each]
        assert (line["session_id"], line["script"], line["turn"]) == (session["sessionId"], "visit", 1)
        assert WriteFailed.__name__ in line["exception"]


@pytest.mark.parametrize(("log_format", "line"), [("json", '{"event": "started", '), (None, "\x1b")])
def test_terminal_gets_json_lines_only_on_request(
    monkeypatch: pytest.MonkeyPatch, log_format: str | None, line: str
) -> None:
    reader, writer = os.openpty()
    with os.fdopen(reader, "rb", buffering=0) as screen, os.fdopen(writer, "w") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        configure_logging("info", log_format)
        structlog.get_logger().info("started")
        terminal.flush()
        assert screen.read(1_000).decode().startswith(line)
    structlog.reset_defaults()


async def test_file_gets_texts_without_colours_on_request(serve: Serve) -> None:
    server = serve("--log", "text")
    await server.ready()
    await server.stop()
    assert "[info     ] script published" in server.log
    assert "Cuebook serves" in server.log
    assert "\x1b" not in server.log


def test_unreachable_database_is_a_line_without_a_stack(lines: Lines) -> None:
    error = DatabaseUnreachable("the read failed: the connection was lost")
    log_failure(translate(error), error, "request-1", "/api/sessions")
    (line,) = lines()
    assert (line["code"], line["problem"]) == ("DATABASE_UNAVAILABLE", str(error))
    assert "exception" not in line


@pytest.mark.parametrize("lines", ["debug"], indirect=True)
async def test_debug_tells_of_turns_calls_and_groups(app: OpenApp, tmp_path: Path, lines: Lines) -> None:
    async with app(tmp_path, Failing()) as api:
        await api.publish_script(SCRIPT.replace("ACTION", "ai_say: Thank them.\n            id: thank"))
        lines()
        session = await api.create_session("greeting")
        assert (await api.send_message(session, {"content": WORDS})).status_code == 200
        assert (await api.get("/api/sessions/nothing")).status_code == 404
        found = lines()
    by_event: dict[str, list[dict[str, Any]]] = {}
    for line in found:
        by_event.setdefault(line["event"], []).append(line)
    turns = by_event["a turn was committed"]
    assert [(line["turn"], line["actions"]) for line in turns] == [(0, ["ask_name"]), (1, ["thank"])]
    assert {line["session_id"] for line in turns} == {session["sessionId"]}
    assert {(line["script"], line["script_version"]) for line in turns} == {("greeting", 1)}
    assert all(line["ms"] >= 0 for line in turns)
    (call,) = by_event["a model was called"]
    assert (call["session_id"], call["turn"], call["action_id"]) == (session["sessionId"], 1, "thank")
    assert (call["purpose"], call["outcome"], call["input_tokens"]) == ("say", "done", 7)
    assert sum(line["turns"] for line in by_event["a group was committed"]) == 2
    assert [line["code"] for line in by_event["a request was refused"]] == ["SESSION_NOT_FOUND"]
    assert WORDS not in json.dumps(found)


async def test_without_debug_there_is_none_of_it(app: OpenApp, tmp_path: Path, lines: Lines) -> None:
    async with app(tmp_path) as api:
        lines()
        session = await api.create_session("visit")
        await api.send_texts(session, "Ana")
        await api.get("/api/sessions/nothing")
        assert lines() == []


def cut_off(port: int, sent: bytes, *, reset: bool) -> None:
    """Send the beginning of a request, and goes away."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        if reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(b"POST /api/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + sent)


@pytest.mark.slow
async def test_a_client_that_goes_away_is_no_error(serve: Serve, tmp_path: Path) -> None:
    server = serve(start=start_cuebook, CUEBOOK_LOG_LEVEL="debug")
    await server.ready()
    whole = b'{"userId": "ana", "scriptId": "visit"}'
    for sent in (
        b'Content-Length: 1000\r\n\r\n{"userId":',
        b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"use',
        b"Content-Length: 5000000\r\n\r\n" + b"x" * 100_000,
        b"Content-Length: %d\r\n\r\n%s" % (len(whole), whole),
    ):
        for reset in (True, False):
            await asyncio.to_thread(cut_off, server.port, sent, reset=reset)
    async with server.client() as client:
        counts = (await client.get("/metrics")).text
        while 'code="REQUEST_INCOMPLETE"' not in counts:
            counts = (await client.get("/metrics")).text
    await server.stop()
    found = [json.loads(line) for line in server.log.splitlines()]  # every line of it is JSON, the first too
    assert [line for line in found if line["level"] in {"error", "warning"}] == []
    assert "INTERNAL_ERROR" not in server.log
    assert "exception" not in {name for line in found for name in line}
    (started,) = [line for line in found if line["event"] == "server started"]
    assert (started["address"], started["model"]) == (server.url, "offline")
    assert "no API keys" in started["access"]
