"""Prompts as they were sent to a language model: in the answer of a turn, in the calls of a session, and in a command.

The endpoint's own account of what it received is what they are compared with.
"""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from api.local_files.settings_file import load_settings
from api.models.server_model import close_model, make_model
from api.settings import Settings
from runtime.models.recorded_models import ScriptedModel
from runtime.prompts.rendering import Prompts
from store.duckdb.connection import DuckDBConnection
from store.interface.private_files import FILE_NAME
from store.sql.redaction import redact_sessions
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp, RunCommand, WriteFile
from tests.support.openai_server import Endpoint

SCRIPT = """
script: leading
template_scheme: harbour
declare:
  - {var: name, type: text, pii: true}
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - ai_ask: Find out the name.
            id: ask_name
            exit: the name is known
            output: [{get: name}]
          - ai_say: Greet {{ name }}.
            id: greet
"""
JUDGED = {"progress": "completed", "exit": True, "values": {"name": "Angharad"}, "text": ""}
SAID = "Angharad of Tregaron"


def settings_for(endpoint: Any, **more: Any) -> Settings:
    return load_settings(None, {"model": "openai:tiny", "model_url": endpoint.url, "model_attempts": 1, **more}, {})


def received(endpoint: Any) -> list[dict[str, Any]]:
    """Return the prompts that the endpoint received, in the form of the API."""
    shapes = [asked.body.get("response_format", {}).get("json_schema", {}) for asked in endpoint.requests]
    return [
        {"messages": asked.body["messages"], "replySchema": shape.get("schema")}
        for asked, shape in zip(endpoint.requests, shapes, strict=True)
    ]


async def converse(api: ApiClient, endpoint: Any, **query: Any) -> tuple[Any, Any]:
    """Return a session of three calls; the answer of its second turn."""
    await api.publish_script(SCRIPT)
    endpoint.will(content="What is your name?")
    endpoint.will(content=JUDGED)
    endpoint.will(content="Hello, Angharad!")
    session = await api.create_session("leading")
    return session, (await api.send_message(session, {"content": SAID}, **query)).json()


async def prompts_of(api: ApiClient, session: Any, **request: Any) -> list[Any]:
    answer = await api.get(f"/api/sessions/{session['sessionId']}/calls", params={"debug": True}, **request)
    assert answer.status_code == 200, answer.text
    return [call["prompt"] for call in answer.json()["data"]]


@pytest.mark.parametrize("form", ["auto", "json", "text"])
async def test_prompts_are_those_that_the_endpoint_received(
    app: OpenApp, tmp_path: Path, endpoint: Endpoint, form: str
) -> None:
    async with app(tmp_path, make_model(settings_for(endpoint, model_format=form))) as api:
        session, answer = await converse(api, endpoint, debug=True)
        sent = received(endpoint)
        assert len(sent) == 3
        assert (sent[1]["replySchema"] is None) == (form != "auto")
        assert [call["prompt"] for call in answer["debugInfo"]["modelCalls"]] == sent[1:]
        assert await prompts_of(api, session) == sent


async def test_the_answer_of_a_stream_has_the_prompts_too(app: OpenApp, tmp_path: Path, endpoint: Endpoint) -> None:
    async with app(tmp_path, make_model(settings_for(endpoint))) as api:
        await api.publish_script(SCRIPT)
        endpoint.will(content="What is your name?")
        body, headers = {"userId": "ana", "scriptId": "leading"}, {"Accept": "text/event-stream"}
        answer = await api.post("/api/sessions", params={"debug": True}, json=body, headers=headers)
    turn = json.loads(answer.text.rpartition("event: turn\ndata: ")[2])
    assert [call["prompt"] for call in turn["debugInfo"]["modelCalls"]] == received(endpoint)


async def test_a_prompt_is_rendered_once_per_call(
    app: OpenApp, tmp_path: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered: list[str] = []
    render = Prompts.render

    def counted(self: Prompts, request: Any, **more: Any) -> Any:
        rendered.append(request.purpose)
        return render(self, request, **more)

    monkeypatch.setattr(Prompts, "render", counted)
    async with app(tmp_path, make_model(settings_for(endpoint))) as api:
        session, answer = await converse(api, endpoint)
        calls = (await api.read(f"/api/sessions/{session['sessionId']}/calls"))["data"]
    assert answer["debugInfo"] is None
    assert [call for call in calls if {"prompt", "reply"} & call.keys()] == []
    assert len(rendered) == len(endpoint.requests) == 3


async def test_roles_see_of_prompts_what_they_may(app: OpenApp, tmp_path: Path, endpoint: Endpoint) -> None:
    async with app(tmp_path, make_model(settings_for(endpoint))) as api:
        session, _ = await converse(api, endpoint)
        path, sent = f"/api/sessions/{session['sessionId']}/calls?debug=true", received(endpoint)
        roles = {role: {"Authorization": await api.create_key(role)} for role in ("app", "analyst", "reader", "author")}
        roles["both"] = {"Authorization": await api.create_key("author", "reader")}
        for role in ("app", "analyst", "reader"):
            refused = await api.get(path, headers=roles[role])
            assert (refused.status_code, "messages" in refused.text) == (403, False)
        assert await prompts_of(api, session, headers=roles["both"]) == sent
        masked = await prompts_of(api, session, headers=roles["author"])
    assert [prompt["messages"][0] for prompt in masked] == [prompt["messages"][0] for prompt in sent]
    assert {prompt["messages"][1]["content"] for prompt in masked} == {"[hidden]"}
    assert "Angharad" not in json.dumps(masked)


async def test_prompts_remain_as_sent_after_templates_changed(app: OpenApp, tmp_path: Path, endpoint: Endpoint) -> None:
    templates = tmp_path / "templates" / "custom" / "harbour" / "en"
    templates.mkdir(parents=True)
    data = tmp_path / "data"
    async with app(data, make_model(settings_for(endpoint))) as api:
        session, _ = await converse(api, endpoint)
        sent = received(endpoint)
    (templates / "ask.jinja").write_text("Ask like a sailor. {{ task }} {{ data }}")
    async with app(data, make_model(settings_for(endpoint, prompts=str(tmp_path / "templates")))) as api:
        assert await prompts_of(api, session) == sent
    async with app(data, ScriptedModel({})) as api:
        assert await prompts_of(api, session) == sent


async def test_the_prompt_of_a_fall_back_is_its_own(app: OpenApp, tmp_path: Path, endpoint: Endpoint) -> None:
    small = {"url": endpoint.url, "model": "small", "context_tokens_max": 1_000, "attempts": 1}
    settings = settings_for(endpoint, model_fallback="small", models={"small": small})
    async with app(tmp_path, make_model(settings)) as api:
        await api.publish_script(SCRIPT)
        endpoint.will(model="tiny", status=500)
        endpoint.will(content="What is your name?")
        session = await api.create_session("leading")
        assert [asked.model for asked in endpoint.requests] == ["tiny", "small"]
        assert await prompts_of(api, session) == received(endpoint)[1:]


async def test_prompts_are_those_of_calls_that_a_committed_turn_used(
    app: OpenApp, tmp_path: Path, endpoint: Endpoint
) -> None:
    async with app(tmp_path, make_model(settings_for(endpoint))) as api:
        await api.publish_script(SCRIPT)
        endpoint.will(content="What is your name?")
        session = await api.create_session("leading")
        endpoint.will(content=JUDGED)
        endpoint.will(status=500)
        assert (await api.send_message(session, {"content": SAID})).status_code == 503
        sent = received(endpoint)
        assert await prompts_of(api, session) == [sent[0], None, None]
        endpoint.will(content="Hello, Angharad!")
        answer = (await api.send_message(session, {"content": SAID}, debug=True)).json()
        assert [call["prompt"] for call in answer["debugInfo"]["modelCalls"]] == sent[1:]
        assert await prompts_of(api, session) == [sent[0], sent[1], None, sent[2]]


GUARDED = """
script: guarded
detectors:
  - {detector: advice, on: assistant, rules: [{words: [ibuprofen]}], replace: Ask a doctor.}
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {ai_say: Comfort them., id: comfort}
          - {ai_say: Say good night., id: night}
          - {ask: "And now?", id: later, output: [{get: later}]}
"""


async def test_prompts_do_not_contain_what_a_detector_withheld(
    app: OpenApp, tmp_path: Path, endpoint: Endpoint
) -> None:
    async with app(tmp_path, make_model(settings_for(endpoint))) as api:
        await api.publish_script(GUARDED)
        endpoint.will(content="Take ibuprofen, 400 mg.")
        endpoint.will(content="Good night.")
        session = await api.create_session("guarded")
        assert [each["content"] for each in session["messages"]] == ["Ask a doctor.", "Good night.", "And now?"]
        sent = received(endpoint)
        assert await prompts_of(api, session) == [None, sent[1]]  # a question with an attempt may contain what it says
        assert "Ask a doctor." in str(sent[1])
        assert "400 mg" not in str(sent)
    assert files_with(tmp_path, "400 mg") == []


@pytest.mark.gate
async def test_prompts_are_exported_and_imported(app: OpenApp, tmp_path: Path, endpoint: Endpoint) -> None:
    async with app(tmp_path / "one", make_model(settings_for(endpoint))) as api:
        session, _ = await converse(api, endpoint)
        document = (await api.get(f"/api/sessions/{session['sessionId']}/export")).json()
    async with app(tmp_path / "two", ScriptedModel({})) as api:
        imported = await api.post("/api/sessions/import", json=document)
        assert imported.status_code in {200, 201}, imported.text
        assert await prompts_of(api, session) == received(endpoint)
        document["session"]["session_id"] = "7d9f2c52-5a0e-4f7c-9d0b-0d6a3a1f2b11"
        document["calls"][0]["prompt"] = '{"messages": 7}'
        refused = await api.post("/api/sessions/import", json=document)
        assert (refused.status_code, "its prompt cannot be read" in refused.text) == (422, True), refused.text


async def test_a_masked_export_hides_the_data_of_prompts(app: OpenApp, tmp_path: Path, endpoint: Endpoint) -> None:
    async with app(tmp_path, make_model(settings_for(endpoint))) as api:
        session, _ = await converse(api, endpoint)
        path = f"/api/sessions/{session['sessionId']}/export?masked=true"
        calls = (await api.get(path)).json()["calls"]
    prompts = [json.loads(call["prompt"]) for call in calls]
    assert [prompt["messages"][1]["content"] for prompt in prompts] == ["[hidden]"] * 3
    assert "Angharad" not in str(prompts)


@pytest.mark.gate
@pytest.mark.database_file
async def test_an_erased_user_leaves_no_byte_of_prompts(app: OpenApp, tmp_path: Path, endpoint: Endpoint) -> None:
    async with app(tmp_path, make_model(settings_for(endpoint))) as api:
        await converse(api, endpoint)
        assert files_with(tmp_path, "Find out the name")
        erased = await api.delete("/api/users/ana", params={"compact": True})
        assert erased.status_code == 200, erased.text
    assert files_with(tmp_path, SAID) == []
    assert files_with(tmp_path, "What is to be found out") == []  # a text of prompts alone


@pytest.mark.database_file
async def test_a_redacted_session_has_no_prompts(app: OpenApp, tmp_path: Path, endpoint: Endpoint) -> None:
    async with app(tmp_path, make_model(settings_for(endpoint))) as api:
        session, _ = await converse(api, endpoint)
    with duckdb.connect(str(tmp_path / FILE_NAME)) as connection:
        redact_sessions(DuckDBConnection(connection.cursor()), "default", [session["sessionId"]], datetime.now(UTC))
        stored = connection.execute("SELECT count(*), count(prompt) FROM settled_calls").fetchone()
    assert stored == (3, 0)


def files_with(folder: Path, text: str) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


async def test_a_command_shows_prompts_and_replies(
    app: OpenApp, tmp_path: Path, endpoint: Endpoint, cuebook: RunCommand, write: WriteFile
) -> None:
    write("cuebook.toml", f'model = "openai:tiny"\nmodel_url = "{endpoint.url}"\n')
    model = make_model(settings_for(endpoint))
    async with app(tmp_path / "data", model) as api:
        session, _ = await converse(api, endpoint)
    await close_model(model)
    arguments = ("sessions", "show", session["sessionId"], "--data", tmp_path / "data")
    shown = (await asyncio.to_thread(cuebook, *arguments, "--prompts")).stdout
    for prompt in received(endpoint):
        for message in prompt["messages"]:
            assert message["content"] in shown
    assert "Hello, Angharad!" in shown.rpartition("--- reply ---")[2]
    document = json.loads((await asyncio.to_thread(cuebook, *arguments, "--prompts", "--json")).stdout)
    assert [call["prompt"] for call in document["calls"]] == received(endpoint)
    plain = json.loads((await asyncio.to_thread(cuebook, *arguments, "--calls", "--json")).stdout)
    assert [call for call in plain["calls"] if "prompt" in call] == []
