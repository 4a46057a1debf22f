"""Exported sessions: every form, what is in it and what never is."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from api.catalog.catalog import Catalog
from api.local_files.settings_file import load_settings
from api.models.server_model import make_model
from api.replay.recorded_session import ReplaySource, find_session
from api.replay.replay_session import replay
from api.schemas.session_lists import FORMATS
from api.schemas.timestamps import utc_now
from runtime.models.hosted.settings import Secret
from runtime.state.limits import Limits
from store.duckdb.repositories import DuckDBSessions
from store.open_store import open_store
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp
from tests.support.openai_server import Endpoint


async def exported(api: ApiClient, session: Any, form: str = "json") -> Any:
    answer = await api.get(f"/api/sessions/{session['sessionId']}/export", params={"format": form})
    assert answer.status_code == 200, answer.text
    return answer


async def test_json_holds_everything_and_says_what_it_is(api: ApiClient) -> None:
    session = await api.create_session("visit", key="telegram:7", metadata={"plan": "gold"}, seed=5)
    await api.send_texts(session, "Ana", "34")
    answer = await exported(api, session)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["content-disposition"] == f'attachment; filename="{session["sessionId"]}.json"'
    document = answer.json()
    assert (document["format"], document["version"]) == ("cuebook.session", 1)
    fixed = document["session"]
    assert (fixed["key"], fixed["metadata"], fixed["seed"], fixed["user_id"]) == (
        "telegram:7",
        {"plan": "gold"},
        5,
        "ana",
    )
    assert [script["digest"] for script in document["scripts"]] == [fixed["digest"]]
    assert "visit-globals.yaml" in document["scripts"][0]["files"]
    assert [turn["turn"] for turn in document["turns"]] == [0, 1, 2]
    last = document["turns"][-1]
    assert last["state"]["turn"] == 2
    assert [write["name"] for write in last["variables"]] == ["age"]
    assert {event["kind"] for event in last["events"]} >= {"message", "variable", "action_left", "wait"}


@pytest.mark.database_file
async def test_a_session_that_moves_meanwhile_is_exported_as_before(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "script: tea\nphases: [{phase: p, topics: [{topic: t, actions: [{ask: Milk?, id: milk}, {say: Fine.}]}]}]\n"
    await api.publish_script(text)
    session = await api.create_session("tea")
    await api.publish_script(text.replace("Fine.", "Thanks."))
    read = DuckDBSessions.head

    async def read_before_it_moves(self: DuckDBSessions, tenant: str, session_id: str) -> Any:
        monkeypatch.undo()
        head = await read(self, tenant, session_id)
        assert (await api.post(f"/api/sessions/{session_id}/migrate", json={})).json()["moved"]
        return head

    monkeypatch.setattr(DuckDBSessions, "head", read_before_it_moves)
    document = (await exported(api, session)).json()
    assert (len(document["turns"]), document["migrations"]) == (1, [])


async def test_markdown_and_text_are_for_reading(api: ApiClient) -> None:
    session = await api.create_session("visit", key="telegram:7")
    await api.send_texts(session, "Ana")
    page = (await exported(api, session, "markdown")).text
    assert page.startswith("# Session: telegram:7\n\n## Assistant (2")
    assert page.endswith("UTC)\n\nHow old are you, Ana?\n")
    text = (await exported(api, session, "txt")).text.splitlines()
    assert text[-2:] == ["[user] Ana", "[assistant] How old are you, Ana?"]


async def test_markdown_and_text_name_attachments_and_media(api: ApiClient) -> None:
    shown = "show: {image: https://example.org/map.png, url: https://example.org}"
    text = (
        f"script: map\nphases: [{{phase: p, topics: [{{topic: t, actions: [{{{shown}}}, {{ask: Where?, id: a}}]}}]}}]\n"
    )
    await api.post("/api/scripts/import", json={"scriptName": "map", "yamlContent": text})
    session = await api.create_session("map")
    parts = [{"type": "text", "text": "Here"}, {"type": "image_url", "image_url": {"url": "https://example.org/1.png"}}]
    messages = [{"role": "user", "content": parts}, {"role": "user", "content": parts[1:]}]
    answer = await api.post(f"/api/sessions/{session['sessionId']}/messages/append", json={"messages": messages})
    assert answer.status_code == 200, answer.text
    sections = (await exported(api, session, "markdown")).text.split("\n## ")[1:]
    assert [section.split("\n\n", 1)[1].strip() for section in sections] == [
        "[image: https://example.org/map.png]\n[url: https://example.org]",
        "Where?",
        "Here\n[image_url: https://example.org/1.png]",
        "[image_url: https://example.org/1.png]",
    ]
    assert "[user] [image_url: https://example.org/1.png]\n" in (await exported(api, session, "txt")).text


async def test_json_lines_are_what_nanobot_reads(api: ApiClient) -> None:
    session = await api.create_session("visit", key="telegram:7", metadata={"plan": "gold"})
    await api.send_texts(session, "Ana")
    head, *lines = map(json.loads, (await exported(api, session, "jsonl")).text.splitlines())
    assert (head["_type"], head["key"], head["metadata"]) == ("metadata", "telegram:7", {"plan": "gold"})
    assert head["last_consolidated"] == 0
    assert datetime.fromisoformat(head["created_at"]) <= datetime.fromisoformat(head["updated_at"])
    assert [(line["role"], line["content"]) for line in lines[-2:]] == [
        ("user", "Ana"),
        ("assistant", "How old are you, Ana?"),
    ]
    assert all(datetime.fromisoformat(line["timestamp"]) for line in lines)


@pytest.mark.gate
async def test_a_long_session_comes_in_pages(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        lines = "\n".join(json.dumps({"role": role, "content": f"{role} {n}"}) for n in range(700) for role in ROLES)
        headers = {"Content-Type": "application/x-ndjson"}
        session = (await api.post("/api/sessions/import", content=lines, headers=headers)).json()
        document = (await exported(api, session)).json()
        assert [turn["turn"] for turn in document["turns"]] == list(range(701))
        said = [json.loads(line) for line in (await exported(api, session, "jsonl")).text.splitlines()[1:]]
        assert [line["content"] for line in said] == [f"{role} {n}" for n in range(700) for role in ROLES]


ROLES = ("user", "assistant")


KEY = "sk-recognisable-1d8e02"
LEADING = """
script: leading
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {ai_ask: Find out the name., id: ask_name, exit: the name is known, output: [{get: name}]}
          - say: Bye, {{ name }}.
"""
VERDICT = {"progress": "completed", "exit": True, "exit_reason": "known", "understanding": 90, "has_questions": False}


@pytest.mark.gate
async def test_calls_of_models_come_along_and_no_secret_does(app: OpenApp, endpoint: Endpoint, tmp_path: Path) -> None:
    settings = load_settings(None, {"model": "openai:tiny", "model_url": endpoint.url, "model_key": KEY}, {})
    async with app(tmp_path / "here", make_model(settings), model_key=Secret(KEY), model_url=endpoint.url) as api:
        await api.publish_script(LEADING)
        endpoint.will(content="What is your name?")
        hook = {"url": "http://127.0.0.1:9/hook", "events": ["*"]}
        webhook = (await api.post("/api/webhooks", json=hook)).json()
        session = await api.create_session("leading")
        endpoint.will(status=500, error=f"the key {KEY} is fine")
        endpoint.will(content={**VERDICT, "values": {"name": "Ana"}, "text": ""})
        await api.send_texts(session, "Ana")
        for form in FORMATS:
            content = (await exported(api, session, form)).text
            assert "Ana" in content
            assert KEY not in content
            assert webhook["secret"] not in content
            assert endpoint.url not in content
        document = (await exported(api, session)).json()
    assert [(call["turn"], call["attempts"]) for call in document["calls"]] == [(0, 1), (1, 2)]
    async with app(tmp_path / "there") as other:
        await other.post("/api/sessions/import", json=document)
        assert (await exported(other, session)).json()["calls"] == document["calls"]
    store = open_store(tmp_path / "there", read_only=True)
    try:
        source = ReplaySource(store, Catalog(store, utc_now), Limits())
        again = [turn async for turn in replay(await find_session(source, "default", session["sessionId"]))]
    finally:
        await store.close()
    assert [turn.outcome for turn in again] == ["same", "same"]


async def test_only_the_whole_document_has_what_was_removed(api: ApiClient) -> None:
    session = await api.create_session("chat")
    await api.send_texts(session, "One.", "Two.")
    document = (await exported(api, session)).json()
    last = document["turns"][-1]
    last["state"]["gaps"] = [[1, last["messages"][0]["seq"] - 1]]
    copied = (await api.post("/api/sessions/import", json=document, params={"copy": True})).json()
    for form in ("jsonl", "markdown", "txt"):
        content = (await exported(api, copied, form)).text
        assert "Two." in content
        assert "One." not in content
    assert "One." in (await exported(api, copied)).text


async def test_what_is_not_there(api: ApiClient) -> None:
    for session_id, form, code in (
        ("no-such", "json", "SESSION_NOT_FOUND"),
        ("7109d623-8314-4cc4-b6a2-11c8d5b88e58", "txt", "SESSION_NOT_FOUND"),
        ("no-such", "pdf", "REQUEST_INVALID"),
    ):
        answer = await api.get(f"/api/sessions/{session_id}/export", params={"format": form})
        assert answer.json()["error"]["code"] == code
