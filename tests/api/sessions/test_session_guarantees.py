"""What older systems broke with their sessions, over HTTP: nothing is lost, doubled, leaked or reached from outside."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from api.schemas.session_lists import FORMATS
from runtime.state.ports import ModelFailed, ModelReply, Usage
from store.interface.private_files import MIRROR_FOLDER
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp

LINES = {"Content-Type": "application/x-ndjson"}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "it"}'}}
OTHER = {"id": "c2", "type": "function", "function": {"name": "smell", "arguments": "{}"}}
PICTURE = {"type": "image_url", "image_url": {"url": "https://example.org/1"}}
EXCHANGE: list[Any] = [
    {"role": "user", "content": [{"type": "text", "text": "Before"}, PICTURE, {"type": "text", "text": "after"}]},
    {"role": "assistant", "toolCalls": [CALL, OTHER]},
    {"role": "tool", "content": "roses", "toolCallId": "c2", "name": "smell"},
    {"role": "tool", "content": "a cat", "toolCallId": "c1", "name": "look"},
    {"role": "assistant", "content": "A cat among roses."},
]
HISTORY: list[Any] = [
    {"role": "user", "content": "Before\nafter\n[image_url: https://example.org/1]"},
    {"role": "assistant", "content": "", "toolCalls": [CALL, OTHER]},
    {"role": "tool", "content": "roses", "toolCallId": "c2", "name": "smell"},
    {"role": "tool", "content": "a cat", "toolCallId": "c1", "name": "look"},
    {"role": "assistant", "content": "A cat among roses."},
]


async def append(api: ApiClient, session: Any, messages: list[Any]) -> Any:
    path = f"/api/sessions/{session['sessionId']}/messages/append"
    for first in range(0, len(messages), 100):
        answer = await api.post(path, json={"messages": messages[first : first + 100]})
        assert answer.status_code == 200, answer.text
    return answer.json()


async def history(api: ApiClient, session: Any, **query: Any) -> Any:
    return await api.read(f"/api/sessions/{session['sessionId']}/history", **query)


async def context(api: ApiClient, session: Any) -> Any:
    return await api.read(f"/api/sessions/{session['sessionId']}/context")


async def metadata_of(api: ApiClient, session: Any) -> list[Any]:
    page = await api.read(f"/api/sessions/{session['sessionId']}/messages")
    return [message["metadata"] for message in page["data"]]


def said(role: str, *numbers: int) -> list[Any]:
    return [{"role": role, "content": f"{role} {number}"} for number in numbers]


def names_in(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


class Listening:
    """A model that tells what it was given, and whose memo may be held up or fail."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.fails = False
        self.held: asyncio.Event | None = None
        self.begun = asyncio.Event()

    def goes_to(self, request: Any) -> str:
        return "listening"

    async def complete(self, request: Any, hear: Any = None) -> ModelReply:
        self.asked.append(request)
        usage = Usage(model="m")
        if request.purpose == "chat":
            return ModelReply(text=f"answer {request.round}", usage=usage)
        if self.fails:
            raise ModelFailed("away", usage=usage)
        self.begun.set()
        if self.held is not None:
            await self.held.wait()
        numbers = [each.number for each in request.history]
        if request.purpose == "memo":
            return ModelReply(
                values={"told": [*(request.conversation_summary.previous or {}).get("told", []), *numbers]}, usage=usage
            )
        return ModelReply(text=" ".join(map(str, numbers)), usage=usage)


# -- tools and what is attached ---------------------------------------------------------------------------------------


@pytest.mark.gate
@pytest.mark.parametrize(("form", "media_type"), [("json", "json"), ("yaml", "yaml"), ("jsonl", "x-ndjson")])
async def test_every_format_retains_tool_calls_and_pictures(
    app: OpenApp, tmp_path: Path, form: str, media_type: str
) -> None:
    async with app(tmp_path / "here") as here, app(tmp_path / "there") as there:
        session = await here.create_session("chat", key="telegram:1")
        await append(here, session, EXCHANGE)
        document = await here.get(f"/api/sessions/{session['sessionId']}/export", params={"format": form})
        answer = await there.post(
            "/api/sessions/import",
            content=document.content,
            headers={"Content-Type": f"application/{media_type}"},
        )
        assert answer.status_code == 201, answer.text
        found = answer.json()
        assert (await history(here, session))[-5:] == (await history(there, found))[-5:] == HISTORY
        metadata = [await metadata_of(here, session), await metadata_of(there, found)]
        assert metadata[0] == metadata[1]
        assert metadata[0][-5] == {"parts": EXCHANGE[0]["content"]}


async def test_a_model_sees_which_result_answers_which_call(app: OpenApp, tmp_path: Path) -> None:
    model = Listening()
    async with app(tmp_path, model) as api:
        session = await api.create_session("chat")
        await append(api, session, EXCHANGE)
        await api.send_texts(session, "And a dog?")
        shown = await history(api, session, view="context")
    assert HISTORY[1] in shown
    metadata = [each.metadata for each in model.asked[-1].history if each.role in {"assistant", "tool"}]
    assert {"tool_calls": [CALL, OTHER]} in metadata
    assert {"tool_call_id": "c2", "name": "smell"} in metadata


# -- history ----------------------------------------------------------------------------------------------------------


async def test_a_history_of_any_length_begins_with_the_one_who_opened(api: ApiClient) -> None:
    session = await api.create_session("chat")
    await api.post(f"/api/sessions/{session['sessionId']}/clear")
    await append(api, session, [each for n in range(50) for each in said("user", n) + said("assistant", n)])
    for most in (1, 2, 3, 10, 11, 49):
        found = await history(api, session, maxMessages=most)
        assert found[0]["role"] == "user", most
        assert len(found) in {max(most - most % 2, 2)}, most
        assert await history(api, session, maxMessages=most) == found


async def test_no_tool_result_is_in_a_history_without_its_call(api: ApiClient) -> None:
    session = await api.create_session("chat")
    await append(api, session, EXCHANGE * 3)
    for most in range(1, 20):
        found = await history(api, session, maxMessages=most)
        calls: set[str] = set()
        for each in found:
            calls |= {call["id"] for call in each.get("toolCalls", [])}
            assert each.get("toolCallId", "c1") in calls | ({"c1"} if each["role"] != "tool" else set())


async def test_long_turn_of_tools_comes_whole_with_the_users_message(api: ApiClient) -> None:
    session = await api.create_session("chat")
    tools = [
        each
        for n in range(30)
        for each in (
            {"role": "assistant", "toolCalls": [CALL | {"id": f"c{n}"}]},
            {"role": "tool", "content": str(n), "toolCallId": f"c{n}"},
        )
    ]
    await append(api, session, [*said("user", 1), *said("assistant", 1), *said("user", 2), *tools])
    found = await history(api, session, maxMessages=10)
    assert (found[0]["content"], len(found)) == ("user 2", 61)


async def test_what_says_nothing_is_left_out_of_a_history(api: ApiClient) -> None:
    lines = "\n".join(json.dumps({**each, "tool_calls": None, "name": None}) for each in said("user", 1))
    found = (await api.post("/api/sessions/import", content=lines, headers=LINES, params={"userId": "ana"})).json()
    assert await history(api, found) == said("user", 1)


async def test_a_history_has_the_reasoning_of_a_model(api: ApiClient) -> None:
    answer = {**said("assistant", 1)[0], "reasoning_content": "They asked."}
    lines = "\n".join(map(json.dumps, [*said("user", 1), answer]))
    found = (await api.post("/api/sessions/import", content=lines, headers=LINES, params={"userId": "ana"})).json()
    assert (await history(api, found))[-1] == said("assistant", 1)[0] | {"reasoningContent": "They asked."}


async def test_a_history_changes_nothing(api: ApiClient) -> None:
    session = await api.create_session("chat")
    await append(api, session, EXCHANGE)
    path = f"/api/sessions/{session['sessionId']}/export"
    before = (await api.read(path))["turns"]
    await history(api, session, maxMessages=1)
    await history(api, session, view="context")
    assert (await api.read(path))["turns"] == before


# -- contexts ---------------------------------------------------------------------------------------------------------


async def test_a_message_that_is_too_long_is_seen_to_once(app: OpenApp, tmp_path: Path) -> None:
    lite = {"strategy": "lite", "limit": {"chars": 1_000}, "resize": {"every_n_turns": 0}}
    async with app(tmp_path, Listening()) as api:
        session = await api.create_session("chat", context=lite)
        await append(api, session, [{"role": "user", "content": "x" * 20_000}])
        await api.send_texts(session, *(f"word {n}" for n in range(10)))
        events = (await api.read(f"/api/sessions/{session['sessionId']}/events", limit=200))["data"]
        assert sum(event["kind"] == "resized" for event in events) <= 2
        found = await context(api, session)
        assert found["messages"]
        assert found["tokens"] < 1_000
        transcript = await api.transcript(session)
        assert ("user", "x" * 20_000) in transcript


@pytest.mark.gate
async def test_failed_memo_loses_and_doubles_nothing_and_is_made_later(app: OpenApp, tmp_path: Path) -> None:
    model = Listening()
    model.fails = True
    memo = {"strategy": "memo", "limit": {"messages": 4}, "resize": {"every_n_turns": 0}}
    async with app(tmp_path, model) as api:
        session = await api.create_session("chat", context=memo)
        await api.send_texts(session, *(f"word {n}" for n in range(6)))
        users = [content for role, content in await api.transcript(session) if role == "user"]
        assert users == [f"word {n}" for n in range(6)]
        assert (await context(api, session))["failed"] > 0
    model.fails = False
    async with app(tmp_path, model) as api:
        await api.send_texts(session, *(f"more {n}" for n in range(12)))
        reported = (await context(api, session))["memo"]["told"]
    assert reported == list(range(1, len(reported) + 1))


async def test_message_that_comes_during_a_memo_is_in_the_next_one(app: OpenApp, tmp_path: Path) -> None:
    model = Listening()
    model.held = asyncio.Event()
    memo = {"strategy": "memo", "limit": {"messages": 2}, "resize": {"every_n_turns": 0}}
    async with app(tmp_path, model) as api:
        session = await api.create_session("chat", context=memo)
        await api.send_texts(session, "zero")
        turn = asyncio.create_task(api.send_texts(session, "one"))
        await asyncio.wait_for(model.begun.wait(), 60)
        late = asyncio.create_task(append(api, session, said("user", 1) + said("assistant", 1)))
        await asyncio.sleep(0)
        model.held.set()
        await asyncio.gather(turn, late)
        seen = await context(api, session)
        assert [each for each in await api.transcript(session) if each[1] in {"one", "user 1"}] == [
            ("user", "one"),
            ("user", "user 1"),
        ]
        model.held = None
        await api.send_texts(session, *(f"word {n}" for n in range(4)))
        reported = (await context(api, session))["memo"]["told"]
    assert seen["memoTo"] < 5
    assert reported == list(range(1, len(reported) + 1))
    assert len(reported) > 4


async def test_a_clear_takes_the_summary_along(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, Listening()) as api:
        session, other = [
            await api.create_session("chat", context={"strategy": "summary", "keep": 2}) for _ in range(2)
        ]
        for each in (session, other):
            await api.send_texts(each, "one", "two", "three")
            assert (await context(api, each))["summary"]
        answer = await api.post(f"/api/sessions/{session['sessionId']}/clear")
        assert answer.status_code == 200
    async with app(tmp_path, Listening()) as api:
        found = await context(api, session)
        assert (found["summary"], found["summaryTo"], found["messages"]) == ("", 0, [])
        assert await history(api, session, view="context") == []
        assert (await context(api, other))["summary"]


async def test_session_found_by_its_key_has_its_own_context(api: ApiClient) -> None:
    body = {"key": "k", "userId": "ana", "context": {"strategy": "window", "k": 3}}
    begun = (await api.post("/api/sessions/by-key", json=body)).json()
    assert (await context(api, begun))["settings"] == {"strategy": "window", "k": 3}
    copy = (await api.post(f"/api/sessions/{begun['sessionId']}/fork", json={})).json()
    assert (await context(api, copy))["settings"] == {"strategy": "window", "k": 3}
    refused = await api.post("/api/sessions/by-key", json={**body, "key": "l", "context": "windw"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "REQUEST_INVALID")


# -- ids and secrets --------------------------------------------------------------------------------------------------

ROUTES = ("", "/messages", "/variables", "/events", "/history", "/context", "/export", "/stats", "/snapshots", "/calls")


async def test_an_id_is_no_way_out_of_the_store(app: OpenApp, tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with app(data) as api:
        session = await api.create_session("chat")
        document = await api.read(f"/api/sessions/{session['sessionId']}/export")
        for name in ("..%2F..%2Fx", "..%2f..%2fx", "%2e%2e%2f%2e%2e%2fx", "%2Fetc%2Fpasswd", "..%5C..%5Cx", "%00"):
            for route in ROUTES:
                answer = await api.get(f"/api/sessions/{name}{route}")
                assert answer.status_code == (400 if name == "%00" else 404), (name, route, answer.text)
            assert (await api.delete(f"/api/sessions/{name}")).status_code in {400, 404}
        document["session"]["session_id"] = "../../x"
        refused = await api.post("/api/sessions/import", json=document)
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "DOCUMENT_INVALID")
        lines = "\n".join(json.dumps(each) for each in said("user", 1))
        for name in ("../../x.jsonl", "/etc/passwd"):
            query = {"fileName": name, "copy": True}
            answer = await api.post("/api/sessions/import", content=lines, headers=LINES, params=query)
            assert answer.status_code == 201, answer.text
    assert names_in(tmp_path) == ["data"]
    assert all("cuebook" in name or name == MIRROR_FOLDER for name in names_in(data))


async def test_no_document_holds_a_key_or_a_secret(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, webhook_private_targets=["127.0.0.1:9"]) as api:
        key = await api.create_key("app", "author", "admin")
        sent = {"Authorization": key}
        hook = {"url": "http://127.0.0.1:9/hook", "events": ["*"]}
        webhook = (await api.post("/api/webhooks", json=hook, headers=sent)).json()
        begun = await api.post("/api/sessions", json={"userId": "ana"}, headers=sent | {"Idempotency-Key": "k"})
        path = f"/api/sessions/{begun.json()['sessionId']}"
        assert (await api.post(f"{path}/messages", json={"content": "Hello."}, headers=sent)).status_code == 200
        secrets = [
            key.removeprefix("Bearer "),
            webhook["secret"],
            webhook["secret"].removeprefix("whsec_"),
            hook["url"],
        ]
        addresses = [*(f"{path}/export?format={form}" for form in FORMATS), "/api/users/ana/export"]
        for address in addresses:
            answer = await api.get(address, headers=sent)
            assert answer.status_code == 200, answer.text
            assert "Hello." in answer.text
            assert [secret for secret in secrets if secret in answer.text] == [], address
