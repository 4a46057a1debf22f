"""Context strategies over HTTP: chosen for a session, looked at, surviving a restart, compressed and replayed."""

from pathlib import Path
from typing import Any

import pytest

from api.catalog.catalog import Catalog
from api.local_files.settings_file import load_settings
from api.replay.recorded_session import ReplaySource, find_session
from api.replay.replay_session import replay
from api.settings import SettingsInvalid
from runtime.state.limits import Limits
from runtime.state.ports import ModelFailed, ModelReply, Usage
from store.open_store import open_store
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp, WriteFile

CHAT = """
script: talk
{context}
phases:
  - phase: only
    topics:
      - topic: talk
        actions:
          - {{chat: Talk about their day., id: day, max_rounds: 100}}
"""
ROLES = ("user", "assistant")
SUMMARY = "{strategy: summary, keep: 4}"
WORDS = [f"On day {n} I planted {n} roses." for n in range(8)]


def script(context: str = "") -> str:
    return CHAT.format(context=f"context: {context}" if context else "")


class Teller:
    """A model whose accounts list the messages they tell of; `fails` makes them fail."""

    def __init__(self) -> None:
        self.fails = False
        self.asked: list[Any] = []

    def goes_to(self, request: Any) -> str:
        return "teller"

    async def complete(self, request: Any, hear: Any = None) -> ModelReply:
        self.asked.append(request)
        usage = Usage(model="m")
        if request.purpose == "chat":
            return ModelReply(text=f"answer {request.round}", usage=usage)
        if self.fails:
            raise ModelFailed("the model is away", usage=usage)
        numbers = " ".join(str(each.number) for each in request.history)
        if request.purpose == "memo":
            return ModelReply(values={"told": numbers}, usage=usage)
        return ModelReply(text=" ".join(filter(None, [request.conversation_summary.previous, numbers])), usage=usage)


def numbers(first: int, last: int) -> str:
    return " ".join(map(str, range(first, last + 1)))


async def context_of(api: ApiClient, session: Any) -> Any:
    return await api.read(f"/api/sessions/{session['sessionId']}/context")


async def compress(api: ApiClient, session: Any, body: Any = None, **headers: str) -> Any:
    return await api.post(f"/api/sessions/{session['sessionId']}/compress", json=body or {}, headers=headers)


async def test_a_summary_survives_a_restart_and_goes_on(app: OpenApp, tmp_path: Path) -> None:
    model = Teller()
    async with app(tmp_path, model) as api:
        await api.publish_script(script(SUMMARY))
        session = await api.create_session("talk")
        await api.send_texts(session, *WORDS[:4])
        before = await context_of(api, session)
    assert (before["strategy"], before["summary"]) == ("summary", numbers(1, 5))
    assert before["settings"] == {"strategy": "summary", "keep": 4}
    assert (before["messages"], before["summaryTo"]) == ([6, 7, 8, 9], 5)
    async with app(tmp_path, model) as api:
        assert await context_of(api, session) == before
        await api.send_texts(session, "And you?")
        assert (await context_of(api, session))["summary"] == numbers(1, 7)
        asked = next(each for each in reversed(model.asked) if each.purpose == "chat")
        assert asked.conversation_summary.summary == numbers(1, 5)
        assert len(await api.transcript(session)) == 11  # nothing of it is gone


async def test_a_session_read_again_keeps_the_messages_of_its_strategy(app: OpenApp, tmp_path: Path) -> None:
    model = Teller()
    async with app(tmp_path, model, session_cache_max=1) as api:
        await api.publish_script(script("{strategy: buffer}"))
        session = await api.create_session("talk")
        await api.send_texts(session, *map(str, range(30)))
        await api.create_session("talk", user="ben")  # displaces it
        await api.send_texts(session, "once more", "and again")
    *_, asked = [each for each in model.asked if each.purpose == "chat"]
    assert [each.number for each in asked.history] == list(range(1, 65))


async def test_a_session_may_have_a_strategy_of_its_own(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        await api.publish_script(script(SUMMARY))
        by_name = await api.create_session("talk", context="window")
        own = await api.create_session("talk", context={"strategy": "lite", "limit": {"messages": 3}})
        for session in (by_name, own):
            await api.send_texts(session, *WORDS)
        assert (await context_of(api, by_name))["strategy"] == "window"
        found = await context_of(api, own)
        assert (found["strategy"], len(found["messages"]) <= 3, found["lastResize"]["type"]) == ("lite", True, "lite")
    async with app(tmp_path) as api:
        assert await context_of(api, own) == found


@pytest.mark.parametrize(
    ("context", "named"),
    [
        ("windw", "window"),
        ({"strategy": "window", "keep": 3}, "keep"),
        ({"strategy": "window", "k": 0}, "expected a whole number of at least 1 - at `$.k`"),
        ({"strategy": "window", "size": 3}, "size"),
        ({"k": 3, "strategy": 5}, "strategy"),
    ],
)
async def test_settings_that_do_not_do_are_refused_by_name(
    app: OpenApp, tmp_path: Path, context: Any, named: str
) -> None:
    async with app(tmp_path) as api:
        await api.publish_script(script())
        answer = await api.post("/api/sessions", json={"userId": "ana", "scriptId": "talk", "context": context})
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert error["code"] == "REQUEST_INVALID"
        assert named in error["message"] + str(error.get("details", ""))


async def test_a_server_may_have_a_strategy_for_all(app: OpenApp, tmp_path: Path, write: WriteFile) -> None:
    file = write("cuebook.toml", 'context_s = 5\n[context]\nstrategy = "window"\nk = 2\n')
    settings = load_settings(file, {}, {})
    assert settings.limits.context_s == 5
    assert load_settings(file, {}, {"CUEBOOK_CONTEXT": "summary"}).contexts.default.strategy == "summary"
    with pytest.raises(SettingsInvalid, match="keep"):
        load_settings(write("cuebook.toml", '[context]\nstrategy = "window"\nkeep = 2\n'), {}, {})
    async with app(tmp_path / "data", context=settings.context) as api:
        await api.publish_script(script())
        session = await api.create_session("talk")
        await api.send_texts(session, *WORDS)
        found = await context_of(api, session)
        assert (found["strategy"], len(found["messages"])) == ("window", 5)


async def test_without_a_strategy_the_newest_messages_are_seen(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        await api.publish_script(script())
        session = await api.create_session("talk")
        await api.send_texts(session, "Hello.")
        found = await context_of(api, session)
        assert (found["strategy"], found["settings"], found["messages"]) == ("newest", None, [1, 2, 3])
        assert found["tokens"] > 0


# -- compress ---------------------------------------------------------------------------------------------------------


async def test_all_but_the_last_messages_are_compressed(app: OpenApp, tmp_path: Path) -> None:
    model = Teller()
    async with app(tmp_path, model) as api:
        await api.publish_script(script())
        session = await api.create_session("talk")
        await api.send_texts(session, *WORDS[:5])
        answer = await compress(api, session, {"keep": 3, "instruct": "Keep the roses."}, **{"Idempotency-Key": "k"})
        body = answer.json()
        assert {name: body[name] for name in ("summary", "summaryTo", "remaining", "by", "messages")} == {
            "summary": numbers(1, 8), "summaryTo": 8, "remaining": 3, "by": "model", "messages": []
        }  # fmt: skip
        after = await api.read(f"/api/sessions/{session['sessionId']}")
        shared = ("sessionId", "status", "executionStatus", "turn", "wait", "position")
        assert {name: body[name] for name in shared} == {name: after[name] for name in shared}
        assert answer.headers["ETag"] == '"6"'
        assert model.asked[-1].conversation_summary.instruct == "Keep the roses."
        calls = len(model.asked)
        again = await compress(api, session, {"keep": 3, "instruct": "Keep the roses."}, **{"Idempotency-Key": "k"})
        assert (again.json(), len(model.asked)) == (answer.json(), calls)
        nothing = await compress(api, session, {"keep": 3})
        assert (nothing.json()["summaryTo"], nothing.headers["ETag"], len(model.asked)) == (8, '"6"', calls)
        await api.send_texts(session, "And then?")
        assert model.asked[-1].conversation_summary.summary == numbers(1, 8)
        assert [each.number for each in model.asked[-1].history] == [9, 10, 11, 12]
        assert (await compress(api, session, {"keep": 1}, **{"If-Match": '"0"'})).status_code == 412
        assert len(await api.transcript(session)) == 13


async def test_without_a_model_a_compression_is_an_extract(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        await api.publish_script(script())
        session = await api.create_session("talk")
        await api.send_texts(session, *WORDS)
        answer = (await compress(api, session, {"keep": 2})).json()
        assert (answer["by"], answer["remaining"]) == ("extract", 2)
        assert "roses" in answer["summary"]


async def test_failed_compression_is_an_error_and_changes_nothing(app: OpenApp, tmp_path: Path) -> None:
    model = Teller()
    model.fails = True
    async with app(tmp_path, model) as api:
        await api.publish_script(script())
        session = await api.create_session("talk")
        await api.send_texts(session, *WORDS[:3])
        before = await context_of(api, session)
        answer = await compress(api, session, {"keep": 2})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "LLM_SERVICE_ERROR")
        assert await context_of(api, session) == before
        model.fails = False
        assert (await compress(api, session, {"keep": 2})).json()["summary"] == numbers(1, 5)
        assert (await compress(api, {"sessionId": "none"})).status_code == 404


@pytest.mark.gate
async def test_a_long_conversation_is_compressed_whole(app: OpenApp, tmp_path: Path) -> None:
    model = Teller()
    async with app(tmp_path, model) as api:
        await api.publish_script(script())
        session = await api.create_session("talk")
        await api.send_texts(session, *(f"word {n}" for n in range(60)))
        await compress(api, session, {"keep": 1})
        assert (await context_of(api, session))["summary"] == numbers(1, 120)


# -- history ----------------------------------------------------------------------------------------------------------


async def test_history_is_messages_from_the_beginning_of_an_exchange(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, Teller()) as api:
        await api.publish_script(script(SUMMARY))
        session = await api.create_session("talk")
        await api.send_texts(session, *WORDS[:4])
        path = f"/api/sessions/{session['sessionId']}/history"
        whole = await api.read(path)
        assert whole[:2] == [{"role": "assistant", "content": "answer 0"}, {"role": "user", "content": WORDS[0]}]
        assert len(whole) == 9
        some = await api.read(path, maxMessages=4)
        assert (some, some[0]["role"]) == (whole[-len(some) :], "assistant")
        assert len(some) <= 4
        few = await api.read(path, maxTokens=30)
        assert 0 < len(few) < 5
        seen = await api.read(path, view="context")
        assert seen == [{"role": "system", "content": f"[Conversation Summary] {numbers(1, 5)}"}, *whole[5:]]
        assert (await api.get(path, params={"maxMessages": 0})).status_code == 400
        assert await api.read(path) == whole


CALLED = [
    {"role": "user", "content": "What time is it?"},
    {"role": "assistant", "content": "", "toolCalls": [{"id": "c1", "name": "clock"}, {"id": "c2", "name": "zone"}]},
    {"role": "tool", "content": "noon", "toolCallId": "c1"},
    {"role": "tool", "content": "UTC", "toolCallId": "c2"},
    {"role": "assistant", "content": "Noon."},
]


async def roles_in_context(api: ApiClient, session: Any) -> list[str]:
    seen = await api.read(f"/api/sessions/{session['sessionId']}/history", view="context")
    return [each["role"] for each in seen]


async def test_without_a_strategy_tool_results_come_with_their_calls(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "data") as api:
        session = await api.create_session("chat")
        path = f"/api/sessions/{session['sessionId']}/messages/append"
        await api.post(path, json={"messages": [{"role": "user", "content": "Hello."}, *CALLED * 10]})
        assert await roles_in_context(api, session) == ["user", "assistant", "tool", "tool", "assistant"] * 10
        await api.post(path, json={"messages": CALLED[:3]})  # the newest 50 begin with a result
        assert (await roles_in_context(api, session))[:2] == ["assistant", "user"]


async def test_tool_result_stays_with_its_call_after_a_compression(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "data") as api:
        session = await api.create_session("chat")
        await api.post(f"/api/sessions/{session['sessionId']}/messages/append", json={"messages": CALLED})
        assert (await compress(api, session, {"keep": 2})).json()["summaryTo"] == 3
        assert await roles_in_context(api, session) == ["system", "assistant", "tool", "tool", "assistant"]


async def test_the_history_begins_with_the_first_system_message(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "data") as api:
        session = await api.create_session("chat")
        said = [{"role": "system", "content": "Be brief."}, *({"role": role, "content": role} for role in ROLES * 30)]
        await api.post(f"/api/sessions/{session['sessionId']}/messages/append", json={"messages": said})
        history = await api.read(f"/api/sessions/{session['sessionId']}/history", maxMessages=3)
        assert [each["content"] for each in history] == ["Be brief.", *ROLES]


async def test_a_run_without_answers_is_no_reason_for_more(app: OpenApp, tmp_path: Path) -> None:
    said = [{"role": "user", "content": f"said {number}"} for number in range(60)]
    async with app(tmp_path / "data") as api:
        session = await api.create_session("chat")
        await api.post(f"/api/sessions/{session['sessionId']}/messages/append", json={"messages": said})
        history = await api.read(f"/api/sessions/{session['sessionId']}/history", maxMessages=3)
        assert [each["content"] for each in history] == ["said 57", "said 58", "said 59"]


async def test_later_system_messages_leave_the_history_in_turn(app: OpenApp, tmp_path: Path) -> None:
    """They are no beginning of the conversation where the messages before them are not read."""
    said = [{"role": role, "content": f"{role} {number}"} for number in range(40) for role in ("system", *ROLES)]
    async with app(tmp_path / "data") as api:
        session = await api.create_session("chat")
        for begin in (0, 60):
            body = {"messages": said[begin : begin + 60]}
            await api.post(f"/api/sessions/{session['sessionId']}/messages/append", json=body)
        path = f"/api/sessions/{session['sessionId']}/history"
        for most in range(1, 7):
            history = [each["content"] for each in await api.read(path, maxMessages=most)]
            assert history[:2] in (["system 0", "user 39"], ["system 0", "user 38"])
        seen = await api.read(path, view="context")
    async with app(tmp_path / "data") as api:
        assert await api.read(path, view="context") == seen
        assert [each["content"] for each in seen][:2] in (["system 0", f"{role} 23"] for role in ROLES)


async def test_a_memo_is_shown_and_stands_before_the_messages(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, Teller()) as api:
        await api.publish_script(script("{strategy: memo, limit: {messages: 4}, resize: {every_n_turns: 2}}"))
        session = await api.create_session("talk")
        await api.send_texts(session, *WORDS[:4])
        found = await context_of(api, session)
        assert found["memo"]["told"]
        assert found["lastResize"]["turn"] > 0
        seen = await api.read(f"/api/sessions/{session['sessionId']}/history", view="context")
        assert seen[0]["content"].startswith('[Memo] {"told"')


# -- the database -----------------------------------------------------------------------------------------------------


@pytest.mark.gate
@pytest.mark.parametrize(
    "context", [SUMMARY, "{strategy: memo, resize: {every_n_turns: 2}}", "{strategy: window, k: 1}"]
)
async def test_replay_is_the_same_with_summaries_and_failures(app: OpenApp, tmp_path: Path, context: str) -> None:
    model = Teller()
    async with app(tmp_path, model) as api:
        await api.publish_script(script(context))
        session = await api.create_session("talk")
        await api.send_texts(session, *WORDS[:2])
        model.fails = True
        await api.send_texts(session, *WORDS[2:4])
        model.fails = False
        await api.send_texts(session, *WORDS[4:6])
        await compress(api, session, {"keep": 2, "instruct": "Keep the roses."})
        await api.send_texts(session, "And you?")
        answer = await api.send_message(session, {"content": "Go on."}, events="true")
        kinds = [event["kind"] for event in answer.json()["events"]]
        assert ("resized" in kinds) == ("window" not in context)
    store = open_store(tmp_path)
    source = ReplaySource(store, Catalog(store, lambda: None), Limits())  # type: ignore[return-value]
    found = await find_session(source, "default", session["sessionId"])
    assert {turn.outcome for turn in [each async for each in replay(found)]} == {"same"}
    assert {turn.outcome for turn in [each async for each in replay(found, 5)]} == {"same"}
    await store.close()


async def test_calls_for_accounts_are_among_the_calls_of_a_session(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, Teller()) as api:
        await api.publish_script(script(SUMMARY))
        session = await api.create_session("talk")
        await api.send_texts(session, *WORDS[:4])
        calls = (await api.read(f"/api/sessions/{session['sessionId']}/calls"))["data"]
        assert [each["purpose"] for each in calls].count("summarise") == 3
        assert {each["actionId"] for each in calls} == {"day", "context"}
