"""Two servers get messages of one session while a turn calls a model: each accepted turn has called it once."""

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.support.advice import ADVICE, CountingModel, advice_of
from tests.support.effort import repeats
from tests.support.fixture_types import OpenApp
from tests.support.whole_database import assert_verified

pytestmark = [pytest.mark.slow, pytest.mark.gate, pytest.mark.timeout(300)]

ROUNDS = repeats(20)
MESSAGES = 3  # at once, to each server
WAITING = 40  # of both servers, whose queues have 64 places
CALL_S = 0.05
REFUSALS = {(409, "SESSION_BUSY"), (412, "TURN_CONFLICT")}


async def test_each_accepted_turn_has_called_the_model_once(app: OpenApp, postgres_url: str, tmp_path: Path) -> None:
    """Messages are sent to both servers within the time of a call; those that are refused have called nothing."""
    models, chance = (CountingModel(CALL_S), CountingModel(CALL_S)), random.Random(3)
    async with (
        app(tmp_path / "one", models[0], database=postgres_url) as one,
        app(tmp_path / "two", models[1], database=postgres_url) as two,
    ):
        await one.publish_script(ADVICE, strict=False)
        session, accepted = await one.create_session("advice"), 0

        async def say(turn: int, number: int) -> tuple[int, str]:
            await asyncio.sleep(chance.uniform(0, CALL_S))
            api = (one, two)[number % 2]
            answer = await api.send_message(session, {"content": "rain"}, {"Idempotency-Key": f"{turn} {number}"})
            return answer.status_code, "" if answer.status_code == 200 else answer.json()["error"]["code"]

        for turn in range(ROUNDS):
            outcomes = Counter(await asyncio.gather(*(say(turn, number) for number in range(2 * MESSAGES))))
            assert outcomes[200, ""] >= 1
            assert outcomes.keys() <= {(200, "")} | REFUSALS
            accepted += outcomes[200, ""]
            assert sum(model.calls for model in models) == accepted
            for api in (one, two):
                assert len(await advice_of(api, session)) == accepted
        calls = (await one.read(f"/api/sessions/{session['sessionId']}/calls", limit=200))["data"]
        assert [call["used"] for call in calls] == [True] * min(accepted, 200)
        await assert_verified(one, postgres_url)


async def test_messages_that_wait_are_all_taken_once(app: OpenApp, postgres_url: str, tmp_path: Path) -> None:
    """Clients that send a refused message again, with its key, get every message taken, with one call each."""
    models = CountingModel(CALL_S), CountingModel(CALL_S)
    async with (
        app(tmp_path / "one", models[0], database=postgres_url) as one,
        app(tmp_path / "two", models[1], database=postgres_url) as two,
    ):
        await one.publish_script(ADVICE, strict=False)
        session = await one.create_session("advice")
        turns, at_once = [], asyncio.Semaphore(WAITING)

        async def say(number: int) -> None:
            async with at_once:
                await say_until_taken(number)

        async def say_until_taken(number: int) -> None:
            headers = {"Idempotency-Key": f"{number}", "Prefer": "busy=queue"}
            for attempt in range(1_000):
                api = (one, two)[(number + attempt) % 2]
                answer = await api.send_message(session, {"content": f"worry {number}"}, headers)
                if answer.status_code == 200:
                    turns.append(answer.json()["turn"])
                    return
                assert (answer.status_code, answer.json()["error"]["code"]) in REFUSALS, answer.text
                await asyncio.sleep(0.02)
            pytest.fail("a message was never taken")

        await asyncio.gather(*(say(number) for number in range(2 * ROUNDS)))
        assert sorted(turns) == [*range(1, 2 * ROUNDS + 1)]
        assert sum(model.calls for model in models) == 2 * ROUNDS
        said = [text for role, text in await two.transcript(session) if role == "user"]
        assert sorted(said) == sorted(f"worry {number}" for number in range(2 * ROUNDS))
        await assert_verified(two, postgres_url)
