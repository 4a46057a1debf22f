"""Several clients at one session: one turn at a time, nothing lost, nothing twice."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from runtime.models.offline_model import OfflineModel
from runtime.state.ports import ModelReply, ModelRequest, OnReply
from tests.support.fixture_types import OpenApp
from tests.support.held_model import HeldModel

SOON_S = 20.0  # sooner than a turn waits in the queue

SLOW = """
script: slow
default_scope: session
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - repeat: {max: 100}
            id: loop
            do:
              - ask: Next?
                id: next
                output: [{get: word}]
              - ai_say: "Heard {{ word }}."
                id: heard
"""
QUEUE = {"Prefer": "busy=queue"}


class Thinking(OfflineModel):
    """The offline model, taking its time."""

    def __init__(self, seconds: float = 0.01) -> None:
        self.seconds = seconds

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        await asyncio.sleep(self.seconds)
        return await OfflineModel().complete(request)


def of_words(words: list[str]) -> list[tuple[str, str]]:
    """Return what is in the transcript when exactly these words were heard, in this order."""
    expected = [("assistant", "Next?")]
    for word in words:
        expected += [("user", word), ("assistant", f"Heard {word}."), ("assistant", "Next?")]
    return expected


async def test_a_busy_session_refuses_and_loses_nothing(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, Thinking()) as api:
        await api.publish_script(SLOW)
        session = await api.create_session("slow")
        heard: dict[int, str] = {}

        async def client(name: int) -> None:
            for number in range(5):
                word = f"{name}.{number}"
                while (answer := await api.send_message(session, {"content": word})).status_code == 409:
                    error = answer.json()["error"]
                    assert (error["code"], error["recovery"]["canRetry"]) == ("SESSION_BUSY", True)
                    assert int(answer.headers["retry-after"]) >= 1
                    await asyncio.sleep(0.003 * name)
                assert answer.status_code == 200, answer.text
                assert answer.json()["aiMessage"] == f"Heard {word}.\n\nNext?"
                heard[answer.json()["turn"]] = word

        await asyncio.gather(*map(client, range(1, 5)))
        assert sorted(heard) == list(range(1, 21))
        assert await api.transcript(session) == of_words([heard[turn] for turn in sorted(heard)])


async def test_ten_at_once_without_queueing_are_one_turn(app: OpenApp, tmp_path: Path) -> None:
    model = HeldModel()
    async with app(tmp_path, model) as api:
        await api.publish_script(SLOW)
        session = await api.create_session("slow")
        turns = [asyncio.create_task(api.send_message(session, {"content": str(n)})) for n in range(10)]
        for first in itertools.islice(asyncio.as_completed(turns, timeout=SOON_S), 9):
            await first  # while the tenth holds the session
        model.go.set()
        answers = await asyncio.gather(*turns)
        assert sorted(answer.status_code for answer in answers) == [200] + [409] * 9
        (taken,) = [n for n, answer in enumerate(answers) if answer.status_code == 200]
        assert await api.transcript(session) == of_words([str(taken)])


async def test_ten_queued_messages_are_ten_turns_in_their_order(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, Thinking(), session_cache_max=1) as api:
        await api.publish_script(SLOW)
        session = await api.create_session("slow")
        words = [str(number) for number in range(10)]
        answers = await asyncio.gather(*(api.send_message(session, {"content": word}, QUEUE) for word in words))
        assert [answer.status_code for answer in answers] == [200] * 10
        assert [answer.json()["turn"] for answer in answers] == list(range(1, 11))
        assert await api.transcript(session) == of_words(words)


async def test_the_setting_makes_every_client_queue(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, Thinking(), busy="queue") as api:
        await api.publish_script(SLOW)
        session = await api.create_session("slow")
        answers = await asyncio.gather(*(api.send_message(session, {"content": word}) for word in "abc"))
        assert [answer.status_code for answer in answers] == [200] * 3


@pytest.mark.parametrize(
    ("busy", "prefer", "status"),
    [("queue", "busy=reject", 409), ("queue", "respond-async, Busy=Reject", 409), ("reject", "busy=queue", 200)],
)
async def test_what_a_client_prefers_comes_before_the_setting(
    app: OpenApp, tmp_path: Path, busy: str, prefer: str, status: int
) -> None:
    model = HeldModel()
    async with app(tmp_path, model, busy=busy) as api:
        await api.publish_script(SLOW)
        session = await api.create_session("slow")
        first = asyncio.create_task(api.send_message(session, {"content": "a"}))
        await model.asked.wait()
        second = asyncio.create_task(api.send_message(session, {"content": "b"}, {"Prefer": prefer}))
        if status == 409:
            assert (await asyncio.wait_for(second, SOON_S)).status_code == 409
        model.go.set()
        assert [(await turn).status_code for turn in (first, second)] == [200, status]


async def test_the_queue_is_bounded_in_number(app: OpenApp, tmp_path: Path) -> None:
    model = HeldModel()
    async with app(tmp_path, model, queue_max=2) as api:
        await api.publish_script(SLOW)
        session = await api.create_session("slow")
        turns = [asyncio.create_task(api.send_message(session, {"content": word}, QUEUE)) for word in "abcde"]
        await model.asked.wait()
        refused = await asyncio.wait_for(asyncio.gather(*turns[3:]), SOON_S)
        assert [answer.status_code for answer in refused] == [409, 409]
        model.go.set()
        assert [(await turn).status_code for turn in turns[:3]] == [200] * 3
        assert await api.transcript(session) == of_words(["a", "b", "c"])


async def test_the_queue_has_room_again_for_each_that_left_it(app: OpenApp, tmp_path: Path) -> None:
    model = HeldModel()
    async with app(tmp_path, model, queue_max=1) as api:
        await api.publish_script(SLOW)
        session = await api.create_session("slow")
        for _ in range(2):
            model.go.clear()
            model.asked.clear()
            turns = [asyncio.create_task(api.send_message(session, {"content": word}, QUEUE)) for word in "abc"]
            await model.asked.wait()
            assert (await asyncio.wait_for(turns[2], SOON_S)).status_code == 409
            model.go.set()
            assert [(await turn).status_code for turn in turns[:2]] == [200] * 2
        assert await api.transcript(session) == of_words(["a", "b", "a", "b"])


async def test_the_queue_is_bounded_in_time(app: OpenApp, tmp_path: Path) -> None:
    model = HeldModel()
    async with app(tmp_path, model, queue_s=0.05) as api:
        await api.publish_script(SLOW)
        session = await api.create_session("slow")
        turn = asyncio.create_task(api.send_message(session, {"content": "a"}))
        await model.asked.wait()
        waited = await asyncio.wait_for(api.send_message(session, {"content": "b"}, QUEUE), SOON_S)
        assert (waited.status_code, waited.json()["error"]["code"]) == (409, "SESSION_BUSY")
        model.go.set()
        assert (await turn).status_code == 200
        assert await api.transcript(session) == of_words(["a"])


async def test_of_two_that_read_the_same_turn_one_wins(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, Thinking()) as api:
        await api.publish_script(SLOW)
        session = await api.create_session("slow")
        seen = (await api.get(f"/api/sessions/{session['sessionId']}")).headers["etag"]
        headers = QUEUE | {"If-Match": seen}
        answers = await asyncio.gather(*(api.send_message(session, {"content": word}, headers) for word in "ab"))
        assert [answer.status_code for answer in answers] == [200, 412]
        error = answers[1].json()["error"]
        assert (error["code"], error["context"]["turn"]) == ("TURN_CONFLICT", 1)
        assert answers[0].headers["etag"] == '"1"'
        for matching in ('"1"', 'W/"2"', "3", "*"):
            assert (await api.send_message(session, {"content": "c"}, {"If-Match": matching})).status_code == 200


async def test_disconnected_client_neither_loses_nor_doubles_its_turn(app: OpenApp, tmp_path: Path) -> None:
    model = HeldModel()
    key = {"Idempotency-Key": "k"}
    async with app(tmp_path, model) as api:
        await api.publish_script(SLOW)
        session = await api.create_session("slow")
        turn = asyncio.create_task(api.send_message(session, {"content": "a"}, key))
        await model.asked.wait()
        turn.cancel()
        await asyncio.wait([turn])
        model.go.set()
        answer = await api.send_message(session, {"content": "a"}, key)
        while answer.status_code == 409:
            await asyncio.sleep(0.01)
            answer = await api.send_message(session, {"content": "a"}, key)
        assert answer.json()["aiMessage"] == "Heard a.\n\nNext?"
        assert await api.transcript(session) == of_words(["a"])


async def test_sessions_do_not_wait_for_one_another(app: OpenApp, tmp_path: Path) -> None:
    model = HeldModel()
    async with app(tmp_path, model) as api:
        await api.publish_script(SLOW)
        slow, quick = await api.create_session("slow"), await api.create_session("diary")
        turn = asyncio.create_task(api.send_message(slow, {"content": "a"}))
        await model.asked.wait()
        assert (await asyncio.wait_for(api.send_texts(quick, "one"), SOON_S))["turn"] == 1
        model.go.set()
        assert (await turn).status_code == 200


@pytest.mark.gate
async def test_more_sessions_than_the_cache_holds_lose_nothing(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, session_cache_max=1) as api:
        sessions = await asyncio.gather(*(api.create_session("diary", user=str(n)) for n in range(8)))

        async def talk(session: Any) -> None:
            for number in range(1, 11):
                answer = await api.send_texts(session, f"w{number}")
                assert (answer["turn"], answer["variables"]["count"]) == (number, number)

        await asyncio.gather(*map(talk, sessions))
        for session in sessions:
            said = await api.transcript(session)
            assert [content for role, content in said if role == "user"] == [f"w{n}" for n in range(1, 11)]
            assert len(said) == 2 + 10 * 3


async def test_a_session_in_a_turn_is_running(app: OpenApp, tmp_path: Path) -> None:
    model = HeldModel()
    async with app(tmp_path, model) as api:
        await api.publish_script(SLOW)
        session = await api.create_session("slow")
        turn = asyncio.create_task(api.send_message(session, {"content": "a"}))
        await model.asked.wait()
        path = f"/api/sessions/{session['sessionId']}"
        assert (await api.read(path))["executionStatus"] == "running"
        model.go.set()
        await turn
        assert (await api.read(path))["executionStatus"] == "waiting_input"
