"""What an application does to a session besides talking to it: each is a turn, durable, once, and never half."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.sessions import session_cache
from store.interface.errors import ReadTimedOut
from tests.support.api_client import ApiClient
from tests.support.fixture_types import NewStreamClient, OpenApp

TALK = """
script: talk
declare: [{var: age, type: number}]
phases:
  - phase: main
    topics:
      - topic: who
        actions:
          - {ask: Your name?, id: ask_name, output: [{get: name}]}
          - {ask: "Your age, {{ name }}?", id: ask_age, output: [{get: age, type: number}]}
          - {ask: Anything else?, id: ask_more, output: [{get: more}]}
"""
FORM = """
script: sheet
phases:
  - phase: p
    topics:
      - topic: t
        actions: [{form: entry, id: fill}]
forms:
  - {form: entry, text: Fill this in., fields: [{field: city, label: "Where {{ who }} lives"}]}
"""


async def do(api: ApiClient, session: Any, what: str, body: Any = None, status: int = 200, **more: Any) -> Any:
    """Intervene; return the answer."""
    method = "PATCH" if what in {"variables", ""} else "POST"
    path = f"/api/sessions/{session['sessionId']}{'/' * bool(what)}{what}"
    answer = await api.request(method, path, json=body, **more)
    assert answer.status_code == status, answer.text
    return answer.json()


async def code(api: ApiClient, session: Any, what: str, body: Any = None, status: int = 409, **more: Any) -> str:
    """Return why an intervention is refused."""
    refused = await do(api, session, what, body, status, **more)
    found: str = refused["error"]["code"]
    return found


async def begun(api: ApiClient, *replies: str) -> Any:
    await api.publish_script(TALK)
    session = await api.create_session("talk")
    if replies:
        await api.send_texts(session, *replies)
    return session


async def test_a_paused_session_takes_no_message_until_it_is_resumed(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        session = await begun(api, "Ana")
        paused = await do(api, session, "pause")
        assert (paused["status"], paused["executionStatus"], paused["turn"]) == ("paused", "paused", 2)
        assert (await do(api, session, "pause"))["turn"] == 2
    async with app(tmp_path) as api:
        for headers in ({}, {"Accept": "text/event-stream"}):
            refused = await api.send_message(session, {"content": "34"}, headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "SESSION_PAUSED")
        resumed = await do(api, session, "resume")
        assert (resumed["status"], resumed["position"], resumed["wait"]) == (
            "active",
            paused["position"],
            {"kind": "text"},
        )
        assert (await do(api, session, "resume"))["turn"] == 3
        assert (await api.send_texts(session, "34"))["aiMessage"] == "Anything else?"


async def test_an_ended_session_takes_nothing_more(api: ApiClient) -> None:
    session = await begun(api)
    await do(api, session, "pause")
    ended = await do(api, session, "end", {"reason": "the user left"}, params={"events": True})
    assert (ended["status"], ended["executionStatus"], ended["wait"]) == ("completed", "completed", None)
    assert ended["events"][0]["kind"] == "intervention"
    assert ended["events"][-1]["data"] == {"reason": "the user left", "by": "application"}
    assert (await do(api, session, "end"))["turn"] == ended["turn"]
    assert (await api.send_message(session, {"content": "Ana"})).json()["error"]["code"] == "SESSION_ENDED"
    for what, body in (("pause", None), ("resume", None), ("variables", {"variables": {"age": 1}})):
        assert await code(api, session, what, body) == "SESSION_ENDED"
    back = await do(api, session, "rewind", {"turn": 0})  # even so there is a way back
    assert (back["status"], back["wait"]) == ("active", {"kind": "text"})


async def test_a_request_is_one_turn_however_often_it_is_sent(app: OpenApp, tmp_path: Path) -> None:
    named = {"headers": {"Idempotency-Key": "k"}}
    body = {"variables": {"age": 41}}
    async with app(tmp_path) as api:
        session = await begun(api)
        first = await do(api, session, "variables", body, **named)
        assert await do(api, session, "variables", body, **named) == first
    async with app(tmp_path) as api:
        assert await do(api, session, "variables", body, **named) == first
        assert await code(api, session, "variables", {"variables": {"age": 42}}, 422, **named) == "IDEMPOTENCY_MISMATCH"
        assert await code(api, session, "pause", None, 422, **named) == "IDEMPOTENCY_MISMATCH"
        stale = {"headers": {"If-Match": '"0"'}}
        assert await code(api, session, "pause", None, 412, **stale) == "TURN_CONFLICT"
        assert (await do(api, session, "pause", headers={"If-Match": '"1"'}))["turn"] == 2


async def test_variables_are_set_in_their_scopes_all_or_none(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        session = await begun(api, "Ana")
        found = await do(api, session, "variables", {"variables": {"age": "41", "note": [1], "name": "Bo"}})
        assert {name: found["variables"][name] for name in ("age", "note", "name")} == {
            "age": 41,
            "note": [1],
            "name": "Bo",
        }
        store = found["variableStore"]
        assert (store["session"]["age"]["source"], store["session"]["note"]["source"]) == ("api", "api")
        assert store["topic"]["name"]["value"] == "Bo"
        refused = await do(api, session, "variables", {"variables": {"name": "Cy", "age": "many"}}, 400)
        assert "`age`" in refused["error"]["message"]
        await do(api, session, "variables", {"variables": {"note": None}})
        await do(api, session, "variables", {"variables": {"mood": "calm"}, "scope": "phase"})
    async with app(tmp_path) as api:
        scoped = await api.read(f"/api/sessions/{session['sessionId']}/variables", scoped=True)
        assert scoped["phase"]["mood"]["value"] == "calm"
        assert (scoped["topic"]["name"]["value"], scoped["session"]["note"]["value"]) == ("Bo", None)
        assert (await api.read(f"/api/sessions/{session['sessionId']}"))["turn"] == 4


@pytest.mark.parametrize(
    "body",
    [{}, {"variables": {}}, {"variables": {"": 1}}, {"variables": {"round": 1}}, {"variables": {"a": 1}, "scope": "x"}],
)
async def test_variables_that_cannot_be_set_are_refused(api: ApiClient, body: Any) -> None:
    assert await code(api, await begun(api), "variables", body, 400) == "REQUEST_INVALID"


async def test_what_is_too_large_is_refused_and_not_stored(api: ApiClient) -> None:
    session = await begun(api)
    half = {f"n{n}": "x" * 20_000 for n in range(26)}
    await do(api, session, "variables", {"variables": half})
    other = {f"m{n}": "x" * 20_000 for n in range(26)}
    assert await code(api, session, "variables", {"variables": other}, 413) == "PAYLOAD_TOO_LARGE"
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    assert await code(api, session, "variables", {"variables": {"deep": deep}}, 400) == "REQUEST_INVALID"
    long = {"messages": [{"role": "user", "content": "ok"}, {"role": "user", "content": "x" * 2_000_000}]}
    assert (await do(api, session, "messages/append", long, 413))["error"]["code"] == "PAYLOAD_TOO_LARGE"
    many = {"messages": [{"role": "user", "content": "ok"}] * 101}
    assert await code(api, session, "messages/append", many, 400) == "REQUEST_INVALID"
    found = await api.read(f"/api/sessions/{session['sessionId']}")
    assert (found["turn"], set(found["variables"])) == (1, set(half))
    assert await api.transcript(session) == [("assistant", "Your name?")]


async def test_a_form_that_is_waited_for_shows_what_was_set(api: ApiClient) -> None:
    await api.publish_script(FORM)
    session = await api.create_session("sheet")
    found = await do(api, session, "variables", {"variables": {"city": "Rome", "who": "Ana"}})
    (field,) = found["wait"]["form"]["fields"]
    assert (field["value"], field["label"]) == ("Rome", "Where Ana lives")
    assert (await api.send_message(session, {"form": {}})).json()["variables"]["city"] == "Rome"


async def test_a_session_goes_back_and_on_from_there(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        session = await begun(api)
        answers = [await api.send_texts(session, said) for said in ("Ana", "34")]
        back = await do(api, session, "rewind", {"turn": 1})
        assert (back["turn"], back["position"], back["variables"]) == (
            3,
            answers[0]["position"],
            answers[0]["variables"],
        )
        assert (await api.read(f"/api/sessions/{session['sessionId']}"))["aiMessage"] == "Your age, Ana?"
        assert await api.transcript(session) == [
            ("assistant", "Your name?"),
            ("user", "Ana"),
            ("assistant", "Your age, Ana?"),
        ]
        await api.send_texts(session, "35")
    async with app(tmp_path) as api:
        path = f"/api/sessions/{session['sessionId']}/messages"
        said = [message["content"] for message in (await api.read(path))["data"]]
        assert said == ["Your name?", "Ana", "Your age, Ana?", "35", "Anything else?"]
        every = (await api.read(path, all=True))["data"]
        assert [message["content"] for message in every if message.get("removed")] == ["34", "Anything else?"]
        assert [message["number"] for message in every] == list(range(1, 8))
        first = await api.read(path, limit=4)
        rest = await api.read(path, limit=4, cursor=first["nextCursor"])
        assert [message["content"] for message in [*first["data"], *rest["data"]]] == said
        assert rest["nextCursor"] is None
        await do(api, session, "rewind", {"beforeUserMessage": 0})
        assert await api.transcript(session) == [("assistant", "Your name?")]
        assert (await do(api, session, "rewind", {"beforeUserMessage": 0}))["turn"] == 5  # nothing is left to do
        assert await code(api, session, "rewind", {"beforeUserMessage": 1}, 400) == "REQUEST_INVALID"


async def test_a_place_that_is_none_is_refused(api: ApiClient) -> None:
    session = await begun(api, "Ana")
    for body, status, wrong in (
        ({}, 400, "REQUEST_INVALID"),
        ({"turn": 0, "beforeUserMessage": 0}, 400, "REQUEST_INVALID"),
        ({"turn": -1}, 400, "REQUEST_INVALID"),
        ({"beforeUserMessage": -1}, 400, "REQUEST_INVALID"),
        ({"beforeUserMessage": 2}, 400, "REQUEST_INVALID"),
        ({"turn": 2}, 404, "TURN_NOT_FOUND"),
    ):
        assert await code(api, session, "rewind", body, status) == wrong
    assert await code(api, {"sessionId": "none"}, "rewind", {"turn": 0}, 404) == "SESSION_NOT_FOUND"


async def test_the_way_back_ends_at_a_move_to_another_version(api: ApiClient) -> None:
    session = await begun(api, "Ana")
    await api.publish_script(TALK.replace("Anything else?", "What else?"))
    await do(api, session, "migrate", {})
    await api.send_texts(session, "34")
    refused = await do(api, session, "rewind", {"turn": 1}, 409)
    assert (refused["error"]["code"], "turn 2" in refused["error"]["message"]) == ("MIGRATION_BLOCKED", True)
    assert (await do(api, session, "rewind", {"turn": 2}))["position"]["actionId"] == "ask_age"


async def test_cleared_conversation_continues_without_a_past(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        session = await begun(api, "Ana")
        cleared = await do(api, session, "clear")
        assert (cleared["position"]["actionId"], cleared["wait"]) == ("ask_age", {"kind": "text"})
        assert await api.transcript(session) == []
        assert (await do(api, session, "clear"))["turn"] == cleared["turn"]
        await api.send_texts(session, "34")
        assert await api.transcript(session) == [("user", "34"), ("assistant", "Anything else?")]
    async with app(tmp_path) as api:
        assert await api.transcript(session) == [("user", "34"), ("assistant", "Anything else?")]


MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "content": [{"type": "text", "text": "This is"}, {"type": "image", "url": "https://example.org/1"}],
    },
    {"role": "assistant", "toolCalls": [{"id": "c1", "name": "look", "arguments": {"at": "it"}}]},
    {"role": "tool", "content": "a cat", "toolCallId": "c1", "name": "look"},
    {"role": "assistant", "content": "A cat.", "metadata": {"from": "elsewhere"}},
]


async def test_appended_messages_retain_their_fields(api: ApiClient) -> None:
    session = await begun(api)
    added = await do(api, session, "messages/append", {"messages": MESSAGES})
    assert added["wait"] == {"kind": "text"}
    assert [message["number"] for message in added["messages"]] == [2, 3, 4, 5, 6]
    found = (await api.read(f"/api/sessions/{session['sessionId']}/messages"))["data"][1:]
    assert [(message["role"], message["content"]) for message in found] == [
        ("system", "Be brief."),
        ("user", "This is"),
        ("ai", ""),
        ("tool", "a cat"),
        ("ai", "A cat."),
    ]
    assert [message["metadata"] for message in found] == [
        {},
        {"parts": MESSAGES[1]["content"]},
        {"tool_calls": MESSAGES[2]["toolCalls"]},
        {"tool_call_id": "c1", "name": "look"},
        {"from": "elsewhere"},
    ]
    assert (await api.send_texts(session, "Ana"))["aiMessage"] == "Your age, Ana?"
    for wrong in ({"role": "ai", "content": "x"}, {"role": "user", "content": [{"type": "text"}]}):
        assert await code(api, session, "messages/append", {"messages": [wrong]}, 400) == "REQUEST_INVALID"


async def test_fifty_additions_at_once_are_fifty_messages(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        session = await api.create_session("diary")

        async def add(number: int) -> None:
            pair = [{"role": "user", "content": f"{number}?"}, {"role": "assistant", "content": f"{number}."}]
            await do(api, session, "messages/append", {"messages": pair})

        await asyncio.gather(*map(add, range(50)))
    async with app(tmp_path) as api:
        said = [content for _, content in await api.transcript(session)][2:]
        assert sorted(said[::2]) == sorted(f"{number}?" for number in range(50))
        assert said[1::2] == [asked.replace("?", ".") for asked in said[::2]]


async def test_who_follows_a_session_hears_of_it(
    server: OpenApp, tmp_path: Path, stream_client: NewStreamClient
) -> None:
    async with server(tmp_path) as api:
        session = await begun(api, "Ana")
        path = f"/api/sessions/{session['sessionId']}/events"
        heard = stream_client()
        async with api.open_stream(path) as stream:
            await heard.receive(stream, lambda it: len(it.transcript) == 3)
            await do(api, session, "rewind", {"turn": 0})
            await heard.receive(stream, lambda it: "intervention" in it.kinds)
        reported = [event for event in (await api.read(path))["data"] if event["kind"] == "intervention"]
        assert reported[0]["data"] == {"what": "rewind", "turn": 0, "first": 2, "last": 3}


async def test_every_turn_can_be_looked_at_again(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        session = await begun(api)
        path = f"/api/sessions/{session['sessionId']}"
        then = [session, await api.send_texts(session, "Ana"), await do(api, session, "pause")]
        await do(api, session, "resume")
        await do(api, session, "rewind", {"turn": 0})
    async with app(tmp_path) as api:
        for turn, answer in enumerate(then):
            found = await api.read(f"{path}/snapshots/{turn}")
            for name in ("position", "variables", "variableStore", "wait", "executionStatus", "turn"):
                assert found[name] == answer[name], (turn, name)
        assert [message["content"] for message in (await api.read(f"{path}/snapshots/1"))["messages"]] == [
            "Ana",
            "Your age, Ana?",
        ]
        first = await api.read(f"{path}/snapshots", limit=3)
        rest = await api.read(f"{path}/snapshots", limit=3, cursor=first["nextCursor"])
        listed = [*first["data"], *rest["data"]]
        assert rest["nextCursor"] is None
        assert [(row["turn"], row["status"], row["waitKind"], row["messageCount"]) for row in listed] == [
            (0, "active", "text", 1),
            (1, "active", "text", 3),
            (2, "paused", "text", 3),
            (3, "active", "text", 3),
            (4, "active", "text", 3),
        ]
        for turn in ("5", "-1", "99999999999999999999"):
            missing: httpx.Response = await api.get(f"{path}/snapshots/{turn}")
            assert (missing.status_code, missing.json()["error"]["code"]) == (404, "TURN_NOT_FOUND")


async def test_a_turn_before_a_move_is_shown_as_its_version_had_it(api: ApiClient) -> None:
    session = await begun(api, "Ana")
    renamed = TALK.replace("ask_age", "how_old")
    await api.publish_script(renamed + "migrations: {actions: {main/who/ask_age: main/who/how_old}}\n")
    await do(api, session, "migrate", {})
    path = f"/api/sessions/{session['sessionId']}/snapshots"
    places = [(await api.read(f"{path}/{turn}"))["position"]["actionId"] for turn in range(3)]
    assert places == ["ask_name", "ask_age", "how_old"]


async def test_no_request_changes_a_session_that_is_at_another_turn(api: ApiClient) -> None:
    session = await begun(api, "Ana")
    path = f"/api/sessions/{session['sessionId']}"
    for method, route, body in [
        ("POST", f"{path}/migrate", {"dryRun": True}),
        ("POST", f"{path}/migrate/undo", None),
        ("POST", f"{path}/fork", {}),
        ("PATCH", path, {"metadata": {"a": 1}}),
        ("POST", f"{path}/timers/arm", None),
        ("DELETE", path, None),
    ]:
        content = {} if body is None else {"json": body}
        answer = await api.request(method, route, headers={"If-Match": '"7"'}, **content)
        assert (answer.status_code, answer.json()["error"]["code"]) == (412, "TURN_CONFLICT"), route
        if not route.endswith("undo"):
            answer = await api.request(method, route, headers={"If-Match": '"1"'}, **content)
            assert answer.is_success, answer.text
    assert (await api.get(path)).status_code == 404


async def test_rewind_succeeds_if_earlier_messages_are_unreadable(
    server: OpenApp, tmp_path: Path, stream_client: NewStreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> None:
        raise ReadTimedOut("the read took too long")

    async with server(tmp_path) as api:
        session = await begun(api, "Ana", "7")
        heard = stream_client()
        async with api.open_stream(f"/api/sessions/{session['sessionId']}/events") as stream:
            with monkeypatch.context() as patched:
                patched.setattr(session_cache, "recent_messages", fail)
                rewound = await do(api, session, "rewind", {"turn": 1})
            async with asyncio.timeout(10):
                await heard.receive(stream, lambda it: "intervention" in it.kinds)
        assert (rewound["turn"], (await api.send_texts(session, "8"))["turn"]) == (3, 4)
