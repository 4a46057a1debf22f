"""Clocks of two servers are minutes apart: timers fire once, claims last, and sessions have one order."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from runtime.state.ports import Clock
from store.postgres.claims import CLAIM_S
from tests.support.advice import ADVICE, CountingModel, advice_of
from tests.support.api_client import ApiClient, Json
from tests.support.effort import repeats
from tests.support.fixture_types import OpenApp
from tests.support.whole_database import assert_verified

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SESSIONS = repeats(20)  # of each server
APART = timedelta(minutes=3)
DONE_S = 120.0
WAITS = 3
TICKS = (
    "script: ticks\nphases:\n- phase: p\n  topics:\n  - topic: t\n    actions:\n"
    + "".join(
        f"    - {{wait: {1 + number % 2} seconds, id: w{number}}}\n    - {{say: Tick {number}., id: s{number}}}\n"
        for number in range(WAITS)
    )
    + "    - {ask: Done?, id: done, output: [done]}\n"
)


def clock_of(difference: timedelta) -> Clock:
    """Return a clock that is ahead of this machine's by a difference, or behind it."""
    return lambda: datetime.now(UTC) + difference


@pytest.fixture
def models() -> tuple[CountingModel, CountingModel]:
    return CountingModel(), CountingModel()


@pytest.fixture
async def servers(
    app: OpenApp, postgres_url: str, tmp_path: Path, models: tuple[CountingModel, CountingModel]
) -> AsyncIterator[tuple[ApiClient, ApiClient]]:
    """Run two servers, the first ahead of the second."""
    async with (
        app(tmp_path / "ahead", models[0], database=postgres_url, clock=clock_of(APART)) as ahead,
        app(tmp_path / "behind", models[1], database=postgres_url, clock=clock_of(-APART)) as behind,
    ):
        yield ahead, behind


async def events_of(api: ApiClient, session: Json) -> list[Json]:
    return (await api.read(f"/api/sessions/{session['sessionId']}/events", limit=100))["data"]


async def test_each_timer_fires_once_and_in_order(servers: tuple[ApiClient, ApiClient], postgres_url: str) -> None:
    ahead, behind = servers
    await ahead.publish_script(TICKS, strict=False)
    sessions = [
        await api.create_session("ticks", user=f"user {number}") for number in range(SESSIONS) for api in servers
    ]
    async with asyncio.timeout(DONE_S):
        for session in sessions:
            path = f"/api/sessions/{session['sessionId']}"
            while (await behind.read(path))["wait"]["kind"] == "time":  # noqa: ASYNC110  (the servers act)
                await asyncio.sleep(0.05)
            events = await events_of(behind, session)
            fired = [each["data"]["actionId"] for each in events if each["kind"] == "timer"]
            assert fired == [f"w{number}" for number in range(WAITS)]
            assert [each["seq"] for each in events] == [*range(1, len(events) + 1)]
            said = [text for _, text in await ahead.transcript(session)]
            assert said == [*(f"Tick {number}." for number in range(WAITS)), "Done?"]
    await asyncio.sleep(2.5)  # a timer that were there a second time would fire now
    for session in sessions:
        assert [each["kind"] for each in await events_of(ahead, session)].count("timer") == WAITS
    assert (await ahead.read("/api/timers"))["data"] == []
    await assert_verified(ahead, postgres_url)


async def test_timers_of_a_server_that_ended_fire_at_the_other(app: OpenApp, postgres_url: str, tmp_path: Path) -> None:
    """The server that ends has taken timers, on its own clock, that it does not fire any more."""
    async with app(tmp_path / "ahead", database=postgres_url, clock=clock_of(APART)) as ahead:
        await ahead.publish_script(TICKS, strict=False)
        async with app(tmp_path / "behind", database=postgres_url, clock=clock_of(-APART)) as behind:
            sessions = [await behind.create_session("ticks", user=f"user {number}") for number in range(SESSIONS)]
            await asyncio.sleep(1)
        async with asyncio.timeout(DONE_S):
            for session in sessions:
                while (await ahead.read(f"/api/sessions/{session['sessionId']}"))["turn"] < WAITS:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
                said = [text for _, text in await ahead.transcript(session)]
                assert said == [*(f"Tick {number}." for number in range(WAITS)), "Done?"]
        await assert_verified(ahead, postgres_url)


async def test_a_claim_does_not_end_early(
    servers: tuple[ApiClient, ApiClient], models: tuple[CountingModel, CountingModel], postgres_url: str
) -> None:
    """While a server calls a model, the other one is refused, whichever of them is ahead."""
    assert APART.total_seconds() > CLAIM_S
    await servers[0].publish_script(ADVICE, strict=False)
    for first, second, model in ((*servers, models[0]), (*servers[::-1], models[1])):
        session = await first.create_session("advice")
        for turn in range(1, SESSIONS + 1):
            calls = model.calls
            model.may_answer.clear()
            begun = asyncio.create_task(first.send_message(session, {"content": "rain"}))
            while model.calls == calls:  # noqa: ASYNC110  (the server acts)
                await asyncio.sleep(0.002)
            refused = await second.send_message(session, {"content": "rain"})
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "SESSION_BUSY")
            model.may_answer.set()
            taken = await begun
            assert (taken.status_code, taken.json()["turn"]) == (200, turn)
        assert await advice_of(second, session) == [f"Advice {turn}." for turn in range(1, SESSIONS + 1)]
    await assert_verified(servers[0], postgres_url)


async def test_turns_of_both_servers_have_one_order(servers: tuple[ApiClient, ApiClient], postgres_url: str) -> None:
    """The order of a session is that of its turns, not of the times of its servers."""
    session = await servers[0].create_session("diary")
    for turn in range(1, SESSIONS + 1):
        answer = await servers[turn % 2].send_message(session, {"content": f"entry {turn}"})
        assert (answer.status_code, answer.json()["turn"]) == (200, turn)
    transcripts = [await api.transcript(session) for api in servers]
    assert transcripts[0] == transcripts[1]
    assert [text for role, text in transcripts[0] if role == "user"] == [f"entry {turn}" for turn in range(1, turn + 1)]
    await assert_verified(servers[1], postgres_url)
