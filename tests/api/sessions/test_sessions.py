"""The routes of a session: their documented fields, and a conversation through every kind of wait."""

from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from tests.support.api_client import ApiClient

POSITION = {
    "phaseIndex": int,
    "phaseId": str,
    "topicIndex": int,
    "topicId": str,
    "actionIndex": int,
    "actionId": str,
    "actionType": str,
    "currentRound": int,
    "maxRounds": int,
}
STORE = dict.fromkeys(("global", "session", "phase", "topic"), dict)
SNAPSHOT = {
    "executionStatus": str,
    "position": dict,
    "variables": dict,
    "globalVariables": dict,
    "variableStore": dict,
    "turn": int,
    "wait": dict,
}
TURN = SNAPSHOT | {"sessionId": str, "status": str, "aiMessage": str, "messages": list, "debugInfo": type(None)}
CREATED = TURN | {"createdAt": str}
ANSWERED = TURN | {"sessionStatus": str}
SEEN = SNAPSHOT | {
    "sessionId": str,
    "userId": str,
    "scriptId": str,
    "scriptVersion": int,
    "model": type(None),
    "status": str,
    "key": type(None),
    "locale": str,
    "metadata": dict,
    "script": dict,
    "createdAt": str,
    "updatedAt": str,
    "completedAt": type(None),
    "redactedAt": type(None),
    "aiMessage": str,
    "error": type(None),
}
MESSAGE = dict.fromkeys(("messageId", "role", "content", "timestamp", "actionId"), str)
MESSAGE |= {"number": int, "metadata": dict}
WORDY = """
script: wordy
use: [shared.yaml]
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {set: {word: "'one'"}, id: write}
          - {say: Hello., id: hello}
          - {ask: First?, id: first, output: [{get: a}]}
          - {ask: Second?, id: second, output: [{get: b}]}
          - {ask: Third?, id: third, output: [{get: c}]}
          - {ask: Fourth?, id: fourth, output: [{get: d}]}
"""
CELL = {"value": object, "type": str, "lastUpdated": str | None, "source": str}  # a project's default has no time


def assert_shape(found: Any, shape: dict[str, Any]) -> None:
    """Assert that an object has exactly these fields with these types."""
    assert set(found) == set(shape)
    for name, kind in shape.items():
        assert isinstance(found[name], kind), (name, found[name])


def assert_snapshot(found: Any) -> None:
    assert_shape(found["position"], POSITION)
    assert_shape(found["variableStore"], STORE)
    for cells in found["variableStore"].values():
        for cell in cells.values():
            assert_shape(cell, CELL)


def is_utc(text: str) -> bool:
    offset = datetime.fromisoformat(text).utcoffset()
    return offset is not None and not offset


def texts(answer: Any) -> list[str]:
    return [message["content"] for message in answer["messages"]]


async def test_creation_has_the_documented_fields_and_first_messages(api: ApiClient) -> None:
    created = await api.create_session("visit")
    assert_shape(created, CREATED)
    assert_snapshot(created)
    UUID(created["sessionId"])
    assert is_utc(created["createdAt"])
    assert (created["status"], created["executionStatus"], created["turn"]) == ("active", "waiting_input", 0)
    assert texts(created) == ["Welcome.", "This takes a minute.", "What may I call you?"]
    assert created["aiMessage"] == "Welcome.\n\nThis takes a minute.\n\nWhat may I call you?"
    assert [message["actionId"] for message in created["messages"]] == ["welcome", "length", "ask_name"]
    for message in created["messages"]:
        assert_shape(message, MESSAGE)
        assert message["role"] == "ai"
        assert is_utc(message["timestamp"])
    assert created["position"] == {
        "phaseIndex": 0,
        "phaseId": "hello",
        "topicIndex": 0,
        "topicId": "who",
        "actionIndex": 2,
        "actionId": "ask_name",
        "actionType": "ask",
        "currentRound": 0,
        "maxRounds": 3,
    }
    assert created["wait"] == {"kind": "text"}


async def test_an_answer_has_the_documented_fields(api: ApiClient) -> None:
    session = await api.create_session("visit")
    answer = await api.send_texts(session, "Ana")
    assert_shape(answer, ANSWERED)
    assert_snapshot(answer)
    assert (answer["sessionStatus"], answer["executionStatus"], answer["turn"]) == ("active", "waiting_input", 1)
    assert texts(answer) == ["How old are you, Ana?"]
    assert answer["variables"] == {"visits": 0, "nickname": "Ana"}
    assert answer["globalVariables"] == {"visits": 0}


async def test_a_conversation_through_every_kind_of_wait(api: ApiClient) -> None:
    session = await api.create_session("visit")
    assert texts(await api.send_texts(session, "Ana", "300")) == ["A number from 1 to 120, please."]
    asked = await api.send_texts(session, "30")
    assert asked["wait"] == {
        "kind": "choice",
        "choices": [{"key": "A", "text": "well"}, {"key": "B", "text": "so so"}],
    }
    chosen = (await api.send_message(session, {"choice": "B"})).json()
    assert texts(chosen) == ["Noted as B, Ana."]
    assert chosen["wait"] == {"kind": "suggestion", "suggestion": "Go on, please."}
    ready = await api.send_texts(session, "Something else")
    assert texts(ready) == ["That was visit 1. Ready?"]
    assert ready["wait"] == {"kind": "acknowledge"}
    ended = await api.send_texts(session, "")
    assert texts(ended) == ["Goodbye."]
    assert (ended["sessionStatus"], ended["executionStatus"], ended["wait"]) == ("completed", "completed", None)


async def test_completed_session_has_no_position_and_takes_no_message(api: ApiClient) -> None:
    session = await api.create_session("diary")
    ended = await api.send_texts(session, "stop")
    nowhere = {"phaseId": "", "topicId": "", "actionId": "", "actionType": ""}
    assert nowhere.items() <= ended["position"].items()
    seen = await api.read(f"/api/sessions/{session['sessionId']}")
    assert nowhere.items() <= seen["position"].items()
    assert seen["status"] == "completed"
    assert is_utc(seen["completedAt"])
    refused = await api.send_message(session, {"content": "more"})
    assert refused.status_code == 409
    assert refused.json()["error"]["code"] == "SESSION_ENDED"
    assert await api.transcript(session) == [
        ("assistant", "Dear diary."),
        ("assistant", "What comes after 0?"),
        ("user", "stop"),
        ("assistant", "Entry 1: stop"),
        ("assistant", "Closed after 1."),
    ]


async def test_a_session_has_the_documented_fields(api: ApiClient) -> None:
    session = await api.create_session("visit", metadata={"origin": "clinic"})
    answer = await api.get(f"/api/sessions/{session['sessionId']}")
    assert answer.headers["etag"] == '"0"'
    seen = answer.json()
    assert_shape(seen, SEEN)
    assert_snapshot(seen)
    assert (seen["userId"], seen["sessionId"]) == ("ana", session["sessionId"])
    assert set(seen["metadata"]) == {"origin"}
    outline = seen["script"]["session"]
    assert (outline["session_id"], outline["session_name"]) == ("visit", "First visit")
    assert [phase["phase_id"] for phase in outline["phases"]] == ["hello", "bye"]
    first = outline["phases"][0]["topics"][0]
    assert (first["topic_id"], first["topic_name"]) == ("who", "Who it is")
    assert first["actions"][2] == {"action_id": "ask_name", "action_type": "ask"}
    shared = SNAPSHOT.keys()
    assert {name: seen[name] for name in shared} == {name: session[name] for name in shared}


async def test_messages_come_in_pages_with_the_users_own(api: ApiClient) -> None:
    session = await api.create_session("diary")
    await api.send_texts(session, "one", "two")
    path = f"/api/sessions/{session['sessionId']}/messages"
    whole = await api.read(path)
    assert set(whole) == {"success", "data", "nextCursor"}
    assert (whole["success"], whole["nextCursor"]) == (True, None)
    for message in whole["data"]:
        assert_shape(message, MESSAGE)
    assert [message["role"] for message in whole["data"]] == ["ai", "ai", "user", "ai", "ai", "user", "ai", "ai"]
    first = await api.read(path, limit=5)
    assert first["nextCursor"] == "5"
    rest = await api.read(path, limit=5, cursor="5")
    assert rest == await api.read(path, limit=5, after=5)
    assert first["data"] + rest["data"] == whole["data"]
    assert rest["nextCursor"] is None


async def test_a_list_without_parameters_has_the_newest_messages(api: ApiClient) -> None:
    session = await api.create_session("diary")
    await api.send_texts(session, *map(str, range(40)))
    path = f"/api/sessions/{session['sessionId']}/messages"
    whole = (await api.read(path, limit=200))["data"]
    answer = await api.get(path)
    assert (answer.json()["data"], answer.json()["nextCursor"]) == (whole[-100:], None)
    assert answer.headers["link"] == f'<{path}?order=desc&before={whole[-100]["number"]}>; rel="prev"'
    older = await api.read(path, order="desc", before=whole[-100]["number"])
    assert older["data"] == whole[-101::-1]


async def test_variables_flat_and_by_scope(api: ApiClient) -> None:
    session = await api.create_session("visit", initialVariables={"channel": "web"})
    await api.send_texts(session, "Ana", "30")
    await api.send_message(session, {"choice": "A"})
    path = f"/api/sessions/{session['sessionId']}/variables"
    assert await api.read(path) == {"visits": 0, "channel": "web", "age": 30, "mood": "A", "nickname": "Ana"}
    store = await api.read(path, scoped=True)
    assert_shape(store, STORE)
    found = {
        scope: {name: (cell["value"], cell["type"], cell["source"]) for name, cell in cells.items()}
        for scope, cells in store.items()
    }
    assert found == {
        "global": {"visits": (0, "number", "default")},
        "session": {"channel": ("web", "choice", "api"), "age": (30, "number", "user")},
        "phase": {"mood": ("A", "choice", "user")},
        "topic": {"nickname": ("Ana", "text", "user")},
    }
    assert is_utc(store["session"]["age"]["lastUpdated"])
    await api.send_texts(session, "on")
    assert await api.read(path) == {"visits": 1, "channel": "web", "age": 30}


async def test_a_global_variable_has_the_time_of_its_write(api: ApiClient) -> None:
    await api.publish_script(WORDY, files={"shared.yaml": "globals: [{var: word, type: text}]\n"})
    session = await api.create_session("wordy")
    written = session["variableStore"]["global"]["word"]
    assert (written["value"], written["source"]) == ("one", "script")
    assert (await api.send_texts(session, "on"))["variableStore"]["global"]["word"] == written
    await api.patch("/api/users/ana/variables", json={"variables": {"word": "one"}})
    of_user = (await api.read("/api/users/ana/variables"))["variables"]["word"]
    assert of_user["source"] == "api"
    for _ in range(2):
        assert (await api.send_texts(session, "on"))["variableStore"]["global"]["word"] == of_user


async def test_global_variables_are_the_users_in_every_session(api: ApiClient) -> None:
    for visit in (1, 2):
        session = await api.create_session("visit")
        await api.send_texts(session, "Ana", "30", "A")
        assert (await api.send_texts(session, "on"))["globalVariables"] == {"visits": visit}
    assert (await api.create_session("visit"))["globalVariables"] == {"visits": 2}
    assert (await api.create_session("visit", user="ben"))["globalVariables"] == {"visits": 0}


@pytest.mark.gate
@pytest.mark.parametrize("user", ["ana", 'Ана 王?&"<>', "a%0d%0aX: y"])
async def test_sessions_of_a_user_come_newest_first_with_a_next_page(api: ApiClient, user: str) -> None:
    begun = [(await api.create_session("diary", user=user))["sessionId"] for _ in range(5)]
    await api.create_session("diary", user="somebody else")
    url = api.base_url.join("/api/users/").copy_with(raw_path=b"/api/users/" + quoted(user) + b"/sessions?limit=2")
    listed, pages = [], 0
    while url:
        answer = await api.get(url)
        assert answer.status_code == 200, answer.text
        listed += [row["sessionId"] for row in answer.json()]
        url = answer.links.get("next", {}).get("url")
        pages += 1
    assert (listed, pages) == (begun[::-1], 3)
    shape = dict.fromkeys(
        (
            "sessionId", "userId", "scriptId", "scriptKey", "status", "executionStatus", "createdAt", "updatedAt",
            "title", "preview", "lastMessage", "locale",
        ), str,
    )  # fmt: skip
    shape |= {"turn": int, "messageCount": int, "scriptVersion": int, "metadata": dict}
    assert_shape(answer.json()[0], shape | {"key": type(None), "redactedAt": type(None)})


def quoted(text: str) -> bytes:
    return "".join(f"%{byte:02X}" for byte in text.encode()).encode()


async def test_sessions_are_listed_by_user_and_status(api: ApiClient) -> None:
    await api.create_session("diary", user="ben")
    done = await api.create_session("diary")
    await api.send_texts(done, "stop")
    await api.create_session("diary")

    async def listed(**filters: Any) -> list[str]:
        return [row["userId"] for row in (await api.read("/api/sessions", **filters))["data"]]

    assert await listed() == ["ana", "ana", "ben"]
    assert await listed(userId="ben") == ["ben"]
    assert await listed(status="completed") == ["ana"]
    first = await api.read("/api/sessions", limit=2)
    rest = await api.read("/api/sessions", limit=2, cursor=first["nextCursor"])
    assert (len(first["data"]), len(rest["data"]), rest["nextCursor"]) == (2, 1, None)
