"""A script or model that fails in the middle of a turn: its place is named, the session untouched."""

from pathlib import Path
from typing import Any

import pytest

from api.errors import CODES
from runtime.models.cassette_file import ScriptedReply
from runtime.models.recorded_models import ScriptedModel
from runtime.state.ports import ModelReply, ModelRequest, OnReply
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp

UNABLE = """
script: unable
phases: [{phase: p, topics: [{topic: t, actions: [{say: "{{ 'a' * 10 ** 9 }}", id: failing}]}]}]
"""
HEAD = """
script: frail
default_scope: session
declare: [{var: age, type: number}]
phases:
  - phase: first
    topics:
      - topic: asking
        actions:
          - say: Hello.
            id: hello
          - ask: Which?
            id: which
            output: [{get: word}]
  - phase: second
    topics:
      - topic: working
        actions:
          - set: {heard: word}
            id: hear
"""
BOMB = """
          - say: "{% for i in range(900) %}{% for j in range(900) %}{{ word }}{{ i }}{% endfor %}{% endfor %}"
            id: failing
            when: word == 'bad'
"""
LOOP = """
          - goto: second/working
            id: failing
            when: word == 'bad'
"""
BAD_SET = """
          - set: {age: word}
            id: failing
            when: word == 'bad'
"""
TAIL = """
          - say: "Fine: {{ word }}."
            id: last
"""
LOOPING = ["hear", "failing"]  # anywhere in the loop
FAILING = [
    pytest.param(BOMB, "ACTION_EXECUTION_ERROR", ["failing"], id="template bomb"),
    pytest.param(LOOP, "LIMIT_EXCEEDED", LOOPING, id="endless loop"),
    pytest.param(BAD_SET, "ACTION_EXECUTION_ERROR", ["failing"], id="failing set"),
]
LEADING = """
script: led
default_scope: session
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - say: Hello.
            id: hello
          - ai_say: Say who you are.
            id: introduce
          - ai_ask: Find out the name.
            id: ask_name
            output: [{get: name}]
          - say: "Thanks, {{ name }}."
            id: thanks
"""


class Moody:
    """The scripted model, which fails on demand."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        done = ScriptedReply(exit=True, values={"name": "Ana"})
        self._well = ScriptedModel({"introduce": ["I am Cue."], "ask_name": ["And you?", done]})
        fail = ScriptedReply(fail="the model is not there")
        self._ill = ScriptedModel({"introduce": [fail], "ask_name": [fail, fail]})

    def goes_to(self, request: ModelRequest) -> str:
        return "moody"

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        return await (self._ill if self.fails else self._well).complete(request)


def assert_failed(answer: Any, code: str, *actions: str) -> Any:
    kind = CODES[code]
    assert answer.status_code == kind.status, answer.text
    error = answer.json()["error"]
    assert (error["code"], error["type"]) == (code, "runtime")
    assert error["context"]["position"]["actionId"] in actions
    assert {"scriptId", "scriptName", "sessionId", "requestId", "timestamp"} <= error["context"].keys()
    assert error["recovery"]["canRetry"] is (code == "LLM_SERVICE_ERROR")
    return error


async def seen(api: ApiClient, session: Any) -> Any:
    return await api.read(f"/api/sessions/{session['sessionId']}")


@pytest.mark.gate
@pytest.mark.parametrize(("failing", "code", "actions"), FAILING)
async def test_a_turn_that_fails_has_not_happened(
    app: OpenApp, tmp_path: Path, failing: str, code: str, actions: list[str]
) -> None:
    async with app(tmp_path) as api:
        await api.publish_script(HEAD + failing + TAIL)
        session = await api.create_session("frail")
        before, said = await seen(api, session), await api.transcript(session)
        error = assert_failed(await api.send_message(session, {"content": "bad"}), code, *actions)
        position = error["context"]["position"]
        assert (position["phaseId"], position["topicId"]) == ("second", "working")
    async with app(tmp_path) as api:  # a restart remembers that it failed
        after = await seen(api, session)
        assert after["executionStatus"] == "error"
        assert position.items() <= after["position"].items()
        recorded = after["error"]["context"].pop("timestamp")
        assert recorded <= error["context"].pop("timestamp")
        del error["context"]["requestId"]
        assert after["error"] == error
        unchanged = before.keys() - {"executionStatus", "position", "error"}
        assert {name: after[name] for name in unchanged} == {name: before[name] for name in unchanged}
        assert await api.transcript(session) == said
        answer = await api.send_texts(session, "good")
        assert (answer["aiMessage"], answer["sessionStatus"], answer["turn"]) == ("Fine: good.", "completed", 1)
        assert (await seen(api, session))["executionStatus"] == "completed"


async def test_a_session_that_fails_at_first_can_be_begun_again(app: OpenApp, tmp_path: Path) -> None:
    model = Moody(fails=True)
    async with app(tmp_path, model) as api:
        await api.publish_script(LEADING)
        answer = await api.post("/api/sessions", json={"userId": "ana", "scriptId": "led"})
        error = assert_failed(answer, "LLM_SERVICE_ERROR", "introduce")
        assert answer.headers["retry-after"] == "5"
        assert "then it begins" in error["recovery"]["suggestion"]
        session = {"sessionId": error["context"]["sessionId"]}
        for _ in range(2):
            assert (await seen(api, session))["error"]["recovery"] == error["recovery"]
            assert (await seen(api, session))["executionStatus"] == "error"
            assert (await seen(api, session))["position"]["actionId"] == "introduce"
            assert await api.transcript(session) == []
            assert_failed(await api.send_message(session, {"content": "go"}), "LLM_SERVICE_ERROR", "introduce")
        (listed,) = await api.read("/api/users/ana/sessions")
        assert (listed["status"], listed["executionStatus"]) == ("active", "error")
        model.fails = False
    async with app(tmp_path, model) as api:
        answer = await api.send_texts(session, "")
        assert [message["content"] for message in answer["messages"]] == ["Hello.", "I am Cue.", "And you?"]
        assert (await api.send_texts(session, "Ana"))["aiMessage"] == "Thanks, Ana."


async def test_a_copy_of_a_session_that_never_began_says_so(app: OpenApp, tmp_path: Path) -> None:
    model = Moody(fails=True)
    async with app(tmp_path, model) as api:
        await api.publish_script(LEADING)
        failed = await api.post("/api/sessions", json={"userId": "ana", "scriptId": "led"})
        path = f"/api/sessions/{assert_failed(failed, 'LLM_SERVICE_ERROR', 'introduce')['context']['sessionId']}"
        document = await api.read(f"{path}/export")
        copies = [
            await api.post(f"{path}/fork", json={}),
            await api.post("/api/sessions/import", params={"copy": True}, json=document),
        ]
        model.fails = False
        for answer in copies:
            assert answer.status_code == 201, answer.text
            session = {"sessionId": answer.json()["sessionId"]}
            copy = await seen(api, session)
            assert (copy["executionStatus"], copy["error"]["code"]) == ("error", "ACTION_EXECUTION_ERROR")
            assert "has not begun" in copy["error"]["message"]
            assert "then it begins" in copy["error"]["recovery"]["suggestion"]
            assert session.items() <= copy["error"]["context"].items()
            assert (await api.send_texts(session, ""))["aiMessage"].startswith("Hello.")
            assert (await seen(api, session))["error"] is None


async def test_second_creation_with_the_key_begins_the_failed_session(app: OpenApp, tmp_path: Path) -> None:
    model = Moody(fails=True)
    body, headers = {"userId": "ana", "scriptId": "led"}, {"Idempotency-Key": "k"}
    async with app(tmp_path, model) as api:
        await api.publish_script(LEADING)
        failed = [await api.post("/api/sessions", json=body, headers=headers) for _ in range(2)]
        ids = {assert_failed(each, "LLM_SERVICE_ERROR", "introduce")["context"]["sessionId"] for each in failed}
        model.fails = False
        begun = [(await api.post("/api/sessions", json=body, headers=headers)).json() for _ in range(2)]
        assert begun[0] == begun[1]
        assert {begun[0]["sessionId"]} == ids
        assert begun[0]["aiMessage"] == "Hello.\n\nI am Cue.\n\nAnd you?"


async def test_later_model_failure_leaves_the_session_at_its_question(app: OpenApp, tmp_path: Path) -> None:
    model = Moody()
    async with app(tmp_path, model) as api:
        await api.publish_script(LEADING)
        session = await api.create_session("led")
        model.fails = True
        headers = {"Idempotency-Key": "k"}
        answer = await api.send_message(session, {"content": "I am Ana"}, headers)
        assert_failed(answer, "LLM_SERVICE_ERROR", "ask_name")
        assert answer.headers["retry-after"] == "5"
        failed = await seen(api, session)
        assert (failed["executionStatus"], failed["turn"], failed["wait"]) == ("error", 0, {"kind": "text"})
        for change in ("resume", "compress"):  # nothing to do
            unchanged = (await api.post(f"/api/sessions/{session['sessionId']}/{change}")).json()
            assert (unchanged["executionStatus"], unchanged["turn"]) == ("error", 0)
        model.fails = False
        retried = (await api.send_message(session, {"content": "I am Ana"}, headers)).json()
        untroubled = await api.send_texts(await api.create_session("led"), "I am Ana")
        same = ("aiMessage", "sessionStatus", "turn", "wait", "variables", "position")
        assert {name: retried[name] for name in same} == {name: untroubled[name] for name in same}
        assert [role for role, _ in await api.transcript(session)] == [
            "assistant",
            "assistant",
            "assistant",
            "user",
            "assistant",
        ]


async def test_a_turn_that_takes_too_long_is_stopped(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, turn_s=0.5, actions_max=1_000_000_000) as api:
        await api.publish_script(HEAD + LOOP.replace("when: ", "when: range(9000) | sum > 0 and ") + TAIL)
        session = await api.create_session("frail")
        error = assert_failed(await api.send_message(session, {"content": "bad"}), "LIMIT_EXCEEDED", *LOOPING)
        assert "0.5 s" in error["message"]
        assert (await api.send_texts(session, "good"))["aiMessage"] == "Fine: good."


async def test_a_session_that_cannot_begin_is_error_everywhere(api: ApiClient) -> None:
    await api.publish_script(UNABLE)
    failed = await api.post("/api/sessions", json={"userId": "ana", "scriptId": "unable"})
    path = f"/api/sessions/{failed.json()['error']['context']['sessionId']}"
    answers = [(await api.post(f"{path}/{change}")).json() for change in ("resume", "clear", "compress")]
    fork = (await api.post(f"{path}/fork", json={})).json()
    document = (await api.get(f"{path}/export")).content
    headers = {"Content-Type": "application/json"}
    copy = (await api.post("/api/sessions/import", content=document, headers=headers, params={"copy": True})).json()
    states = [await api.read(f"/api/sessions/{each['sessionId']}") for each in (fork, copy)]
    states += [await api.read(path), await api.read(f"{path}/snapshots/0"), fork, *answers]
    assert {each["executionStatus"] for each in states} == {"error"}
    assert {each["executionStatus"] for each in (await api.read("/api/sessions"))["data"]} == {"error"}
