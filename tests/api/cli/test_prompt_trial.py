"""``cuebook replay --turn --prompt``: one recorded call runs again with an edited prompt template."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from api.local_files.settings_file import load_settings
from api.models.server_model import close_model, make_model
from runtime.prompts.templates import Templates
from tests.support.data_folders import database_file
from tests.support.fixture_types import OpenApp, RunCommand, WriteFile
from tests.support.openai_server import Endpoint

SCRIPT = """
script: leading
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {ai_ask: Find out the name., id: ask_name, exit: the name is known, output: [{get: name}]}
          - {ai_say: "Greet {{ name }}.", id: greet}
          - {ai_say: "Say goodbye to {{ name }}.", id: leave}
"""
JUDGED = {"progress": "completed", "exit": True, "values": {"name": "Angharad"}, "text": ""}
Try = Callable[..., Any]


@pytest.fixture
def session(app: OpenApp, tmp_path: Path, endpoint: Endpoint, write: WriteFile) -> str:
    """Have a conversation with a language model: a question, then a judgement and two texts in turn 1."""
    write("cuebook.toml", f'data = "data"\nmodel = "openai:tiny"\nmodel_url = "{endpoint.url}"\nmodel_attempts = 1\n')
    model = make_model(
        load_settings(None, {"model": "openai:tiny", "model_url": endpoint.url, "model_attempts": 1}, {})
    )

    async def converse() -> str:
        async with app(tmp_path / "data", model) as api:
            await api.publish_script(SCRIPT)
            endpoint.will(content="What is your name?")
            found = await api.create_session("leading")
            for reply in (JUDGED, "Hello, Angharad!", "Goodbye, Angharad!"):
                endpoint.will(content=reply)
            await api.send_message(found, {"content": "Angharad of Tregaron"})
        await close_model(model)
        return str(found["sessionId"])

    return asyncio.run(converse())


@pytest.fixture
def edited(write: WriteFile) -> Callable[[str], Path]:
    """Write an edited copy of a default template."""

    def edit(name: Any) -> Path:
        text = Templates.load(None).find(name, "en").text
        return write(f"{name}.jinja", f"Answer as a sailor.\n{text}")

    return edit


def rows(data: Path) -> list[Any]:
    with duckdb.connect(str(database_file(data)), read_only=True) as connection:
        return connection.execute("SELECT * FROM llm_calls ORDER BY turn, number").fetchall()


def test_a_call_runs_again_with_an_edited_template(
    cuebook: RunCommand, session: str, edited: Any, endpoint: Endpoint, tmp_path: Path
) -> None:
    before, sent = rows(tmp_path / "data"), endpoint.requests[1].body["messages"]
    endpoint.will(content=JUDGED | {"values": {"name": "Cap'n Angharad"}})
    result = cuebook("replay", session, "--turn", 1, "--prompt", edited("ask"), "--json")
    assert result.exit_code == 0, result.stderr
    shown = json.loads(result.stdout)
    assert (shown["call"], shown["purpose"], shown["actionId"]) == (1, "ask", "ask_name")
    assert shown["recorded"]["values"] == {"name": "Angharad"}
    assert shown["now"]["values"] == {"name": "Cap'n Angharad"}
    system, data = endpoint.requests[-1].body["messages"]
    assert system["content"] == f"Answer as a sailor.\n{sent[0]['content']}"
    assert data == sent[1]
    assert shown["prompt"]["messages"] == [system, data]
    assert rows(tmp_path / "data") == before


def test_both_replies_are_shown_with_the_prompt(
    cuebook: RunCommand, session: str, edited: Any, endpoint: Endpoint
) -> None:
    endpoint.will(content="Farewell, matey!")
    result = cuebook("replay", session, "--turn", 1, "--prompt", edited("say"), "--call", 3)
    assert result.exit_code == 0, result.stderr
    assert "Answer as a sailor." in result.stdout
    replies = result.stdout[result.stdout.index("recorded") :]
    assert replies.index("Goodbye, Angharad!") < replies.index("Farewell, matey!")


def test_one_of_several_calls_must_be_named(cuebook: RunCommand, session: str, edited: Any, endpoint: Endpoint) -> None:
    calls, template = len(endpoint.requests), edited("say")
    result = cuebook("replay", session, "--turn", 1, "--prompt", template)
    assert result.exit_code == 2
    assert "several calls use say.jinja" in result.stderr
    assert "2 (say, greet), 3 (say, leave)" in result.stderr
    missing = cuebook("replay", session, "--turn", 1, "--prompt", template, "--call", 9)
    assert "no call has this number" in missing.stderr
    other = cuebook("replay", session, "--turn", 1, "--prompt", template, "--call", 1)
    assert "call 1 uses the template ask.jinja, not say.jinja" in other.stderr
    assert len(endpoint.requests) == calls


def test_a_call_runs_again_on_the_offline_model(
    cuebook: RunCommand, session: str, edited: Any, endpoint: Endpoint
) -> None:
    calls = len(endpoint.requests)
    result = cuebook("replay", session, "--turn", 1, "--prompt", edited("ask"), "--model", "offline", "--json")
    assert result.exit_code == 0, result.stderr
    shown = json.loads(result.stdout)
    assert shown["prompt"] is None
    assert shown["recorded"]["values"] == {"name": "Angharad"}
    assert shown["now"]["values"] != {}
    assert len(endpoint.requests) == calls


@pytest.mark.gate
@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("letter.jinja", "Hello", "the name must be that of a template: say.jinja, ask.jinja"),
        ("ask.jinja", "{{ task", "ask.jinja:1:"),
        ("ask.jinja", "  ", "is empty"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused(
    cuebook: RunCommand, session: str, write: WriteFile, endpoint: Endpoint, name: str, text: str, problem: str
) -> None:
    calls = len(endpoint.requests)
    result = cuebook("replay", session, "--turn", 1, "--prompt", write(name, text))
    assert result.exit_code == 2
    assert problem in result.stderr
    assert len(endpoint.requests) == calls


def test_a_failure_of_the_model_is_reported(cuebook: RunCommand, session: str, edited: Any, endpoint: Endpoint) -> None:
    endpoint.will(status=500)
    result = cuebook("replay", session, "--turn", 0, "--prompt", edited("ask"))
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr
    late = cuebook("replay", session, "--turn", 2, "--prompt", edited("ask"))
    assert f"session {session} has no turn 2; its last is 1" in late.stderr


@pytest.mark.parametrize(
    "options",
    [
        ("--turn", 1),
        ("--call", 1),
        ("--prompt", "ask.jinja"),
        ("--turn", 1, "--prompt", "ask.jinja", "--all"),
        ("--turn", 1, "--prompt", "ask.jinja", "--from", 1),
    ],
)
def test_options_that_do_not_fit_are_refused(cuebook: RunCommand, write: WriteFile, options: Any) -> None:
    write("ask.jinja", "{{ task }} {{ data }}")
    result = cuebook("replay", "7109d623-8314-4cc4-b6a2-11c8d5b88e58", *options)
    assert result.exit_code == 2
    assert "--prompt" in result.stderr
