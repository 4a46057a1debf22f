"""Calls of language models: recorded with their turn, in doubt where cut off, never made again where answered.

A crash is a copy of the database, taken at that moment: what a killed process leaves.
"""

import asyncio
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from api.cli.sessions import USAGE_COLUMNS
from runtime.state.ports import ModelFailed, ModelReply, ModelRequest, OnReply, Usage
from tests.support.api_client import ApiClient
from tests.support.data_folders import change_rows
from tests.support.fixture_types import OpenApp, RunCommand

SCRIPT = """
script: calling
default_scope: session
{head}
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - ask: Begin?
            id: begin
          - ai_say: One.
            id: one
          - ai_say: Two.
            id: two
            {own}
          - ai_say: Three.
            id: three
          - ask: And now?
            id: after
            output: [{{get: word}}]
          - ai_say: "Four: {{{{ word }}}}"
            id: four
"""
PLAIN = SCRIPT.format(head="", own="")
OPENING = PLAIN.replace("          - ask: Begin?\n            id: begin\n", "")
THREE = ["one", "two", "three"]


class Witness:
    """A language model that keeps a log, and fails or hangs at the given actions."""

    def __init__(self, fails_at: str = "", hangs_at: str = "") -> None:
        self.fails_at = fails_at
        self.hangs_at = hangs_at
        self.hanging = asyncio.Event()
        self.goes_on = asyncio.Event()
        self.is_given_up = False
        self.asked: list[str] = []

    def give_up(self) -> None:
        """End what hangs, so that the server need not wait for it."""
        self.is_given_up = True
        self.goes_on.set()

    def goes_to(self, request: ModelRequest) -> str:
        return "main"

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        self.asked.append(request.action_id)
        usage = Usage(model="clever-1", prompt_digest="digest", input_tokens=10, output_tokens=2, cost=0.5)
        if request.action_id == self.hangs_at:
            self.hanging.set()
            await self.goes_on.wait()
            if self.is_given_up:
                raise ModelFailed("nobody waits any more")
        if request.action_id == self.fails_at:
            raise ModelFailed("the model is not there", usage=usage)
        said = request.history[-1].content if request.history else ""
        return ModelReply(text=f"{request.task} After: {said}", raw="raw", usage=usage)


async def calls_of(api: ApiClient, session: Any) -> list[tuple[Any, ...]]:
    page = await api.read(f"/api/sessions/{session['sessionId']}/calls")
    return [(call["actionId"], call["turn"], call["outcome"], call["used"]) for call in page["data"]]


def crash(folder: Path, number: int = 1) -> Path:
    """Copy the database as it is at this moment into a folder of its own."""
    return shutil.copytree(folder, folder.with_name(f"crashed{number}"))


async def hang(api: ApiClient, witness: Witness, request: Any) -> None:
    """Have a request hang in the given call."""
    waiting = asyncio.create_task(request)
    async with asyncio.timeout(60):
        await witness.hanging.wait()
    waiting.cancel()


async def test_calls_are_recorded_with_their_turn(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, Witness()) as api:
        await api.publish_script(PLAIN)
        session = await api.create_session("calling")
        answer = (await api.send_message(session, {"content": "go"}, debug=True)).json()
        debugged = answer["debugInfo"]["modelCalls"]
        assert [(call["actionId"], call["model"], call["reused"], call["error"]) for call in debugged] == [
            (action, "main", False, "") for action in THREE
        ]
        assert debugged[0]["usage"]["promptDigest"] == "digest"
        page = await api.read(f"/api/sessions/{session['sessionId']}/calls", limit=2)
        assert [call["callId"] for call in page["data"]] == [call["callId"] for call in debugged[:2]]
        first = page["data"][0]
        assert (first["turn"], first["number"], first["outcome"], first["used"]) == (1, 1, "done", True)
        assert (first["usage"]["model"], first["usage"]["cost"]) == ("clever-1", 0.5)
        assert "reply" not in first
        rest = await api.read(
            f"/api/sessions/{session['sessionId']}/calls", cursor=page["nextCursor"], debug=True, limit=2
        )
        assert rest["data"][0]["reply"] == {"text": debugged[2]["text"], "raw": "raw"}
        assert rest["nextCursor"] is None


async def test_without_a_language_model_there_are_no_calls(api: ApiClient) -> None:
    await api.publish_script(PLAIN)
    session = await api.create_session("calling")
    answer = (await api.send_message(session, {"content": "go"}, debug=True)).json()
    assert [call["callId"] for call in answer["debugInfo"]["modelCalls"]] == [None] * 3
    assert await calls_of(api, session) == []


@pytest.mark.gate
@pytest.mark.parametrize("restart", [False, True])
async def test_what_a_failed_attempt_got_is_not_asked_again(app: OpenApp, tmp_path: Path, restart: bool) -> None:
    witness = Witness(fails_at="three")
    async with app(tmp_path, witness) as api:
        await api.publish_script(PLAIN)
        session = await api.create_session("calling")
        for _ in range(2):
            assert (await api.send_message(session, {"content": "go"})).status_code == 503
        assert witness.asked == [*THREE, "three"]
        assert await calls_of(api, session) == [
            ("one", 1, "done", None),
            ("two", 1, "done", None),
            ("three", 1, "failed", None),
            ("three", 1, "failed", None),
        ]
        witness.fails_at = ""
        again = None if restart else (await api.send_message(session, {"content": "go"}, debug=True)).json()
        untroubled = await api.send_texts(await api.create_session("calling"), "go")
    async with app(tmp_path, witness) as api:
        again = again or (await api.send_message(session, {"content": "go"}, debug=True)).json()
        assert again["aiMessage"] == untroubled["aiMessage"]
        assert [call["reused"] for call in again["debugInfo"]["modelCalls"]] == [True, True, False]
        assert [call["usage"]["cost"] for call in again["debugInfo"]["modelCalls"]] == [0.5] * 3
        assert Counter(witness.asked) == {"one": 2, "two": 2, "three": 4}  # with those of the untroubled session
        assert await calls_of(api, session) == [
            ("one", 1, "done", True),
            ("two", 1, "done", True),
            ("three", 1, "failed", False),
            ("three", 1, "failed", False),
            ("three", 1, "done", True),
        ]
        await api.send_texts(session, "word")
        assert (await calls_of(api, session))[-1] == ("four", 2, "done", True)


async def test_unreadable_reply_of_another_version_is_requested_again(app: OpenApp, tmp_path: Path) -> None:
    witness = Witness(fails_at="three")
    async with app(tmp_path, witness) as api:
        await api.publish_script(PLAIN)
        session = await api.create_session("calling")
        assert (await api.send_message(session, {"content": "go"})).status_code == 503
    assert change_rows(tmp_path, """UPDATE call_journal SET reply = '{"text": 7}' WHERE action_id = 'two'""")
    witness.fails_at = ""
    async with app(tmp_path, witness) as api:
        await api.send_texts(session, "go")
        assert witness.asked == [*THREE, "two", "three"]


async def test_another_message_is_another_request(app: OpenApp, tmp_path: Path) -> None:
    witness = Witness(fails_at="two")
    async with app(tmp_path, witness) as api:
        await api.publish_script(PLAIN)
        session = await api.create_session("calling")
        assert (await api.send_message(session, {"content": "go"})).status_code == 503
        witness.fails_at = ""
        assert (await api.send_texts(session, "start"))["aiMessage"].startswith("One. After: start")
        assert [used for *_, used in await calls_of(api, session)] == [False, False, True, True, True]
        assert witness.asked == ["one", "two", *THREE]


async def test_calls_of_a_failed_beginning_count_for_the_first_turn(app: OpenApp, tmp_path: Path) -> None:
    witness = Witness(fails_at="two")
    async with app(tmp_path, witness) as api:
        await api.publish_script(OPENING)
        failed = await api.post("/api/sessions", json={"userId": "ana", "scriptId": "calling"})
        session = failed.json()["error"]["context"]
        assert await calls_of(api, session) == [("one", 0, "done", None), ("two", 0, "failed", None)]
    witness.fails_at = ""
    async with app(tmp_path, witness) as api:
        await api.send_texts(session, "")
        assert witness.asked == ["one", "two", "two", "three"]
        assert await calls_of(api, session) == [
            ("one", 1, "done", True),
            ("two", 1, "failed", False),
            ("two", 1, "done", True),
            ("three", 1, "done", True),
        ]


@pytest.mark.database_file
async def test_only_the_call_that_a_crash_interrupted_is_repeated(app: OpenApp, tmp_path: Path) -> None:
    folder, witness = tmp_path / "data", Witness(hangs_at="two")
    async with app(folder, witness) as api:
        await api.publish_script(PLAIN)
        session = await api.create_session("calling")
        await hang(api, witness, api.send_message(session, {"content": "go"}))
        crashed = crash(folder)
        witness.give_up()
    witness.hangs_at = ""
    async with app(crashed, witness) as api:
        assert await calls_of(api, session) == [("one", 1, "done", None), ("two", 1, "in_doubt", None)]
        answer = await api.send_texts(session, "go")
        assert [message["content"][:4] for message in answer["messages"]] == ["One.", "Two.", "Thre", "And "]
        assert witness.asked == ["one", "two", "two", "three"]
        assert await calls_of(api, session) == [
            ("one", 1, "done", True),
            ("two", 1, "in_doubt", False),
            ("two", 1, "done", True),
            ("three", 1, "done", True),
        ]


@pytest.mark.gate
@pytest.mark.database_file
@pytest.mark.parametrize(
    ("head", "own", "fails"),
    [
        ("on_interrupted: fail", "", True),
        ("", "on_interrupted: fail", True),
        ("on_interrupted: fail", "on_interrupted: retry", False),
    ],
)
async def test_a_script_may_handle_a_call_that_was_cut_off(
    app: OpenApp, tmp_path: Path, head: str, own: str, fails: bool
) -> None:
    folder, witness = tmp_path / "data", Witness(hangs_at="two")
    async with app(folder, witness) as api:
        await api.publish_script(SCRIPT.format(head=head, own=own))
        session = await api.create_session("calling")
        await hang(api, witness, api.send_message(session, {"content": "go"}))
        folder = crash(folder)
        witness.give_up()
    witness.hangs_at, witness.asked = "", []
    if fails:
        async with app(folder, witness) as api:
            answer = await api.send_message(session, {"content": "go"})
            error = answer.json()["error"]
            assert (answer.status_code, error["code"]) == (503, "LLM_CALL_INTERRUPTED")
            assert error["recovery"]["canRetry"]
            assert error["context"]["position"]["actionId"] == "two"
            assert answer.headers["retry-after"] == "1"
            assert witness.asked == []
            folder = crash(folder, 2)
    async with app(folder, witness) as api:
        await api.send_texts(session, "go")
        assert witness.asked == ["two", "three"]
        outcomes = [(action, outcome, used) for action, _, outcome, used in await calls_of(api, session)]
        assert outcomes == [
            ("one", "done", True),
            ("two", "in_doubt", False),
            ("two", "done", True),
            ("three", "done", True),
        ]


@pytest.mark.database_file
async def test_a_creation_that_crashed_is_found_again_by_its_key(app: OpenApp, tmp_path: Path) -> None:
    folder, witness = tmp_path / "data", Witness(hangs_at="three")
    body, headers = {"userId": "ana", "scriptId": "calling"}, {"Idempotency-Key": "k"}
    async with app(folder, witness) as api:
        await api.publish_script(OPENING)
        await hang(api, witness, api.post("/api/sessions", json=body, headers=headers))
        crashed = crash(folder)
        witness.give_up()
    witness.hangs_at = ""
    async with app(crashed, witness) as api:
        begun = [(await api.post("/api/sessions", json=body, headers=headers)).json() for _ in range(2)]
        assert begun[0] == begun[1]
        assert witness.asked == [*THREE, "three"]
        other = (await api.post("/api/sessions", json=body, headers={"Idempotency-Key": "l"})).json()
        assert other["sessionId"] != begun[0]["sessionId"]
        assert [used for *_, used in await calls_of(api, begun[0])] == [True, True, False, True]


@pytest.mark.slow
async def test_a_call_given_up_for_time_has_failed_and_is_made_again(app: OpenApp, tmp_path: Path) -> None:
    witness = Witness(hangs_at="two")
    async with app(tmp_path, witness, turn_s=4.0) as api:
        await api.publish_script(PLAIN.replace("script: calling", "script: calling\non_interrupted: fail"))
        session = await api.create_session("calling")
        answer = await api.send_message(session, {"content": "go"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "LLM_SERVICE_ERROR")
        assert answer.json()["error"]["recovery"]["canRetry"] is True
        assert (await api.read(f"/api/sessions/{session['sessionId']}"))["turn"] == 0
        page = await api.read(f"/api/sessions/{session['sessionId']}/calls")
        assert [(call["outcome"], call["error"]) for call in page["data"]] == [
            ("done", ""),
            ("failed", "given up before its end"),
        ]
        witness.hangs_at = ""
        await api.send_texts(session, "go")
        assert witness.asked == ["one", "two", "two", "three"]


async def test_a_session_read_during_its_turn_has_the_earlier_answers(app: OpenApp, tmp_path: Path) -> None:
    witness = Witness(hangs_at="two")
    async with app(tmp_path, witness, session_cache_max=1) as api:
        await api.publish_script(PLAIN)
        session = await api.create_session("calling")
        turn = asyncio.create_task(api.send_message(session, {"content": "go"}))
        async with asyncio.timeout(10):
            await witness.hanging.wait()
        await api.create_session("diary")  # which takes its place in memory
        assert (await api.read(f"/api/sessions/{session['sessionId']}"))["turn"] == 0
        witness.fails_at = "three"
        witness.goes_on.set()
        assert (await turn).status_code == 503
        assert (await api.read(f"/api/sessions/{session['sessionId']}"))["executionStatus"] == "error"
        witness.fails_at = ""
        assert (await api.send_texts(session, "go"))["turn"] == 1
        assert witness.asked == [*THREE, "three"]


async def test_a_turn_taken_meanwhile_is_the_one_to_go_on_from(app: OpenApp, tmp_path: Path) -> None:
    witness = Witness(hangs_at="two")
    async with app(tmp_path, witness, session_cache_max=1) as api:
        await api.publish_script(PLAIN)
        session = await api.create_session("calling")
        turn = asyncio.create_task(api.send_message(session, {"content": "go"}))
        async with asyncio.timeout(10):
            await witness.hanging.wait()
        await api.create_session("diary")
        assert (await api.read(f"/api/sessions/{session['sessionId']}"))["turn"] == 0
        witness.goes_on.set()
        assert (await turn).json()["turn"] == 1
        assert (await api.read(f"/api/sessions/{session['sessionId']}"))["turn"] == 1
        assert (await api.send_texts(session, "word"))["turn"] == 2
        assert [used for *_, used in await calls_of(api, session)] == [True] * 4


class Odd(Witness):
    """Replies with something that no record can hold."""

    reply = ModelReply(text="half a character: \ud800")

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        await super().complete(request, hear)
        return self.reply


@pytest.mark.parametrize(
    "reply",
    [ModelReply(text="\ud800"), ModelReply(usage=Usage(model="m", attempts=2**40))],
)
async def test_a_reply_that_cannot_be_stored_is_none(app: OpenApp, tmp_path: Path, reply: ModelReply) -> None:
    witness = Odd()
    witness.reply = reply
    async with app(tmp_path, witness) as api:
        await api.publish_script(PLAIN)
        session = await api.create_session("calling")
        answer = await api.send_message(session, {"content": "go"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "LLM_SERVICE_ERROR")
        assert await calls_of(api, session) == [("one", 1, "failed", None)]
        witness.reply = ModelReply(text="a nul \0 and 中文 \U0001f600")
        assert (await api.send_texts(session, "go"))["messages"][0]["content"] == "a nul \0 and 中文 \U0001f600"


async def test_a_move_to_another_version_settles_what_failed_before(app: OpenApp, tmp_path: Path) -> None:
    witness = Witness(fails_at="two")
    async with app(tmp_path, witness) as api:
        script = await api.publish_script(PLAIN)
        session = await api.create_session("calling")
        assert (await api.send_message(session, {"content": "go"})).status_code == 503
        witness.fails_at = ""
        await api.publish_script(PLAIN.replace("Two.", "Too."), scriptName=script.get("scriptName"))
        moved = await api.post(f"/api/sessions/{session['sessionId']}/migrate", json={})
        assert moved.json()["moved"] is True
        await api.send_texts(session, "go")
        assert [(turn, used) for _, turn, _, used in await calls_of(api, session)] == [
            (1, False), (1, False), (2, True), (2, True), (2, True),
        ]  # fmt: skip


async def test_the_command_line_lists_them(app: OpenApp, cuebook: RunCommand, tmp_path: Path) -> None:
    async with app(tmp_path / "data", Witness(fails_at="two")) as api:
        await api.publish_script(PLAIN)
        session = await api.create_session("calling")
        assert (await api.send_message(session, {"content": "go"})).status_code == 503
    arguments = ["sessions", "show", session["sessionId"], "--calls", "--data", "data"]
    shown = await asyncio.to_thread(cuebook, *arguments)
    assert [line.split("\t") for line in shown.stdout.splitlines()[-3:]] == [
        ["turn", "number", "actionId", "purpose", "outcome", "used", "error", *USAGE_COLUMNS],
        ["1", "1", "one", "say", "done", "", "", "clever-1", "10", "2", "0.5", "0"],
        ["1", "2", "two", "say", "failed", "", "the model is not there", "clever-1", "10", "2", "0.5", "0"],
    ]
    document = json.loads((await asyncio.to_thread(cuebook, *arguments, "--json")).stdout)
    assert [call["outcome"] for call in document["calls"]] == ["done", "failed"]
