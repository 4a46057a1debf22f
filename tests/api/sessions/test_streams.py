"""Streams as a client gets them: words while a turn runs, its events once it is durable, and going on after a cut."""

import asyncio
import gc
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.http.request import wants_stream
from api.sessions.live_turns import (
    FRAMES_MAX,
    KNOWN_SESSIONS,
    LiveTurn,
    LiveTurns,
    PendingTurn,
)
from api.settings import Settings
from runtime.state.ports import MessageDelta, MessageReset, ModelFailed, ModelReply, ModelRequest, OnReply
from runtime.state.state import State
from store.interface.rows import TurnEventsRow
from tests.support.api_client import ApiClient
from tests.support.fixture_types import NewStreamClient, OpenApp

TALK = """
script: talk
phases:
- phase: p
  topics:
  - topic: t
    actions:
    - {say: Let us talk., id: opening}
    - {chat: "Talk about anything.", id: talk, max_rounds: 100}
"""
SSE = {"Accept": "text/event-stream"}


class StreamingModel:
    """A model that streams what a test gives it: text, an error to fail with, None to start again, or an event to wait
    for.
    """

    def __init__(self) -> None:
        self.parts: list[str | asyncio.Event | ModelFailed | None] = []
        self.calls = 0
        self.asked = asyncio.Event()

    def goes_to(self, request: ModelRequest) -> str:
        return "teller"

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        self.calls += 1
        self.asked.set()
        parts, self.parts = self.parts or ["And?"], []
        text = ""
        for part in parts:
            if isinstance(part, asyncio.Event):
                await part.wait()
            elif isinstance(part, ModelFailed):
                raise part
            else:
                text = "" if part is None else text + part
                if hear is not None:
                    hear(ModelReply(text=text))
            await asyncio.sleep(0)
        return ModelReply(text=text)


@pytest.fixture
def model() -> StreamingModel:
    return StreamingModel()


@pytest.fixture
async def api(server: OpenApp, model: StreamingModel, tmp_path: Path) -> Any:
    async with server(tmp_path / "data", model, keep_alive_s=60) as api:
        await api.publish_script(TALK)
        yield api


def turns(session: Any) -> str:
    return f"/api/sessions/{session['sessionId']}/messages"


def events(session: Any) -> str:
    return f"/api/sessions/{session['sessionId']}/events"


def has_text(text: str) -> Any:
    return lambda client: any(words.startswith(text) for words in client.partial_texts.values())


# -- a turn -----------------------------------------------------------------------------------------------------------


async def test_turn_comes_as_text_then_events_then_its_answer(
    api: ApiClient, model: StreamingModel, stream_client: NewStreamClient
) -> None:
    session = await api.create_session("talk")
    client = stream_client()
    client.seq = len((await api.read(events(session)))["data"])
    model.parts = ["Tell ", "me ", None, "Say ", "more."]
    headers = {"Idempotency-Key": "k"}
    async with api.open_stream(turns(session), {"content": "hello"}, headers, events=True) as stream:
        assert stream.headers["cache-control"] == "no-store"
        await client.receive(stream)
    words = ["message.delta", "message.delta", "message.reset", "message.delta", "message.delta"]
    assert client.kinds == [*words, "message", "judged", "message", "position", "wait", "turn"]
    assert client.transcript == [("user", "hello"), ("assistant", "Say more.")]
    answer = (await api.send_message(session, {"content": "hello"}, headers, events=True)).json()
    assert client.turn == answer
    assert client.last_id == f"{session['sessionId']}:{answer['events'][-1]['seq']}"


async def test_a_session_begins_as_a_stream(
    api: ApiClient, model: StreamingModel, stream_client: NewStreamClient
) -> None:
    client = stream_client()
    body = {"userId": "ana", "scriptId": "talk"}
    async with api.open_stream("/api/sessions", body, {"Idempotency-Key": "k"}) as stream:
        await client.receive(stream)
    assert client.transcript == [("assistant", "Let us talk."), ("assistant", "And?")]
    assert client.turn == (await api.post("/api/sessions", json=body, headers={"Idempotency-Key": "k"})).json()


async def test_a_fixed_text_is_there_before_a_slow_model_has_answered(
    api: ApiClient, model: StreamingModel, stream_client: NewStreamClient
) -> None:
    client, go = stream_client(), asyncio.Event()
    model.parts = [go, "Hello."]
    async with api.open_stream("/api/sessions", {"userId": "ana", "scriptId": "talk"}) as stream:
        await client.receive(stream, has_text("Let us talk."))
        assert client.partial_texts == {1: "Let us talk."}
        go.set()
        await client.receive(stream)
    assert client.transcript == [("assistant", "Let us talk."), ("assistant", "Hello.")]


async def test_a_session_that_only_begins_is_its_users_already(
    api: ApiClient, model: StreamingModel, stream_client: NewStreamClient
) -> None:
    ana, ben = [{"Authorization": await api.create_key("app", user=user)} for user in ("ana", "ben")]
    client, go = stream_client(), asyncio.Event()
    model.parts = [go, "Hello."]
    async with api.open_stream("/api/sessions", {"userId": "ana", "scriptId": "talk"}, ana) as stream:
        await client.receive(stream, has_text("Let us talk."))
        path = f"/api/sessions/{client.last_id.split(':')[0]}/events"
        again = {"Last-Event-ID": client.last_id} | SSE
        assert (await api.get(path, headers=ben | again)).status_code == 404
        async with api.open_stream(path, headers=ana | again) as beginning:
            assert beginning.status_code == 200
            go.set()
            await client.receive(stream)
    assert client.transcript == [("assistant", "Let us talk."), ("assistant", "Hello.")]


async def test_a_silent_connection_stays_open(server: OpenApp, model: StreamingModel, tmp_path: Path) -> None:
    go, said = asyncio.Event(), b""
    async with server(tmp_path, model, keep_alive_s=0.3) as api:
        await api.publish_script(TALK)
        session = await api.create_session("talk")
        model.parts = [go, "Hello."]
        async with api.open_stream(turns(session), {"content": "hello"}) as stream:
            async for chunk in stream.aiter_raw():
                said += chunk
                if said.count(b": nothing yet\n\n") >= 2:
                    go.set()
    assert said.startswith(b": nothing yet")
    assert b"event: turn" in said


@pytest.mark.gate
@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/api/sessions", {"userId": "ana", "scriptId": "nothing"}, 404, "SCRIPT_NOT_FOUND"),
        ("/api/sessions", {"scriptId": "nothing"}, 400, "REQUEST_INVALID"),
        ("/api/sessions/nothing/messages", {"content": "x"}, 404, "SESSION_NOT_FOUND"),
        ("{}/messages", {}, 400, "REQUEST_INVALID"),
        ("{}/messages", {"choice": "x"}, 400, "REQUEST_INVALID"),
    ],
)
async def test_what_is_refused_is_refused_as_json(api: ApiClient, path: str, body: Any, status: int, code: str) -> None:
    session = await api.create_session("talk")
    answer = await api.post(path.format(f"/api/sessions/{session['sessionId']}"), json=body, headers=SSE)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/json"


async def test_turn_that_fails_before_its_first_text_is_a_plain_error(api: ApiClient, model: StreamingModel) -> None:
    session = await api.create_session("talk")
    model.parts = [ModelFailed("no answer")]
    answer = await api.send_message(session, {"content": "x"}, SSE)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "LLM_SERVICE_ERROR")
    assert answer.headers["retry-after"] == "5"


async def test_turn_that_fails_later_resets_its_text_and_ends(
    api: ApiClient, model: StreamingModel, stream_client: NewStreamClient
) -> None:
    session = await api.create_session("talk")
    client, follower, go = stream_client(), stream_client(), asyncio.Event()
    before = f"{session['sessionId']}:{len((await api.read(events(session)))['data'])}"
    async with api.open_stream(events(session)) as following:
        await follower.receive(following, lambda heard: heard.seq and heard.kinds[-1:] == ["wait"])
        client.seq = follower.seq
        model.parts = ["Tell ", go, "me ", ModelFailed("gone")]
        async with api.open_stream(turns(session), {"content": "x"}) as stream:
            await client.receive(stream, has_text("Tell "))
            go.set()
            await client.receive(stream)
        assert (client.error["code"], client.error["recovery"]["retryAction"]) == ("LLM_SERVICE_ERROR", "resend")
        assert client.error["context"]["requestId"] == stream.headers["x-request-id"]
        assert (client.kinds[-2:], client.last_id) == (["message.reset", "error"], before)
        await follower.receive(following, lambda heard: heard.kinds[-1:] == ["message.reset"])
        assert (follower.partial_texts, follower.last_id) == ({}, before)
        model.parts = ["Tell ", "all."]
        await api.send_texts(session, "x")
        await follower.receive(following, lambda heard: heard.transcript[-1:] == [("assistant", "Tell all.")])
    assert follower.transcript == await api.transcript(session)
    assert "error" not in follower.kinds


async def test_a_client_that_goes_away_does_not_stop_the_turn(
    api: ApiClient, model: StreamingModel, stream_client: NewStreamClient
) -> None:
    session = await api.create_session("talk")
    client, go = stream_client(), asyncio.Event()
    model.parts = ["Tell ", go, "me."]
    async with api.open_stream(turns(session), {"content": "x"}) as stream:
        await client.receive(stream, has_text("Tell "))
    go.set()
    await until(api, session, [("user", "x"), ("assistant", "Tell me.")])


async def until(api: ApiClient, session: Any, said: list[tuple[str, str]]) -> None:
    """Wait until the last things said are these."""
    after = len((await api.read(events(session), limit=200))["data"])
    while (await api.transcript(session))[-len(said) :] != said:
        await api.get(events(session), params={"after": after}, headers={"Prefer": "wait=5"})


# -- the same request again -------------------------------------------------------------------------------------------


async def test_repeated_stream_request_repeats_the_recorded_turn(
    api: ApiClient, model: StreamingModel, stream_client: NewStreamClient
) -> None:
    session = await api.create_session("talk")
    seq = len((await api.read(events(session)))["data"])
    first, again, headers = stream_client(), stream_client(), {"Idempotency-Key": "k"}
    for client in (first, again):
        client.seq = seq
        async with api.open_stream(turns(session), {"content": "x"}, headers) as stream:
            await client.receive(stream)
    assert (again.turn, again.transcript, again.last_id) == (first.turn, first.transcript, first.last_id)
    assert again.kinds == ["message", "judged", "message", "position", "wait", "turn"]
    other = await api.send_message(session, {"content": "y"}, SSE | headers)
    assert (other.status_code, other.json()["error"]["code"]) == (422, "IDEMPOTENCY_MISMATCH")


async def test_a_stream_asked_for_again_joins_the_turn_that_runs(
    api: ApiClient, model: StreamingModel, stream_client: NewStreamClient
) -> None:
    session = await api.create_session("talk")
    seq = len((await api.read(events(session)))["data"])
    first, again, headers, go = stream_client(), stream_client(), {"Idempotency-Key": "k"}, asyncio.Event()
    first.seq = again.seq = seq
    model.parts = ["Tell ", go, "me."]
    async with api.open_stream(turns(session), {"content": "x"}, headers) as stream:
        await first.receive(stream, has_text("Tell "))
        async with api.open_stream(turns(session), {"content": "x"}, headers) as second:
            await again.receive(second, has_text("Tell "))
            refused = [
                await api.send_message(session, {"content": "x"}, headers),
                await api.send_message(session, {"content": "y"}, headers | SSE),
            ]
            go.set()
            await asyncio.gather(first.receive(stream), again.receive(second))
    assert [answer.json()["error"]["code"] for answer in refused] == ["IDEMPOTENCY_IN_FLIGHT"] * 2
    assert (again.turn, again.transcript) == (first.turn, first.transcript)
    assert model.calls == 2


async def test_a_stream_joins_a_turn_that_was_asked_for_as_json(
    api: ApiClient, model: StreamingModel, stream_client: NewStreamClient
) -> None:
    session = await api.create_session("talk")
    client, headers, go = stream_client(), {"Idempotency-Key": "k"}, asyncio.Event()
    client.seq = len((await api.read(events(session)))["data"])
    model.parts = ["Tell ", go, "me."]
    model.asked.clear()
    answer = asyncio.create_task(api.send_message(session, {"content": "x"}, headers))
    await model.asked.wait()
    async with api.open_stream(turns(session), {"content": "x"}, headers) as stream:
        await client.receive(stream, has_text("Tell "))
        go.set()
        await client.receive(stream)
    assert client.turn == (await answer).json()


# -- a session --------------------------------------------------------------------------------------------------------


@pytest.mark.gate
async def test_all_readers_get_the_same_wherever_they_begin(
    api: ApiClient, model: StreamingModel, stream_client: NewStreamClient
) -> None:
    session = await api.create_session("talk")
    clients, go = [stream_client() for _ in range(4)], asyncio.Event()
    model.parts = ["Tell ", "me ", go, "more."]
    here = asyncio.Semaphore(0)

    async def follow(client: Any, place: str, until: Any) -> None:
        headers = {"Last-Event-ID": place} if place else {}
        async with api.open_stream(events(session), headers=headers) as stream:
            here.release()
            await client.receive(stream, until)

    is_over = has_transcript([("user", "x"), ("assistant", "Tell me more.")])
    early = asyncio.create_task(follow(clients[0], "", is_over))
    answer = asyncio.create_task(api.send_message(session, {"content": "x"}))
    await follow(clients[1], "", has_text("Tell me "))
    clients[1].disconnect()
    await follow(clients[2], "", has_text("Tell "))
    late = [asyncio.create_task(follow(client, client.last_id, is_over)) for client in clients[1:]]
    for _ in ("early", "cut", "left", *late):
        await here.acquire()
    go.set()
    await asyncio.gather(early, answer, *late)
    for client in clients:
        assert client.transcript == await api.transcript(session)
    assert clients[1].kinds.count("message.delta") == 3


def has_transcript(said: list[tuple[str, str]]) -> Any:
    return lambda client: client.transcript[-len(said) :] == said and client.kinds[-1:] == ["wait"]


async def test_a_turn_that_ended_meanwhile_is_sent_as_a_whole(
    api: ApiClient, model: StreamingModel, stream_client: NewStreamClient
) -> None:
    session = await api.create_session("talk")
    client, go = stream_client(), asyncio.Event()
    client.seq = len((await api.read(events(session)))["data"])
    model.parts = ["Tell ", go, "me ", "more."]
    async with api.open_stream(turns(session), {"content": "x"}) as stream:
        await client.receive(stream, has_text("Tell "))
    client.disconnect()
    go.set()
    await until(api, session, [("assistant", "Tell me more.")])
    async with api.open_stream(events(session), headers={"Last-Event-ID": client.last_id}) as stream:
        await client.receive(stream, has_transcript([("assistant", "Tell me more.")]))
    assert client.kinds == ["message.delta", "message.reset", "message", "judged", "message", "position", "wait"]


async def test_partial_texts_of_an_unknown_turn_are_reset(
    api: ApiClient, model: StreamingModel, stream_client: NewStreamClient
) -> None:
    session = await api.create_session("talk")
    await api.send_texts(session, "x")
    seq = len((await api.read(events(session), limit=200))["data"])
    client = stream_client()
    client.seq, client.partial_texts = seq - 4, {3: "Forgotten", 4: "words"}
    place = f"{session['sessionId']}:{seq - 4}.0badc0de.7"
    async with api.open_stream(events(session), headers={"Last-Event-ID": place}) as stream:
        await client.receive(stream, lambda heard: heard.kinds[-1:] == ["wait"])
    assert (client.kinds[0], client.partial_texts) == ("message.reset", {})
    assert client.transcript == (await api.transcript(session))[2:]
    client.partial_texts = {5: "Forgotten"}
    for number in (seq, seq + 100):
        place = f"{session['sessionId']}:{number}.0badc0de.7"
        async with api.open_stream(events(session), headers={"Last-Event-ID": place}) as stream:
            await client.receive(stream, lambda heard: heard.kinds[-1:] == ["message.reset"])
        assert (client.partial_texts, client.last_id) == ({}, f"{session['sessionId']}:{seq}")


async def test_an_id_of_nowhere_is_refused(api: ApiClient) -> None:
    session, other = await api.create_session("talk"), await api.create_session("talk")
    own = session["sessionId"]
    for place in ("7", f"{own}", f"{own}:", f"{own}:-1", f"{own}:1.2", f"{own}:1.ab.x", f"{other['sessionId']}:1"):
        for headers in ({}, SSE):
            answer = await api.get(events(session), headers=headers | {"Last-Event-ID": place})
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, "REQUEST_INVALID"), place
    unknown = await api.get(f"/api/sessions/{own[:-1]}x/events", headers=SSE)
    assert unknown.status_code == 404


async def test_what_is_above_all_there_is_means_from_now_on(
    api: ApiClient, model: StreamingModel, stream_client: NewStreamClient
) -> None:
    session = await api.create_session("talk")
    client = stream_client()
    client.seq = len((await api.read(events(session)))["data"])
    async with api.open_stream(events(session), after=1_000) as stream:
        answer = asyncio.create_task(api.send_message(session, {"content": "x"}))
        await client.receive(stream, has_transcript([("assistant", "And?")]))
        await answer
    assert client.transcript == [("user", "x"), ("assistant", "And?")]
    assert (await api.read(events(session), after=1_000))["data"] == []


async def test_the_stream_of_a_session_ends_with_it(api: ApiClient, stream_client: NewStreamClient) -> None:
    session = await api.create_session("diary")
    client = stream_client()
    async with api.open_stream(events(session)) as stream:
        hearing = asyncio.create_task(client.receive(stream))
        await api.send_texts(session, "one", "stop")
        await hearing
    assert client.transcript == await api.transcript(session)
    assert client.kinds[-2:] == ["position", "ended"]
    over = await api.get(events(session), headers=SSE | {"Last-Event-ID": client.last_id})
    assert (over.status_code, over.content) == (204, b"")


async def test_a_stream_lasts_a_bounded_time(server: OpenApp, tmp_path: Path, stream_client: NewStreamClient) -> None:
    async with server(tmp_path, stream_s=2) as api:
        session = await api.create_session("diary")
        client = stream_client()
        async with api.open_stream(events(session)) as stream:
            await client.receive(stream)
        assert client.transcript == await api.transcript(session)


# -- pages ------------------------------------------------------------------------------------------------------------


@pytest.mark.gate
async def test_events_come_in_pages_too(api: ApiClient) -> None:
    session = await api.create_session("diary")
    for number in range(25):
        await api.send_texts(session, str(number))
    found, cursor = [], "0"
    while cursor is not None:
        page = await api.read(events(session), cursor=cursor, limit=7)
        assert len(page["data"]) <= 7
        found += page["data"]
        cursor = page["nextCursor"]
    assert [event["seq"] for event in found] == list(range(1, len(found) + 1))
    said = [event["data"]["content"] for event in found if event["kind"] == "message"]
    assert said == [content for _, content in await api.transcript(session)]
    assert {event["data"]["role"] for event in found if event["kind"] == "message"} == {"assistant", "user"}
    ids = [event["data"]["actionId"] for event in found if event["kind"] == "wait"]
    assert ids == ["next"] * 26
    place = {"Last-Event-ID": f"{session['sessionId']}:{len(found) - 1}.ab12.3"}
    assert (await api.get(events(session), headers=place)).json()["data"] == found[-1:]


async def test_a_page_can_be_waited_for(server: OpenApp, tmp_path: Path) -> None:
    async with server(tmp_path, session_streams_max=3) as api:
        await api.publish_script(TALK)
        session = await api.create_session("talk")
        after = len((await api.read(events(session)))["data"])
        waiting = [
            asyncio.create_task(api.wait_for_events(events(session), after, seconds)) for seconds in (50, 999, 10**12)
        ]
        await api.wait_for_full_stream(events(session))
        assert not any(task.done() for task in waiting)
        await api.send_texts(session, "x")
        for answer in await asyncio.gather(*waiting):
            assert answer.json()["data"][0]["data"]["content"] == "x"
        assert [task.result().headers["preference-applied"] for task in waiting] == ["wait=50", "wait=60", "wait=60"]


async def test_a_page_is_waited_for_in_vain(api: ApiClient) -> None:
    session = await api.create_session("talk")
    assert session["position"]["maxRounds"] == 100
    nothing = await api.get(events(session), params={"after": 10_000}, headers={"Prefer": "wait=1"})
    assert nothing.json() == {"data": [], "nextCursor": None}
    assert "preference-applied" not in (await api.get(events(session))).headers


# -- bounds -----------------------------------------------------------------------------------------------------------


async def test_poll_that_a_client_has_left_takes_no_place(server: OpenApp, tmp_path: Path) -> None:
    async with server(tmp_path, session_streams_max=1) as api:
        session = await api.create_session("diary")
        with pytest.raises(httpx.ReadTimeout):
            await api.get(events(session), params={"after": 99}, headers={"Prefer": "wait=60"}, timeout=0.5)
        async with asyncio.timeout(30):
            answer = await api.wait_for_events(events(session), 99, 1)
        assert answer.json()["data"] == []


async def test_there_are_only_so_many_streams(server: OpenApp, tmp_path: Path, stream_client: NewStreamClient) -> None:
    async with server(tmp_path, streams_max=3, session_streams_max=2) as api:
        session, other = await api.create_session("diary"), await api.create_session("diary")
        async with api.open_stream(events(session)) as one, api.open_stream(events(session)) as two:
            assert [one.status_code, two.status_code] == [200, 200]
            refused = [
                await api.get(events(session), headers=SSE),
                await api.send_message(session, {"content": "x"}, SSE),
                await api.get(events(session), params={"after": 99}, headers={"Prefer": "wait=5"}),
            ]
            async with api.open_stream(events(other)):
                refused.append(await api.get(events(other), headers=SSE))
                refused.append(await api.post("/api/sessions", json={"userId": "a", "scriptId": "diary"}, headers=SSE))
        for answer in refused:
            assert (answer.status_code, answer.json()["error"]["code"]) == (429, "STREAMS_FULL")
            assert answer.headers["retry-after"] == "5"
        assert await api.transcript(session) == (await api.transcript(other))
        client = stream_client()
        client.seq = len((await api.read(events(session)))["data"])
        answer = await api.send_message(session, {"content": "x"}, SSE)
        while answer.status_code == 429:  # until the server notices who left
            answer = await api.send_message(session, {"content": "x"}, SSE)
        client.feed(answer.content)
        assert client.turn["turn"] == 1


@contextmanager
def cut_off(client: Any) -> Iterator[None]:
    """Within, the server may end the stream without its last chunk."""
    try:
        yield
    except httpx.RemoteProtocolError:
        client.disconnect()


@pytest.mark.gate
async def test_a_client_that_does_not_read_is_left_and_comes_back(
    server: OpenApp, tmp_path: Path, stream_client: NewStreamClient
) -> None:
    async with server(tmp_path, session_streams_max=1, stream_write_s=0.3) as api:
        session, entry = await api.create_session("diary"), {"content": "x" * 15_000}
        client, said = stream_client(), 0
        async with api.open_stream(events(session)) as stream:
            while (await api.send_message(session, entry, SSE)).status_code == 429:
                said += 1
                assert said < 1_000
                await api.send_message(session, entry)
            with cut_off(client):
                await client.receive(stream)
        assert said > 10  # the others were answered all the while
        assert 0 < len(client.transcript) < 3 * said
        said_all = await api.transcript(session)
        while client.transcript != said_all:  # it is left again where it reads too slowly
            place = {"Last-Event-ID": client.last_id}
            async with api.open_stream(events(session), headers=place) as stream:
                if stream.status_code == 429:  # until the server notices that the client has left
                    continue
                with cut_off(client):
                    await client.receive(stream, lambda heard: len(heard.transcript) == len(said_all))


def test_the_words_of_a_turn_are_bounded() -> None:
    turn = LiveTurn(("t", "s"), 0, (), chars_max=10)
    turn.on_delta(MessageDelta(1, "a", "12345"))
    turn.on_delta(MessageDelta(2, "b", "1234"))
    turn.on_delta(MessageDelta(2, "b", "56"))
    turn.on_delta(MessageDelta(2, "b", "7"))
    retained = [json.loads(frame.split(b"data: ")[1]) for frame in turn.frames[:]]
    assert [part.get("text") for part in retained] == ["12345", "1234", None]
    assert retained[-1] == {"message": 2}
    many = LiveTurn(("t", "s"), 0, (), chars_max=10 * FRAMES_MAX)
    for _ in range(FRAMES_MAX + 100):
        many.on_delta(MessageDelta(1, "a", "."))
    many.on_delta(MessageReset(1))
    assert len(many.frames) == FRAMES_MAX + 1


def test_what_a_silent_turn_takes_back_is_bounded_too() -> None:
    turn = LiveTurn(("t", "s"), 0, (), chars_max=5)
    turn.on_delta(MessageDelta(1, "a", "12345"))
    for number in range(2, 100):
        turn.on_delta(MessageDelta(number, "b", "6"))
        turn.on_delta(MessageReset(number))
    assert len(turn.frames) == 1
    turn.on_delta(MessageReset(1))
    turn.on_delta(MessageReset(1))
    assert len(turn.frames) == 2


async def test_sessions_that_nobody_follows_are_forgotten() -> None:
    live = LiveTurns(Settings())

    async def turn(number: int) -> None:
        state = State(seed=0, locale="en", event_seq=0)

        async def work(own: PendingTurn) -> Any:
            with live.answering(own):
                live.begin(("t", str(number)), state, own)

        await PendingTurn(None, lambda own: asyncio.create_task(work(own)))

    subscription = ExitStack()
    channel = subscription.enter_context(live.subscribe(("t", "followed"), State(seed=0, locale="en")))
    for number in range(KNOWN_SESSIONS * 2):
        await turn(number)
    assert len(live._channels) <= KNOWN_SESSIONS + 1
    assert ("t", "followed") in live._channels
    subscription.close()
    subscription.close()
    assert channel.readers == 0


async def test_a_reader_that_waits_is_woken_when_the_server_stops() -> None:
    live = LiveTurns(Settings())
    with live.subscribe(("t", "a"), State(seed=0, locale="en")) as channel:
        waiting = asyncio.create_task(channel.signal.wait(60))
        await asyncio.sleep(0)
        live.close()
        async with asyncio.timeout(5):
            assert await waiting


# -- what nobody is to see --------------------------------------------------------------------------------------------


WATCHED = """
script: watched
phases: [{phase: p, topics: [{topic: t, actions: [{say: Hello., id: hello}, {chat: Talk., id: c}]}]}]
detectors:
- {detector: d, on: assistant, rules: [{words: [SECRET], label: s}], replace: I cannot say that.}
"""


async def test_a_text_that_is_withheld_is_in_no_frame(
    api: ApiClient, model: StreamingModel, stream_client: NewStreamClient
) -> None:
    await api.publish_script(WATCHED)
    heard, follower = b"", stream_client()
    model.parts = ["The SECRET is 42."]
    answers = [await api.post("/api/sessions", json={"userId": "a", "scriptId": "watched"}, headers=SSE)]
    session = json.loads(answers[0].text.rpartition("data: ")[2])
    async with api.open_stream(events(session)) as stream:
        for parts in (["A SECRET", None, "Another SECRET."], ["SEC", "RET", ModelFailed("gone")], ["Fine."]):
            model.parts = list(parts)
            answers.append(await api.send_message(session, {"content": "x"}, SSE))
        async for chunk in stream.aiter_raw():
            heard += chunk
            if b"Fine." in heard:
                break
    follower.feed(heard)
    everything = heard + b"".join(answer.content for answer in answers)
    everything += (await api.get(events(session), params={"limit": 200})).content
    assert b"SECRET" not in everything
    assert b"message.delta" not in everything
    assert [answer.status_code for answer in answers] == [200, 200, 503, 200]
    assert ("assistant", "I cannot say that.") in follower.transcript


# -- HTTP -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, False),
        ("", False),
        ("*/*", False),
        ("application/json", False),
        ("text/html,application/xhtml+xml,*/*;q=0.8", False),
        ("text/event-stream", True),
        ("Text/Event-Stream ; charset=utf-8", True),
        ("text/event-stream, application/json", False),
        ("text/event-stream, application/json;q=0.9", True),
        ("text/event-stream;q=0.5, application/json;q=0.4", True),
        ("text/event-stream;q=0.5, application/json", False),
        ("text/event-stream, */*", True),
        ("text/event-stream, */*;q=0.1", True),
        ("text/event-stream;q=0.3, */*;q=0.5", False),
        ("text/*, application/json;q=0.5", True),
        ("text/event-stream;q=0, */*", False),
        ("text/event-stream;q=0", False),
        ("text/event-stream;q=2", False),
        ("text/event-stream;q=", False),
        (";;;,,,text/event-stream", True),
    ],
)
def test_what_a_client_accepts_decides(accept: str | None, expected: bool) -> None:
    assert wants_stream(accept) is expected


async def test_a_stream_answers_what_it_is_for_and_nothing_else(api: ApiClient) -> None:
    session = await api.create_session("talk")
    options = await api.options(events(session))
    assert (options.status_code, options.headers["allow"]) == (204, "GET, HEAD, OPTIONS")
    for method in ("POST", "DELETE"):
        answer = await api.request(method, events(session), headers=SSE)
        assert answer.status_code == 405
    refused = await api.get(events(session), headers={"Accept": "application/json"})
    assert refused.headers["content-type"] == "application/json"


async def test_streams_are_described(api: ApiClient) -> None:
    paths = (await api.read("/schema/openapi.json"))["paths"]
    for method, path in [
        ("post", "/api/sessions"),
        ("post", "/api/sessions/{sessionId}/messages"),
        ("get", "/api/sessions/{sessionId}/events"),
    ]:
        answer = paths[path][method]["responses"]["200"]
        assert set(answer["content"]) == {"application/json", "text/event-stream"}
        stream = answer["content"]["text/event-stream"]
        assert stream["examples"]["words"]["value"]["event"] == "message.delta"
        assert "429" in paths[path][method]["responses"]


@pytest.mark.gate
async def test_few_turns_wait_for_a_client_that_does_not_read(
    server: OpenApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each chunk is all that the server holds of a stream until the client has accepted it."""
    monkeypatch.setattr("api.sessions.streams.CHUNK_BYTES", 10_000)
    async with server(tmp_path) as api:
        await api.publish_script(TALK)
        session = await api.create_session("talk")
        texts = [f"{number} {'x' * (9_000 if number % 10 > 6 else 10)}" for number in range(40)]
        for text in texts:
            body = {"messages": [{"role": "user", "content": text}]}
            assert (await api.post(f"{turns(session)}/append", json=body)).status_code == 200
        assert (await api.post(f"/api/sessions/{session['sessionId']}/end", json={})).status_code == 200
        last = len((await api.read(events(session) + "?limit=500"))["data"])
        async with api.open_stream(events(session) + "?after=0", headers=SSE) as stream:
            arriving = stream.aiter_raw()
            chunks = [await anext(arriving), await anext(arriving)]
            async with asyncio.timeout(60):  # the server is making the next chunk of what it has read
                await asyncio.sleep(0.5)
                while sum(isinstance(each, TurnEventsRow) for each in gc.get_objects()) > 1:
                    await asyncio.sleep(2)  # counting blocks the server for seconds on a busy machine
                    gc.collect()
            chunks += [chunk async for chunk in arriving]
        assert max(map(len, chunks)) < 10_000 + 2 * 9_500
        ids = re.findall(rb"id: [^:]+:(\d+)\n", b"".join(chunks))
        assert list(map(int, ids)) == list(range(1, last + 1))
