"""What a client may say of a session when it begins, and ask to see of a turn."""

from pathlib import Path
from typing import Any

import pytest

from runtime.models.cassette_file import ScriptedReply
from runtime.models.offline_model import OfflineModel
from runtime.models.recorded_models import ScriptedModel
from runtime.state.ports import ModelReply, ModelRequest, OnReply
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp

DICE = """
script: dice
declare: [{var: born, type: date}, {var: tags, type: list}, {var: extra, type: record}, {var: sure, type: boolean}]
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - say: [one, two, three, four, five, six]
            id: first
          - say: [one, two, three, four, five, six]
            id: second
          - choose: colour
            id: colour
            question: Which?
            choices: [{R: red}, {B: blue}]
"""

LEADING = """
script: leading
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - ai_ask: Find out the name.
            id: ask_name
            output: [{get: name}]
"""

KINDS = ["message", "variable", "action_left", "action_entered", "variable", "action_left", "action_entered"]
KINDS += ["message", "action_left", "action_entered", "message", "wait"]
GREETING = """
script: greeting
phases: [{phase: p, topics: [{topic: t, actions: [{ai_say: Say hello., id: hello}, {ask: Name?, id: ask}]}]}]
"""


class Counting(OfflineModel):
    """The offline model, which counts its calls."""

    calls = 0

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        self.calls += 1
        return await super().complete(request, hear)


def said(answer: Any) -> list[str]:
    return [message["content"] for message in answer["messages"]]


async def test_metadata_and_key_are_stored(api: ApiClient) -> None:
    metadata = {"channel": {"kind": "telegram", "ids": [1, 2.5, None]}, "пометка": "да"}
    session = await api.create_session("diary", key="telegram:123", metadata=metadata)
    seen = await api.read(f"/api/sessions/{session['sessionId']}")
    assert seen["key"] == "telegram:123"
    assert metadata.items() <= seen["metadata"].items()


async def test_a_key_belongs_to_one_session(api: ApiClient) -> None:
    await api.create_session("diary", key="telegram:123")
    answer = await api.post("/api/sessions", json={"userId": "ben", "scriptId": "diary", "key": "telegram:123"})
    assert answer.status_code == 409
    error = answer.json()["error"]
    assert (error["code"], error["message"]) == ("SESSION_KEY_EXISTS", "a session with this key exists")
    assert error["context"]["key"] == "telegram:123"
    assert len((await api.read("/api/sessions"))["data"]) == 1


async def test_a_key_that_exists_is_refused_before_models_are_called(app: OpenApp, tmp_path: Path) -> None:
    model = Counting()
    async with app(tmp_path, model) as api:
        await api.publish_script(GREETING)
        await api.create_session("greeting", key="k")
        assert model.calls == 1
        answer = await api.post("/api/sessions", json={"userId": "ben", "scriptId": "greeting", "key": "k"})
        assert (answer.json()["error"]["code"], model.calls) == ("SESSION_KEY_EXISTS", 1)


async def test_the_same_seed_draws_the_same(api: ApiClient) -> None:
    await api.publish_script(DICE)
    drawn = {tuple(said(await api.create_session("dice", seed=7))) for _ in range(5)}
    assert len(drawn) == 1
    assert len({tuple(said(await api.create_session("dice"))) for _ in range(20)}) > 1


async def test_the_runtime_speaks_the_locale_of_the_session(api: ApiClient) -> None:
    await api.publish_script(DICE)
    english = await api.send_texts(await api.create_session("dice"), "green")
    chinese = await api.send_texts(await api.create_session("dice", locale="zh"), "green")
    assert "Sorry" in english["aiMessage"]
    assert "抱歉" in chinese["aiMessage"]


async def test_initial_variables_are_coerced_in_their_scopes(api: ApiClient) -> None:
    await api.publish_script(DICE)
    given = {"born": "1990-02-28", "tags": ["a", 1], "extra": {"x": None}, "sure": "true", "unknown": "kept"}
    created = await api.create_session("dice", initialVariables=given)
    cells = created["variableStore"]["session"]
    assert {name: (cell["value"], cell["type"]) for name, cell in cells.items()} == {
        "born": ("1990-02-28", "date"),
        "tags": (["a", 1], "list"),
        "extra": ({"x": None}, "record"),
        "sure": (True, "boolean"),
        "unknown": ("kept", "text"),
    }
    counted = await api.create_session("visit", initialVariables={"visits": "41", "age": "30"})
    assert (counted["globalVariables"], counted["variables"]["age"]) == ({"visits": 41}, 30)


@pytest.mark.gate
@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"age": "old"}, "age"),
        ({"channel": "pigeon"}, "web, phone"),
        ({"visits": []}, "visits"),
        ({"diary": "not a list"}, "diary"),
        ({"age": 10**400}, "at most"),
        ({"note": "x" * 20_001}, "20000"),
        ({"note": [[[[[[[[[[1]]]]]]]]]]}, "deep"),
        ({"note": list(range(1_001))}, "1000"),
        ({f"v{n}": n for n in range(1_001)}, "1000"),
        (["age"], "initialVariables"),
    ],
)
async def test_variables_that_do_not_fit_begin_no_session(api: ApiClient, variables: Any, named: str) -> None:
    body = {"userId": "ana", "scriptId": "visit", "initialVariables": variables}
    answer = await api.post("/api/sessions", json=body)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["code"] == "REQUEST_INVALID"
    assert named in error["message"]
    assert (await api.read("/api/sessions"))["data"] == []


async def test_events_are_shown_on_request_and_numbered_without_gaps(api: ApiClient) -> None:
    body = {"userId": "ana", "scriptId": "diary"}
    first = (await api.post("/api/sessions", json=body, params={"events": True})).json()
    second = (await api.send_message(first, {"content": "one"}, events=True)).json()
    events = first["events"] + second["events"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert all(set(event) == {"seq", "kind", "data"} for event in events)
    assert [event["kind"] for event in second["events"]] == KINDS
    shown = [event["data"] for event in second["events"] if event["kind"] == "message"]
    assert [message["role"] for message in shown] == ["user", "assistant", "assistant"]
    assert [message["number"] for message in shown] == [3, 4, 5]
    assert [message | {"role": "ai"} for message in shown[1:]] == second["messages"]
    written = [event["data"] for event in second["events"] if event["kind"] == "variable"]
    assert [(write["name"], write["old"], write["new"]) for write in written] == [
        ("entry", None, "one"),
        ("count", 0, 1),
    ]
    assert "events" not in await api.create_session("diary")


async def test_debug_info_shows_the_calls_of_the_model(app: OpenApp, tmp_path: Path) -> None:
    replies: dict[str, list[str | ScriptedReply]] = {
        "ask_name": ["Who are you?", ScriptedReply(exit=True, values={"name": "Ana"})]
    }
    async with app(tmp_path, ScriptedModel(replies)) as api:
        await api.publish_script(LEADING)
        session = await api.create_session("leading")
        assert session["debugInfo"] is None
        answer = (await api.send_message(session, {"content": "I am Ana"}, debug=True)).json()
    (call,) = answer["debugInfo"]["modelCalls"]
    assert (call["purpose"], call["actionId"], call["round"]) == ("ask", "ask_name", 1)
    assert (call["values"], call["exit"]) == ({"name": "Ana"}, True)
    assert answer["variables"] == {}  # the topic and what it held are over
    assert answer["sessionStatus"] == "completed"
