"""kill -9 while timers fire, with an independent client that reads the events as the witness.

Every timer fires once and in order, whatever is killed, and nothing is acknowledged that is lost.
"""

import asyncio
import random
import signal
from typing import Any

import pytest

from tests.support.api_client import ApiClient
from tests.support.effort import repeats
from tests.support.fixture_types import Serve

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

KILLS = repeats(12)
SESSIONS = 20
DONE_S = 240.0  # of a busy machine
WAITS = 6
SCRIPT = (
    "script: ticks\nphases:\n- phase: p\n  topics:\n  - topic: t\n    actions:\n"
    + "".join(
        f"    - {{wait: {1 + number % 2} seconds, id: w{number}}}\n    - {{say: Tick {number}., id: s{number}}}\n"
        for number in range(WAITS)
    )
    + "    - {ask: Done?, id: done, output: [done]}\n"
)


async def test_every_timer_fires_once_and_in_order(serve: Serve) -> None:
    chance, sessions = random.Random(4), []
    for number in range(KILLS):
        server = serve()
        await server.ready()
        async with server.client() as client:
            if number == 0:
                await client.publish_script(SCRIPT, strict=False)
            sessions += [
                await client.create_session("ticks", user=f"user{len(sessions) + each}") for each in range(SESSIONS)
            ]
            await asyncio.sleep(chance.uniform(0.2, 3))
            await server.stop(signal.SIGKILL)
    server = serve()
    await server.ready()
    async with server.client() as client, asyncio.timeout(DONE_S):
        for session in sessions:
            while (await state_of(client, session))["wait"]["kind"] == "time":  # noqa: ASYNC110  (the server acts)
                await asyncio.sleep(0.1)
            events = (await client.read(f"/api/sessions/{session['sessionId']}/events", limit=100))["data"]
            fired = [each["data"]["actionId"] for each in events if each["kind"] == "timer"]
            assert fired == [f"w{number}" for number in range(WAITS)]
            assert [each["seq"] for each in events] == list(range(1, len(events) + 1))
            said = (await client.read(f"/api/sessions/{session['sessionId']}/messages", limit=100))["data"]
            assert [each["content"] for each in said] == [*(f"Tick {number}." for number in range(WAITS)), "Done?"]
        assert (await client.read("/api/timers"))["data"] == []
    assert await server.stop() == 0


async def state_of(client: ApiClient, session: Any) -> Any:
    return await client.read(f"/api/sessions/{session['sessionId']}")
