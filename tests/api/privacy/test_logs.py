"""The log: it tells what went wrong and where, and not a word of what anybody said or a variable holds."""

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest
import structlog

from api.logs.configuration import configure_logging, format_stack, warnings_only
from runtime.state.ports import ModelReply, ModelRequest, OnReply
from store.interface.errors import StoreUnavailable, describe_error
from tests.support.fixture_types import OpenApp
from tests.support.private_conversation import OpenConversation

CANARY = "Wilhelmina Quist"
FAILING = """
script: failing
declare:
  - {var: full_name, type: text, pii: true}
  - {var: figure, type: number}
  - {var: secret_figure, type: number, pii: true}
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - ask: What are you called?
            id: ask_name
            output: [{get: full_name}]
          - FAILS
"""
FAILS = {
    "set: {figure: full_name}\n            id: count": "ACTION_EXECUTION_ERROR",
    "set: {secret_figure: full_name}\n            id: count": "ACTION_EXECUTION_ERROR",
    "ai_say: Greet them.\n            id: greet": "INTERNAL_ERROR",
}


class Quoting:
    """A language model with a defect, which quotes what was said."""

    def goes_to(self, request: ModelRequest) -> str:
        return "main" if request.purpose == "say" else ""

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        said = request.history[-1].content
        if request.purpose != "say":
            return ModelReply(values={"full_name": said})
        raise LookupError(f"no words for {said}") from ValueError(said)


class Log:
    """All that was logged so far."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._text = ""

    @property
    def text(self) -> str:
        self._text += "".join(self._capsys.readouterr())
        return self._text


@pytest.fixture
def log(capsys: pytest.CaptureFixture[str]) -> Iterator[Log]:
    """Return what anybody logs, from debug on, as a server's log has it."""
    configure_logging("debug")
    others, root = logging.StreamHandler(sys.stderr), logging.getLogger()
    root.addHandler(others)
    yield Log(capsys)
    root.removeHandler(others)
    structlog.reset_defaults()


async def test_a_turn_that_fails_is_logged_without_what_was_said(app: OpenApp, tmp_path: Path, log: Log) -> None:
    async with app(tmp_path, Quoting()) as api:
        for number, (action, code) in enumerate(FAILS.items()):
            script = FAILING.replace("FAILS", action).replace("script: failing", f"script: failing_{number}")
            await api.publish_script(script)
            session = await api.create_session(f"failing_{number}")
            answer = await api.send_message(session, {"content": CANARY})
            assert (answer.status_code, answer.json()["error"]["code"]) == (500, code)
            request_id = answer.json()["error"]["context"]["requestId"]
            (line,) = [line for line in log.text.splitlines() if request_id in line]
            assert code in line
            assert ("LookupError" in line) == (code == "INTERNAL_ERROR")
            quotes = CANARY in answer.json()["error"]["message"]
            assert quotes == ("{figure:" in action)  # the application gets the value of what is not personal
    assert CANARY not in log.text
    assert "Quist" not in log.text


async def test_a_whole_conversation_leaves_no_word_in_the_log(
    private_conversation: OpenConversation, tmp_path: Path, log: Log, leaks: Callable[[str], list[str]]
) -> None:
    async with private_conversation(tmp_path) as conversation:
        for path in (
            f"{conversation.path}/export?masked=true",
            "/api/sessions/search?q=watermelon",
            "/api/sessions/zanzibar",
        ):
            await conversation.api.get(path)
    assert "script published" in log.text
    assert leaks(log.text) == []
    assert "watermelon" not in log.text


def test_embedding_program_gets_no_values_in_its_logs_either(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    structlog.reset_defaults()
    warnings_only()
    try:
        greeted(CANARY)
    except LookupError as error:
        structlog.get_logger().error("it broke", exc_info=error)
    structlog.reset_defaults()
    shown = capsys.readouterr().err
    assert "LookupError" in shown
    assert "in greeted" in shown
    assert CANARY not in shown


def greeted(name: str) -> None:
    raise LookupError(f"nobody is called {name}")


def test_an_exception_is_logged_with_its_origin_and_type() -> None:
    try:
        fail_of_many()
    except ExceptionGroup as group:
        stack = format_stack(group)
    assert "No space left on device" in stack
    assert "ValueError" in stack
    assert "store.interface.errors.StoreUnavailable: the disk is full" in stack
    assert "in fail_of_many" in stack
    assert CANARY not in stack


def fail_of_many() -> None:
    full = OSError(28, "No space left on device", "file")
    raise ExceptionGroup("all of them", [ValueError(CANARY), StoreUnavailable("the disk is full")]) from full


def test_the_database_is_quoted_on_files_and_memory_alone() -> None:
    connection = duckdb.connect()
    with pytest.raises(duckdb.Error) as quoting:
        connection.execute("SELECT $name::INTEGER", {"name": CANARY})
    assert CANARY in str(quoting.value)
    assert describe_error(quoting.value) == "ConversionException"
    with pytest.raises(duckdb.Error) as telling_of_file:
        connection.execute("ATTACH '/nowhere/at/all.duckdb'")
    assert "/nowhere" in describe_error(telling_of_file.value)
