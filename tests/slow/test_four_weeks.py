"""The study of four weeks over a server whose clock is hours ahead of the test at every step, with kill -9 between.

The events of each session are the witness: every timer fires once and in order, whatever is killed.
"""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from msgspec import Struct

from tests.support.api_client import ApiClient
from tests.support.effort import repeats
from tests.support.faulty_files import Faults
from tests.support.fixture_types import Serve
from tests.support.paths import LIBRARY
from tests.support.server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

STEPS: Final = 450  # of the clock, 90 to 115 minutes each: 32 days
KILLS: Final = repeats(12)
SETTLED_S: Final = 60.0  # of a busy machine
DAYS: Final = 28


class Participant(Struct):
    """A user of the study with the rule by which they answer, or not: of the number of the day."""

    user: str
    zone: str
    answers: Callable[[int], bool]
    asked: int = 0
    session: Any = None


def participants() -> list[Participant]:
    return [
        Participant("faithful", "Europe/Berlin", lambda day: True),
        Participant("forgetful", "America/New_York", lambda day: day % 3 != 0),
        Participant("silent", "Asia/Kolkata", lambda day: day <= 5),
        Participant("weekly", "Australia/Lord_Howe", lambda day: day % 7 not in {2, 3}),
    ]


class Study:
    """A server with a clock of its own, its participants, and what kills it."""

    def __init__(self, serve: Serve, faults: Faults, folder: Path, seed: int) -> None:
        self._serve = serve
        self._faults = faults
        self._folder = folder
        self._chance = random.Random(seed)
        self._kills = set(self._chance.sample(range(1, STEPS * 3 // 4), KILLS))
        self._ahead = timedelta()
        self._keys = 0
        self._server: ServerProcess

    async def start(self) -> ApiClient:
        """Start the server; return a client of it."""
        self._server = self._serve("--scripts", str(LIBRARY), folder=self._folder, **self._faults.environment)
        await self._server.ready()
        return self._server.client()

    def now(self) -> datetime:
        return datetime.now(UTC) + self._ahead

    def advance(self) -> None:
        self._ahead += timedelta(minutes=self._chance.randrange(90, 115))
        self._faults.begin(seconds_wrong=int(self._ahead.total_seconds()))

    async def kill(self, client: ApiClient) -> ApiClient:
        """Kill the server while it fires what has become due; return a client of the next one."""
        await asyncio.sleep(self._chance.uniform(0, 0.05))
        await self._server.stop(signal.SIGKILL)
        await client.aclose()
        return await self.start()

    async def settle(self, client: ApiClient, wake: Any) -> None:
        """Wait until nothing is due. The scheduler sleeps by another clock; arming a session wakes it."""
        async with asyncio.timeout(SETTLED_S):
            while True:
                await client.post(f"/api/sessions/{wake['sessionId']}/timers/arm", json={})
                timers = (await client.read("/api/timers"))["data"]
                if not any(datetime.fromisoformat(timer["due"]) <= self.now() for timer in timers):
                    return
                await asyncio.sleep(0.01)

    async def reply(self, client: ApiClient, participant: Participant) -> ApiClient:
        """Answer the question of the day, at times across a kill: the same request is sent again."""
        state = await client.read(f"/api/sessions/{participant.session['sessionId']}")
        day = state["variables"].get("day", 0)
        if state["position"]["actionId"] != "ask_hours" or day == participant.asked:
            return client
        participant.asked = day
        if not participant.answers(day):
            return client
        self._keys += 1
        headers = {"Idempotency-Key": f"reply {self._keys}"}
        request = asyncio.create_task(client.send_message(participant.session, {"content": "7"}, headers))
        if self._chance.random() < KILLS / STEPS:
            await asyncio.sleep(self._chance.uniform(0, 0.01))
            client = await self.kill(client)
        try:
            answer = await request
        except httpx.TransportError:
            answer = await client.send_message(participant.session, {"content": "7"}, headers)
        assert answer.status_code == 200, answer.text
        return client

    async def step(self, client: ApiClient, number: int, people: list[Participant]) -> ApiClient:
        """Let an hour or more pass, and let those who are asked answer."""
        self.advance()
        if number in self._kills:
            wake = asyncio.create_task(
                client.post(f"/api/sessions/{people[0].session['sessionId']}/timers/arm", json={})
            )
            client = await self.kill(client)
            await asyncio.gather(wake, return_exceptions=True)
        await self.settle(client, people[0].session)
        for participant in people:
            client = await self.reply(client, participant)
        return client


async def test_study_of_four_weeks_fires_every_timer_once(serve: Serve, tmp_path: Path) -> None:
    study = Study(serve, Faults(tmp_path), tmp_path, seed=18)
    people = participants()
    client = await study.start()
    for participant in people:
        participant.session = await client.create_session(
            "four_weeks", user=participant.user, timezone=participant.zone, initialVariables={"evening": "diary_only"}
        )
        await client.send_texts(participant.session, "yes")
        form = {"form": {"participant": "0815", "bedtime": 22}}
        assert (await client.send_message(participant.session, form)).status_code == 200
    for number in range(STEPS):
        client = await study.step(client, number, people)
    for participant in people:
        await assert_each_timer_fired_once(client, participant)
    assert (await client.read("/api/timers"))["data"] == []
    await client.aclose()


async def assert_each_timer_fired_once(client: ApiClient, participant: Participant) -> None:
    """Compare the timers in the events with what the participant's rule makes of the script."""
    events = await events_of(client, participant.session)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    expected, missed, answers = [], 0, 0
    for day in range(1, DAYS + 1):
        expected.append(("until_morning", "wait"))
        if participant.answers(day):
            missed, answers = 0, answers + 1
        else:
            missed += 1
            expected += [("ask_hours", "remind"), ("ask_hours", "remind"), ("ask_hours", "expire")]
        if missed == 3:
            break
    fired = [event["data"] for event in events if event["kind"] == "timer"]
    assert [(timer["actionId"], timer["timer"]) for timer in fired] == expected
    assert all(earlier["due"] < later["due"] for earlier, later in pairwise(fired))
    said = Counter(text for _, text in await client.transcript(participant.session))
    assert said["Good morning. How many hours did you sleep?"] == day
    assert said["A number is enough."] == day - answers
    state = await client.read(f"/api/sessions/{participant.session['sessionId']}")
    assert state["status"] == "completed"
    assert state["variables"]["answers"] == answers


async def events_of(client: ApiClient, session: Any) -> list[Any]:
    events: list[Any] = []
    while True:
        page = await client.read(f"/api/sessions/{session['sessionId']}/events", after=len(events), limit=200)
        events += page["data"]
        if not page["data"]:
            return events
