"""The Python client: typed answers, requests that are sent again and carried out once, streams that go on."""

import asyncio
import gc
import inspect
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.client.client import SyncSessions
from api.client.in_process import InProcess
from api.client.session_requests import Sessions
from api.client.streams import turn_of
from api.client.transport import RetryPolicy
from api.embedded import open_runtime
from cuebook import Client, CuebookError, SyncClient
from runtime.models.offline_model import OfflineModel
from runtime.state.ports import ModelFailed, ModelReply, ModelRequest, OnReply
from store.interface.errors import StoreError
from tests.support.fixture_types import Serve
from tests.support.paths import CONVERSATIONS

HURRIED = RetryPolicy(first_wait_s=0.001, wait_max_s=0.002, retry_after_max_s=0.0)


@pytest.fixture
async def cuebook(tmp_path: Path) -> AsyncIterator[Client]:
    async with open_runtime(tmp_path / "data", scripts=CONVERSATIONS) as cuebook:
        yield cuebook


async def test_settings_name_scripts_and_model_unless_arguments_do(tmp_path: Path) -> None:
    settings = {"scripts": str(CONVERSATIONS), "model": "openai:small", "model_url": "http://127.0.0.1:9/v1"}
    once = RetryPolicy(attempts_max=1)
    async with open_runtime(tmp_path / "data", settings=settings, patience=once) as cuebook:
        assert (await cuebook.sessions.create("ana", "visit")).messages
        with pytest.raises(CuebookError, match="LLM_SERVICE_ERROR"):  # nothing listens there
            await cuebook.sessions.send((await cuebook.sessions.create("ana")).session_id, "Hello.")
    async with open_runtime(tmp_path / "data", settings=settings, model="offline") as cuebook:
        assert (await cuebook.sessions.send((await cuebook.sessions.create("ana")).session_id, "Hello.")).messages


class Lossy(httpx.AsyncBaseTransport):
    """A way to a server on which answers are lost, or cut off after so many pieces, after they were worked out."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self.inner = inner
        self.lost = 0
        self.cuts: list[int] = []
        self.sent = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.sent += 1
        answer = await self.inner.handle_async_request(request)
        if self.lost:
            self.lost -= 1
            await answer.aread()
            raise httpx.ReadError("the connection is gone")
        if self.cuts:
            answer.stream = Cut(answer.stream, self.cuts.pop(0))
        return answer


class Cut(httpx.AsyncByteStream):
    def __init__(self, whole: httpx.AsyncByteStream, chars: int) -> None:
        self.whole = whole
        self.left = chars

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self.whole:
            yield chunk[: self.left]
            self.left -= len(chunk)
            if self.left < 0:
                raise httpx.ReadError("the connection is gone")

    async def aclose(self) -> None:
        await self.whole.aclose()


@pytest.fixture
async def lossy(cuebook: Client) -> AsyncIterator[tuple[Client, Lossy]]:
    inner = cuebook._http._transport
    assert isinstance(inner, InProcess)
    way = Lossy(inner)
    async with Client("http://localhost", transport=way, patience=HURRIED) as client:
        yield client, way


async def test_a_session_is_begun_talked_to_and_looked_at(cuebook) -> None:
    session = await cuebook.sessions.create("ana", "visit", metadata={"channel": "web"}, key="web:1")
    answer = await cuebook.sessions.send(session.session_id, "Ana", expected_turn=session.turn)
    assert answer.turn == 1
    seen = await cuebook.sessions.get(session.session_id)
    assert (seen.user_id, seen.key, seen.metadata["channel"], seen.turn) == ("ana", "web:1", "web", 1)
    said = [message.content async for message in cuebook.sessions.transcript(session.session_id)]
    assert "Ana" in said
    assert len((await cuebook.sessions.messages(session.session_id, limit=1)).data) == 1
    store = await cuebook.sessions.variable_store(session.session_id)
    assert (await cuebook.sessions.variables(session.session_id)).keys() >= store.session.keys()
    events = await cuebook.sessions.events(session.session_id, limit=200)
    assert [event.seq for event in events.data] == list(range(1, len(events.data) + 1))


async def test_sessions_are_found_by_metadata_of_any_type(cuebook) -> None:
    metadata = {"vip": True, "level": 3, "city": "北京", "tags": ["a", "b"], "share": 0.5, "a:b": "x:y", r"c\d\:": "z"}
    session = await cuebook.sessions.create("ana", metadata=metadata)
    await cuebook.sessions.create("ben", metadata={"vip": False, "level": 4, "tags": ["a"]})
    for wanted in (*({name: value} for name, value in metadata.items()), metadata):
        found = (await cuebook.sessions.find(metadata=wanted)).data
        assert [each.session_id for each in found] == [session.session_id], wanted


async def test_without_a_script_it_is_free_conversation(cuebook) -> None:
    session = await cuebook.sessions.create("ana")
    assert (session.ai_message, session.execution_status) == ("", "waiting_input")
    assert (await cuebook.sessions.send(session.session_id, "hello")).ai_message


async def test_an_error_has_the_code_and_the_way_out(cuebook) -> None:
    with pytest.raises(CuebookError) as failed:
        await cuebook.sessions.create("ana", "nothing")
    assert (failed.value.code, failed.value.status) == ("SCRIPT_NOT_FOUND", 404)
    assert "Import the script" in str(failed.value)
    session = await cuebook.sessions.create("ana")
    with pytest.raises(CuebookError, match="TURN_CONFLICT"):
        await cuebook.sessions.send(session.session_id, "x", expected_turn=7)


async def test_request_with_a_lost_answer_is_repeated_and_done_once(lossy) -> None:
    client, way = lossy
    way.lost = 2
    session = await client.sessions.create("ana")
    way.lost = 2
    answer = await client.sessions.send(session.session_id, "hello")
    assert way.sent == 6
    assert answer.turn == 1
    said = [each.content async for each in client.sessions.transcript(session.session_id)]
    assert said.count("hello") == 1


async def test_it_is_not_sent_for_ever(lossy) -> None:
    client, way = lossy
    way.lost = 100
    with pytest.raises(CuebookError, match="UNREACHABLE"):
        await client.sessions.create("ana")
    assert way.sent == HURRIED.attempts_max


async def test_an_error_without_an_answer_names_the_address() -> None:
    async with Client("http://127.0.0.1:9", patience=HURRIED) as client:
        with pytest.raises(CuebookError, match=r"no answer from http://127\.0\.0\.1:9 .*Start the server"):
            await client.sessions.get("x")


async def test_a_key_with_a_line_break_is_refused_at_once() -> None:
    async with await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        async with Client(f"http://{host}:{port}", key="secret\n", patience=HURRIED) as client:
            with pytest.raises(CuebookError, match="the API key without blanks") as failed:
                await client.sessions.get("x")
    assert not failed.value.is_passing
    assert "secret" not in str(failed.value)


async def test_an_address_without_a_scheme_is_refused_at_once() -> None:
    async with Client("localhost:8000", patience=HURRIED) as client:
        with pytest.raises(CuebookError, match="Begin the address of the server with http://") as failed:
            await client.sessions.get("x")
    assert not failed.value.is_passing


@pytest.mark.gate
@pytest.mark.parametrize("cuts", [[1], [150], [400, 90], [700, 700, 700]])
async def test_broken_stream_continues_without_repeating_anything(lossy, cuts) -> None:
    client, way = lossy
    session = await client.sessions.create("ana", "visit")
    whole = await client.sessions.create("ana", "visit")
    expected = [(each.kind, each.id.rpartition(":")[2]) async for each in client.sessions.stream(whole.session_id, "A")]
    way.cuts = list(cuts)
    reported = [each async for each in client.sessions.stream(session.session_id, "A")]
    places = [(each.kind, each.id.rpartition(":")[2]) for each in reported]
    assert len(set(places)) == len(places)
    assert "position" in {kind for kind, _ in places}
    assert {each for each in places if each[0] != "message.delta"} == {
        each for each in expected if each[0] != "message.delta"
    }
    assert turn_of(reported[-1]).turn == 1
    assert (await client.sessions.get(session.session_id)).turn == 1


WORDS_ONLY = 180  # bytes of a stream: its first words, and nothing of what follows them


class Unreliable(OfflineModel):
    """A model that fails twice after its first words."""

    def __init__(self) -> None:
        self.calls = 0

    def goes_to(self, request: ModelRequest) -> str:
        return "main"

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        self.calls += 1
        reply = ModelReply(text=f"Attempt {self.calls}.")
        if hear is not None:
            hear(reply)
        if self.calls < 3:
            raise ModelFailed("the model is away")
        return reply


async def test_words_of_failed_attempts_are_retracted(tmp_path: Path) -> None:
    async with open_runtime(tmp_path, model=Unreliable(), patience=HURRIED) as cuebook:
        session = await cuebook.sessions.create("ana")
        words: dict[int, str] = {}
        async for event in cuebook.sessions.stream(session.session_id, "hello"):
            number = event.data.get("message")
            if event.kind == "message.delta":
                words[number] = words.get(number, "") + event.data["text"]
            elif event.kind == "message.reset":
                words = {each: text for each, text in words.items() if each < number}
        assert list(words.values()) == ["Attempt 3."]


async def test_an_error_in_a_stream_is_that_of_an_answer(tmp_path: Path) -> None:
    async with open_runtime(tmp_path, model=Unreliable(), patience=RetryPolicy(attempts_max=1)) as cuebook:
        session = await cuebook.sessions.create("ana")
        with pytest.raises(CuebookError) as failed:
            _ = [event async for event in cuebook.sessions.stream(session.session_id, "hello")]
        assert (failed.value.code, failed.value.status) == ("LLM_SERVICE_ERROR", 503)


async def test_words_of_an_attempt_whose_end_is_lost_are_retracted(tmp_path: Path) -> None:
    """The connection breaks after the first words, and the server runs the turn again for the repeated request."""
    async with open_runtime(tmp_path, model=Unreliable()) as inside:
        session = await inside.sessions.create("ana")
        way = Lossy(inside._http._transport)
        async with Client("http://localhost", transport=way, patience=HURRIED) as client:
            way.cuts = [WORDS_ONLY, WORDS_ONLY]
            events = [event async for event in client.sessions.stream(session.session_id, "hello")]
    words = [(event.kind, event.data.get("text", "")) for event in events if event.kind.startswith("message.")]
    attempts = [("message.delta", f"Attempt {number}.") for number in (1, 2, 3)]
    assert words == [attempts[0], ("message.reset", ""), attempts[1], ("message.reset", ""), attempts[2]]


async def test_an_import_whose_answer_is_lost_is_done_once(lossy) -> None:
    client, way = lossy
    session = (await client.sessions.create("ana", "visit")).session_id
    whole = await client.sessions.export(session)
    await client.sessions.delete(session)
    talk = '{"role": "user", "content": "Hi"}\n'
    for text, form, key in ((whole, "json", None), (talk, "jsonl", None), (talk, "jsonl", "telegram:1")):
        way.lost = 1
        with pytest.raises(CuebookError, match=r"SESSION_(KEY_)?EXISTS") as failed:
            await client.sessions.import_session(text, form, user_id="ben", key=key)
        assert (await client.sessions.get(failed.value.context["sessionId"])).user_id == "ben"
        way.lost = 1
        again = await client.sessions.import_session(text, form, user_id="ben", key=key, replace=True)
        assert (again.replaced, again.session_id) == (True, failed.value.context["sessionId"])
    assert len((await client.sessions.find(user_id="ben")).data) == 3


async def test_a_deletion_whose_answer_is_lost_is_done(lossy) -> None:
    client, way = lossy
    session = await client.sessions.create("ana")
    way.lost = 1
    assert await client.sessions.delete(session.session_id) is True
    assert await client.sessions.delete(session.session_id) is False


async def test_odd_texts_and_ids_have_codes_and_odd_keys_are_sent(cuebook) -> None:
    session = await cuebook.sessions.create("ana", timezone="Asia/Tokyo")
    with pytest.raises(CuebookError, match="half of a surrogate pair"):
        await cuebook.sessions.send(session.session_id, "a\ud800")
    for name in ("get", "delete", "stats"):
        with pytest.raises(CuebookError, match="REQUEST_INVALID: an id is empty"):
            await getattr(cuebook.sessions, name)("")
    async with Client("http://localhost", key="é", transport=cuebook._http._transport) as client:
        assert (await client.sessions.get(session.session_id)).session_id == session.session_id


async def test_a_number_that_json_does_not_have_is_refused(cuebook) -> None:
    for number in (float("nan"), float("inf"), [{"deep": -float("inf")}]):
        with pytest.raises(CuebookError, match="REQUEST_INVALID: a number is NaN or infinite"):
            await cuebook.sessions.create("ana", initial_variables={"none": None, "score": number})
    session = await cuebook.sessions.create("ana", initial_variables={"word": "null", "score": 0.5})
    assert session.variables["score"] == 0.5


async def test_an_idempotency_key_may_be_any_text_but_no_empty_one(cuebook) -> None:
    session = await cuebook.sessions.create("ana", idempotency_key="ключ")
    assert (await cuebook.sessions.create("ana", idempotency_key="ключ")).session_id == session.session_id
    for key, problem in (("", "it is empty"), ("a\nb", "Idempotency-Key: it has a control character")):
        with pytest.raises(CuebookError, match=problem):
            await cuebook.sessions.create("ana", idempotency_key=key)


async def test_nothing_runs_on_of_a_request_that_is_cancelled(cuebook) -> None:
    others = asyncio.all_tasks()
    request = asyncio.create_task(cuebook.sessions.create("ana"))
    for _ in range(5):  # until the application runs, and its response is awaited
        await asyncio.sleep(0)
    request.cancel()
    await asyncio.wait({request})
    for _ in range(500):
        if asyncio.all_tasks() <= others:
            break
        await asyncio.sleep(0.01)
    assert asyncio.all_tasks() <= others


async def test_a_session_that_has_ended_is_followed_to_its_end(cuebook) -> None:
    session = await cuebook.sessions.create("ana", "diary")
    await cuebook.sessions.send(session.session_id, "stop")
    events = (await cuebook.sessions.events(session.session_id, limit=200)).data
    followed = [event async for event in cuebook.sessions.follow(session.session_id, after=events[-3].seq)]
    assert followed[-1].kind == "ended"
    assert [event async for event in cuebook.sessions.follow(session.session_id, after=events[-1].seq)] == []


async def test_a_stream_may_be_left_before_its_end(cuebook) -> None:
    session = await cuebook.sessions.create("ana", "visit")
    async for _ in cuebook.sessions.stream(session.session_id, "Ana"):
        break
    answer = await cuebook.sessions.send(session.session_id, "x", queue=True)
    assert answer.turn == 2


async def test_a_session_is_followed_while_it_is_talked_to(cuebook) -> None:
    session = await cuebook.sessions.create("ana", "visit")
    last = (await cuebook.sessions.events(session.session_id, limit=200)).data[-1].seq

    async def first_word() -> str:
        async for event in cuebook.sessions.follow(session.session_id, after=last):
            if event.kind == "message":
                return str(event.data["content"])
        return ""

    hearing = asyncio.create_task(first_word())
    await cuebook.sessions.send(session.session_id, "Ana")
    assert await asyncio.wait_for(hearing, 30) == "Ana"


async def test_an_answer_that_is_not_cuebooks_is_reported_as_such() -> None:
    async def page(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text="<html>Welcome</html>")

    async with Client("http://localhost", transport=httpx.MockTransport(page)) as client:
        with pytest.raises(CuebookError, match="UNEXPECTED_ANSWER"):
            await client.sessions.get("x")


def test_whatever_can_be_done_can_be_done_waiting() -> None:
    def public(kind: type) -> set[str]:
        return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}

    assert public(SyncSessions) == public(Sessions)


async def test_a_program_without_an_event_loop_waits_for_its_answers(serve: Serve) -> None:
    server = serve("--scripts", str(CONVERSATIONS))
    await server.ready()

    def talk() -> list[str]:
        with SyncClient(server.url) as cuebook:
            session = cuebook.sessions.create("ana", "visit")
            kinds = [event.kind for event in cuebook.sessions.stream(session.session_id, "Ana")]
            assert kinds[-1] == "turn"
            with pytest.raises(CuebookError, match="SESSION_NOT_FOUND"):
                cuebook.sessions.get("nothing")
            return [message.content for message in cuebook.sessions.transcript(session.session_id)]

    assert "Ana" in await asyncio.to_thread(talk)


async def test_closed_client_stays_closed_and_leaves_no_work(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    server = serve("--scripts", str(CONVERSATIONS))
    await server.ready()

    def leave_off() -> None:
        cuebook = SyncClient(server.url)
        session = cuebook.sessions.create("ana", "visit")
        begun = cuebook.sessions.stream(session.session_id, "Ana")
        next(begun)
        cuebook.close()
        cuebook.close()
        del begun
        gc.collect()
        with pytest.raises(RuntimeError, match="the client is closed"):
            cuebook.sessions.get(session.session_id)
        with pytest.raises(RuntimeError, match="the client is closed"):
            next(cuebook.sessions.stream(session.session_id, "Ana"))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await asyncio.to_thread(leave_off)
    assert "Task was destroyed" not in caplog.text


@pytest.mark.database_file
async def test_embedded_runtime_keeps_sessions_and_holds_its_folder(tmp_path: Path) -> None:
    async with open_runtime(tmp_path, scripts=CONVERSATIONS) as cuebook:
        session = await cuebook.sessions.create("ana", "visit")
        with pytest.raises(StoreError):
            async with open_runtime(tmp_path, scripts=CONVERSATIONS):
                pass
    async with open_runtime(tmp_path, scripts=CONVERSATIONS) as cuebook:
        assert (await cuebook.sessions.send(session.session_id, "Ana")).turn == 1


async def test_application_ends_if_its_response_is_not_fully_read() -> None:
    ended = asyncio.Event()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1_000):
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
        await send({"type": "http.response.body"})
        ended.set()

    async with httpx.AsyncClient(transport=InProcess(application), base_url="http://cuebook") as client:
        async with client.stream("GET", "/") as answer:
            await anext(answer.aiter_raw())
        await asyncio.wait_for(ended.wait(), 10)


async def test_application_is_informed_of_a_cancelled_request() -> None:
    ended = asyncio.Event()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        ended.set()

    async with httpx.AsyncClient(transport=InProcess(application), base_url="http://cuebook") as client:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.get("/"), 0.05)
        await asyncio.wait_for(ended.wait(), 10)
