"""A history around a callable: it gets the messages, and both sides are stored in one turn, or nothing is."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from api.client.history import InMemoryStore, with_history
from api.embedded import open_runtime
from cuebook import Client, SyncClient
from tests.support.fixture_types import Serve


@pytest.fixture
async def cuebook(tmp_path: Path) -> AsyncIterator[Client]:
    async with open_runtime(tmp_path / "data", scripts=tmp_path) as cuebook:
        yield cuebook


CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "clock", "arguments": {}}]}


class Model:
    """Answers how many messages it got, and remembers them."""

    def __init__(self) -> None:
        self.asked: list[list[tuple[str, str]]] = []

    async def __call__(self, messages) -> str:
        self.asked.append([(each["role"], each["content"]) for each in messages])
        return f"{len(messages)} messages"


async def said(cuebook: Client, key: str) -> list[str]:
    session = await cuebook.sessions.by_key(key)
    return [f"{each.role}: {each.content}" async for each in cuebook.sessions.transcript(session.session_id)]


async def test_the_second_call_gets_what_was_said_in_the_first(cuebook) -> None:
    model = Model()
    answer = with_history(model, cuebook.sessions, session_id="alice")
    assert await answer("hello") == "1 messages"
    assert await answer("again") == "3 messages"
    assert model.asked[1] == [("user", "hello"), ("assistant", "1 messages"), ("user", "again")]
    assert await said(cuebook, "alice") == ["user: hello", "ai: 1 messages", "user: again", "ai: 3 messages"]
    session = await cuebook.sessions.by_key("alice")
    assert session.turn == 2  # question and answer are one turn


async def test_config_names_the_conversation_or_it_is_the_default(cuebook) -> None:
    answer = with_history(Model(), cuebook.sessions)
    await answer("to bob", {"metadata": {"session_id": "bob"}})
    await answer("to nobody")
    await answer("to nobody", {"metadata": {}})
    assert await said(cuebook, "bob") == ["user: to bob", "ai: 1 messages"]
    assert len(await said(cuebook, "default")) == 4
    by_rule = with_history(Model(), cuebook.sessions, session_id=lambda config: f"user:{config['user']}")
    await by_rule("hi", {"user": 7})
    assert await said(cuebook, "user:7") == ["user: hi", "ai: 1 messages"]


@pytest.mark.parametrize("session_id", [123456, 0, True, ["alice"]])
async def test_a_session_id_that_is_no_text_shares_no_conversation(session_id) -> None:
    store = InMemoryStore()
    with pytest.raises(TypeError, match="session_id of a config is a text"):
        await with_history(Model(), store)("hello", {"metadata": {"session_id": session_id}})
    assert store.load("default") == []


async def test_a_context_strategy_selects_what_the_callable_gets(cuebook) -> None:
    model = Model()
    answer = with_history(model, cuebook.sessions, session_id="alice", context={"strategy": "window", "k": 1})
    for question in ("one", "two", "three"):
        await answer(question)
    assert [text for _, text in model.asked[-1]] == ["two", "3 messages", "three"]
    assert len(await said(cuebook, "alice")) == 6
    answer = with_history(model, cuebook.sessions, session_id="bob", context={"strategy": "summary", "keep": 2})
    for question in ("I live in Lisbon.", "My cat is called Momo.", "Where do I live?"):
        await answer([{"role": "system", "content": "Be brief."}, {"role": "user", "content": question}])
    rules, summary, *messages = model.asked[-1]
    assert rules == ("system", "Be brief.")
    assert summary[0] == "system" and "I live in Lisbon." in summary[1]
    assert [text for _, text in messages] == ["My cat is called Momo.", "4 messages", "Where do I live?"]


@pytest.mark.gate
async def test_the_sessions_of_a_client_without_event_loop_will_do(serve: Serve) -> None:
    server = serve()
    await server.ready()
    with SyncClient(server.url) as sync:
        for context in (None, "window"):
            answer = with_history(lambda messages: f"{len(messages)}", sync.sessions, session_id="c", context=context)
            question = f"with {context}"
            assert await asyncio.to_thread(asyncio.run, answer(question)) == ("1" if context is None else "3")
        session = sync.sessions.by_key("c")
        assert [each.content for each in sync.sessions.transcript(session.session_id)][:2] == ["with None", "1"]
    assert await server.stop() == 0


def test_a_context_strategy_needs_sessions() -> None:
    with pytest.raises(TypeError, match="a message store has none"):
        with_history(Model(), InMemoryStore(), context="window")


async def test_a_system_message_stays_first_and_is_not_stored(cuebook) -> None:
    model = Model()
    answer = with_history(model, cuebook.sessions)
    system = {"role": "system", "content": "Be brief."}
    await answer([system, {"role": "user", "content": "hello"}])
    await answer([system, {"role": "user", "content": "again"}])
    assert [role for role, _ in model.asked[1]] == ["system", "user", "assistant", "user"]
    assert "Be brief." not in " ".join(await said(cuebook, "default"))


async def test_a_system_message_that_is_stored_stays_first(cuebook) -> None:
    system = {"role": "system", "content": "Be brief."}
    session = await cuebook.sessions.get_or_create("alice", "default")
    await cuebook.sessions.append(session.session_id, [system])
    store = InMemoryStore()
    store.append("alice", [system])
    for conversations in (cuebook.sessions, store):
        model = Model()
        answer = with_history(model, conversations, session_id="alice")
        await answer("hello")
        await answer("again")
        assert [role for role, _ in model.asked[1]] == ["system", "user", "assistant", "user"]


async def test_stored_messages_reach_the_callable_unchanged() -> None:
    store, result = InMemoryStore(), {"role": "tool", "content": "noon", "tool_call_id": "c1"}
    parts = {"role": "user", "content": [{"type": "text", "text": "What time is it?"}]}
    store.append("alice", [parts, {**CALL, "content": None}, result])
    assert (await with_history(Model(), store, session_id="alice").before("And now?"))[:3] == store.load("alice")


async def test_where_the_call_fails_nothing_dangles(cuebook) -> None:
    async def fails(messages) -> str:
        raise RuntimeError("no model")

    answer = with_history(fails, cuebook.sessions)
    with pytest.raises(RuntimeError):
        await answer("hello")
    assert await said(cuebook, "default") == []

    async def nonsense(messages) -> object:
        return 42

    with pytest.raises(TypeError):
        await with_history(nonsense, cuebook.sessions)("hello")
    assert await said(cuebook, "default") == []


async def test_a_plain_function_will_do_and_may_give_messages(cuebook) -> None:
    def plain(messages) -> list[dict[str, object]]:
        result = {"role": "tool", "content": "noon", "tool_call_id": "c1"}
        return [CALL, result, {"role": "assistant", "content": "Noon."}]

    answer = with_history(plain, cuebook.sessions)
    await answer("what time is it?")
    retained = await answer.before("and now?")
    assert retained[1]["tool_calls"] == CALL["tool_calls"]
    assert retained[2]["tool_call_id"] == "c1"
    assert await said(cuebook, "default") == ["user: what time is it?", "ai: ", "tool: noon", "ai: Noon."]


async def test_what_a_model_returns_beside_its_text_is_stored(cuebook) -> None:
    async def full(messages) -> dict[str, object]:
        return {"role": "assistant", "content": "hi", "refusal": None, "tool_calls": None, "reasoning_content": "hm"}

    await with_history(full, cuebook.sessions)("hello")
    session = (await cuebook.sessions.by_key("default")).session_id
    assert [each.metadata async for each in cuebook.sessions.transcript(session)] == [{}, {"reasoning_content": "hm"}]


async def test_its_two_ends_serve_programs_that_call_by_themselves(cuebook) -> None:
    history = with_history(Model(), cuebook.sessions)
    assert await history.before("hello") == [{"role": "user", "content": "hello"}]
    await history.after("hello", "hi")
    assert [each["content"] for each in await history.before("again")] == ["hello", "hi", "again"]


@pytest.mark.gate
async def test_fifty_at_once_are_all_stored_with_their_answers(cuebook) -> None:
    async def echo(messages) -> str:
        return f"to {messages[-1]['content']}"

    answer = with_history(echo, cuebook.sessions)
    await asyncio.gather(*(answer(f"{number}") for number in range(50)))
    retained = await said(cuebook, "default")
    assert len(retained) == 100
    pairs = list(zip(retained[::2], retained[1::2], strict=True))
    assert {question for question, _ in pairs} == {f"user: {number}" for number in range(50)}
    assert all(reply == f"ai: to {question.removeprefix('user: ')}" for question, reply in pairs)


async def test_a_conversation_that_was_deleted_starts_again(cuebook) -> None:
    answer = with_history(Model(), cuebook.sessions)
    await answer("hello")
    await cuebook.sessions.delete((await cuebook.sessions.by_key("default")).session_id)
    assert await answer("again") == "1 messages"


async def test_history_lives_in_an_in_memory_store() -> None:
    store, model = InMemoryStore(), Model()
    answer = with_history(model, store, session_id="alice")
    await answer("hello")
    await answer("again")
    assert model.asked[-1] == [("user", "hello"), ("assistant", "1 messages"), ("user", "again")]
    assert [message["role"] for message in store.load("alice")] == ["user", "assistant"] * 2
    assert store.load("bob") == []
    store.clear("alice")
    await answer("third")
    assert model.asked[-1] == [("user", "third")]


async def test_messages_come_from_a_store_as_they_were_stored() -> None:
    asked: list[Any] = []
    result = {"role": "tool", "content": "12:00", "tool_call_id": "c1", "name": "clock"}
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 50_000}}
    question = {"role": "user", "content": [{"type": "text", "text": "What time is it here?"}, picture]}
    long_call = {**CALL, "tool_calls": [{"id": "c1", "function": {"name": "clock", "arguments": "x" * 30_000}}]}

    async def call(messages: Any) -> Any:
        asked.append(messages)
        return [long_call, result, {"role": "assistant", "content": "noon"}]

    answer = with_history(call, InMemoryStore())
    await answer(question)
    await answer("And now?")
    assert asked[-1] == [
        question,
        long_call,
        result,
        {"role": "assistant", "content": "noon"},
        {"role": "user", "content": "And now?"},
    ]


@pytest.mark.parametrize("message", [{"role": "bot", "content": "hi"}, {"role": "assistant", "content": 7}])
async def test_what_is_no_message_is_neither_asked_nor_stored(message: Any) -> None:
    store, model = InMemoryStore(), Model()
    answer = with_history(model, store)
    await answer("hello")
    with pytest.raises(TypeError):
        await answer(message)
    with pytest.raises(TypeError):
        await answer.after("again", message)
    assert await answer("third") == "3 messages"
    assert [len(asked) for asked in model.asked] == [1, 3]
    assert len(store.load("default")) == 4


async def test_history_lives_in_a_store_of_ones_own(tmp_path: Path) -> None:
    class Files:
        async def append(self, session_id: str, messages: Any) -> None:
            with (tmp_path / session_id).open("a") as file:
                file.writelines(json.dumps(message) + "\n" for message in messages)

        async def load(self, session_id: str) -> list[dict[str, Any]]:
            path = tmp_path / session_id
            return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

        async def clear(self, session_id: str) -> None:
            (tmp_path / session_id).unlink(missing_ok=True)

    await with_history(Model(), Files(), session_id="alice")("hello")
    model = Model()
    await with_history(model, Files(), session_id="alice", max_messages=2)("again")
    assert model.asked[-1] == [("user", "hello"), ("assistant", "1 messages"), ("user", "again")]


@pytest.mark.parametrize("kind", ["asynchronous", "plain", "text"])
async def test_a_streamed_answer_is_stored_whole(kind: str) -> None:
    async def pieces(messages: Any) -> Any:
        for piece in ("Good ", "day, ", "Ana."):
            yield piece

    calls: dict[str, Any] = {
        "asynchronous": pieces,
        "plain": lambda messages: iter(["Good ", "day, ", "Ana."]),
        "text": lambda messages: "Good day, Ana.",
    }
    store = InMemoryStore()
    answer = with_history(calls[kind], store, session_id="alice")
    heard = [piece async for piece in answer.stream("hello")]
    assert "".join(heard) == "Good day, Ana."
    assert len(heard) == (1 if kind == "text" else 3)
    assert [message["content"] for message in store.load("alice")] == ["hello", "Good day, Ana."]


async def test_a_stream_that_breaks_off_keeps_nothing() -> None:
    async def fails(messages: Any) -> Any:
        yield "Good "
        raise RuntimeError("lost")

    store = InMemoryStore()
    with pytest.raises(RuntimeError, match="lost"):
        async for _ in with_history(fails, store).stream("hello"):
            pass
    assert store.load("default") == []
