"""Whatever is requested of sessions, in whatever order and at once: no request finds a defect, the database verifies, a
server that starts again has the same sessions, and their turns can be replayed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from api.catalog.catalog import Catalog
from api.replay.recorded_session import ReplaySource, find_session
from api.replay.replay_session import replay
from runtime.state.limits import Limits
from store.open_store import open_store
from tests.api.sessions.test_timers import Calendar
from tests.support.api_client import ApiClient, Json
from tests.support.effort import repeats
from tests.support.fixture_types import OpenApp

REQUESTS = 60
SCRIPT = """
cuebook: 1
script: any
repairs: [hand_over]
use: [globals.yaml]
declare:
  - {var: count, type: number, value: 0}
  - {var: more, type: boolean, value: true}
  - {var: feeling, type: text, value: fine}
interrupts:
  - interrupt: help
    on: [help, 救命]
    do: [{say: You are not alone.}, {ask: What do you need?, into: need}]
skills:
  - skill: rate
    params: [{var: what}]
    actions:
      - ask: How is {{ what }}?
        id: rating
        into: {var: rating, type: number, min: 0, max: 10}
        rounds: 2
        on_fail: {then: skip, say: Never mind.}
forms:
  - form: person
    fields: [{field: age, type: number}, {field: city, type: text, required: false}]
phases:
  - phase: one
    topics:
      - topic: hello
        actions:
          - {id: welcome, say: "Welcome {{ mood or 'you' }} {{ count }}"}
          - id: name
            ask: Your name?
            into: name
            remind: [{after: 1 hour, say: Still there?}]
            expire: {after: 2 days, then: skip}
          - {id: which, choose: Which?, choices: [{a: This}, {b: That}], into: which}
          - {id: counted, set: {count: =count + 1}}
      - topic: mood
        when: count < 5
        actions:
          - {id: pause, wait: 1 day}
          - {id: sleep, call: rate, with: {what: sleep}}
          - {id: person, form: person}
          - {id: colleague, emit: hand_over}
          - {id: feel, ai_ask: How do you feel about it?, into: feeling, rounds: 3}
  - phase: two
    topics:
      - topic: loop
        actions:
          - repeat: {max: 3, until: not more}
            id: again
            do:
              - {id: on, ask: "More? {{ count }}", into: {var: more, type: boolean}}
              - {id: added, set: {count: =count + 1}}
          - {id: summary, ai_say: Summarise it.}
          - {id: remembered, set: {mood: =feeling}}
          - {id: back, if: count < 8, then: [{goto: one/hello}]}
"""
FILES = {"globals.yaml": "globals: [{var: mood, type: text}]\n"}
CHANGES = (
    ("Welcome", "Good day"),
    ("topic: mood", "topic: feelings"),
    ("id: name\n", "id: called\n"),
    ("wait: 1 day", "say: No pause"),
    ("id: pause, ", "id: pause, when: count > 2, "),
)
"""Parts of the script in another version of it."""
WORDS = ("5", "Eva", "yes", "no", "I am tired", "我很好", "help", "救命", "I want to talk to a human", "😀 <b>", "")
TO_PERSON = ("take-over", "give-back")


class Visitor:
    """Makes requests at random, and notes those whose answers are a defect."""

    def __init__(self, api: ApiClient, chance: Random, calendar: Calendar) -> None:
        self.api = api
        self.chance = chance
        self.calendar = calendar
        self.sessions: list[str] = []
        self.defects: list[str] = []

    async def begin(self) -> None:
        """Publish the script, and create three sessions."""
        await self.publish()
        for user in ("ana", "ana", "ben"):
            self.sessions.append((await self.api.create_session("any", user=user))["sessionId"])

    async def publish(self) -> None:
        """Publish a version of the script in which some parts are changed."""
        text = SCRIPT
        for before, after in CHANGES:
            if self.chance.random() < 0.3:
                text = text.replace(before, after)
        await self.api.publish_script(text, files=FILES, publish=True, strict=False)

    async def request(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Make a request, half of them with an idempotency key; a server error is a defect."""
        headers = {"Idempotency-Key": f"{self.chance.random()}"} if self.chance.random() < 0.5 else {}
        answer = await self.api.request(method, path, json=body, headers=headers)
        if answer.status_code >= 500:
            self.defects.append(f"{method} {path} {body}: {answer.text}")
        return answer

    async def go_on(self) -> None:
        """Make one request, or three at once, of a session."""
        path = f"/api/sessions/{self.chance.choice(self.sessions)}"
        view = await self.api.read(path)
        count = self.chance.choice([1, 1, 1, 1, 3])
        steps = self.chance.choices(list(STEPS), list(STEPS.values()), k=count)
        await asyncio.gather(*(step(self, path, view) for step in steps))

    async def send(self, path: str, view: Json) -> None:
        wait = view["wait"] or {}
        message: dict[str, Any] = {"content": self.chance.choice(WORDS)}
        if wait.get("kind") == "choice" and self.chance.random() < 0.8:
            message = {"choice": self.chance.choice(["a", "b"])}
        elif wait.get("kind") == "form" and self.chance.random() < 0.8:
            message = {"form": {"age": self.chance.choice([7, "old"])}}
        await self.request("POST", f"{path}/messages", message)

    async def intervene(self, path: str, view: Json) -> None:
        change = self.chance.choice(["pause", "resume", "resume", "clear", "migrate", "migrate/undo", *TO_PERSON])
        await self.request("POST", f"{path}/{change}")

    async def speak(self, path: str, view: Json) -> None:
        await self.request("POST", f"{path}/speak", {"content": "I am a person."})

    async def append(self, path: str, view: Json) -> None:
        roles = self.chance.choices(["user", "assistant", "system"], k=2)
        messages = [{"role": role, "content": "From elsewhere."} for role in roles]
        await self.request("POST", f"{path}/messages/append", {"messages": messages})

    async def rewind(self, path: str, view: Json) -> None:
        body = self.chance.choice([{"turn": self.chance.randint(0, view["turn"])}, {"beforeUserMessage": 1}])
        await self.request("POST", f"{path}/rewind", body)

    async def set_variable(self, path: str, view: Json) -> None:
        await self.request("PATCH", f"{path}/variables", {"variables": {"count": self.chance.choice([None, 0, 3])}})
        await self.request("PATCH", f"/api/users/{view['userId']}/variables", {"variables": {"mood": "well"}})

    async def label(self, path: str, view: Json) -> None:
        await self.request("PATCH", path, {"metadata": {"label": self.chance.choice([1, None])}})

    async def compress(self, path: str, view: Json) -> None:
        await self.request("POST", f"{path}/compress", {"keep": self.chance.randint(1, 5)})

    async def fork(self, path: str, view: Json) -> None:
        made = await self.request("POST", f"{path}/fork", {"turn": self.chance.randint(0, view["turn"])})
        if made.status_code == 201:
            self.sessions.append(made.json()["sessionId"])

    async def copy(self, path: str, view: Json) -> None:
        document = (await self.request("GET", f"{path}/export")).json()
        made = await self.request("POST", "/api/sessions/import?copy=true", document)
        assert made.status_code == 201, made.text
        self.sessions.append(made.json()["sessionId"])

    async def publish_another(self, path: str, view: Json) -> None:
        await self.publish()

    async def let_time_pass(self, path: str, view: Json) -> None:
        self.calendar.passed += timedelta(hours=self.chance.choice([1, 25, 49]))
        await asyncio.sleep(0.1)  # for the timers that are due

    async def end(self, path: str, view: Json) -> None:
        await self.request("POST", f"{path}/end")


STEPS: dict[Callable[[Visitor, str, Json], Awaitable[None]], int] = {
    Visitor.send: 30,
    Visitor.intervene: 18,
    Visitor.speak: 3,
    Visitor.append: 3,
    Visitor.rewind: 5,
    Visitor.set_variable: 4,
    Visitor.label: 2,
    Visitor.compress: 2,
    Visitor.fork: 4,
    Visitor.copy: 2,
    Visitor.publish_another: 2,
    Visitor.let_time_pass: 6,
    Visitor.end: 1,
}
"""What can happen to a session, and how often."""


async def described(api: ApiClient, session_id: str) -> dict[str, Any]:
    """Return all that a server says of a session."""
    path = f"/api/sessions/{session_id}"
    view = await api.read(path)
    parts = {part: await api.read(f"{path}/{part}") for part in ("context", "history", "stats", "variables")}
    lists = {name: await api.read_all(f"{path}/{name}") for name in ("messages", "events", "snapshots")}
    return {"view": view, **parts, **lists}


async def described_at_rest(api: ApiClient, session_id: str) -> dict[str, Any]:
    """Return all that a server says of a session once no timer changes it any more."""
    before: dict[str, Any] = {}
    while (now := await described(api, session_id)) != before:
        before = now
    return now


@pytest.mark.gate
@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(repeats(30)))
async def test_no_order_of_requests_breaks_a_session(app: OpenApp, tmp_path: Path, seed: int) -> None:
    calendar = Calendar()
    async with app(tmp_path, clock=calendar) as api:
        visitor = Visitor(api, Random(seed), calendar)
        await visitor.begin()
        for _ in range(REQUESTS):
            await visitor.go_on()
        assert visitor.defects == []
        described_before = {each: await described_at_rest(api, each) for each in visitor.sessions}
        assert (await api.read("/api/operations/verify"))["findings"] == []
    for before in described_before.values():
        assert [each["seq"] for each in before["events"]] == list(range(1, len(before["events"]) + 1))
        assert before["snapshots"][-1]["turn"] == before["view"]["turn"]
    async with app(tmp_path, clock=calendar, hold_late_timers=True) as api:
        for each, before in described_before.items():
            assert await described(api, each) == before
    store = open_store(tmp_path)
    source = ReplaySource(store, Catalog(store, None), Limits())
    for each in described_before:
        recorded = await find_session(source, "default", each)
        assert {turn.outcome async for turn in replay(recorded)} == {"same"}
    await store.close()
