"""kill -9 while webhooks are delivered, with a receiver that often fails as the witness.

It hears of every turn that was acknowledged, of none that never was, in the order of each session; what comes twice has
the same id.
"""

import asyncio
import random
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.effort import repeats
from tests.support.fixture_types import Serve
from tests.support.webhook_receiver import Receiver

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

KILLS = repeats(12)
DELIVERED_S = 240.0  # of a busy machine
SETTINGS = {"CUEBOOK_WEBHOOK_RETRY_S": "0.02", "CUEBOOK_WEBHOOK_ATTEMPTS": "1000"}


async def test_every_acknowledged_turn_is_delivered(
    serve: Serve, diary_clients: Callable[[int], Any], receiver: Receiver
) -> None:
    chance, people = random.Random(6), diary_clients(6)
    receiver.refuses = lambda _: chance.random() < 0.1
    webhook: Any = None
    for number in range(KILLS):
        server = serve(**SETTINGS)
        await server.ready()
        async with server.client() as client:
            if number == 0:
                body = {"url": receiver.url, "events": ["turn", "session.completed"]}
                webhook = (await client.post("/api/webhooks", json=body)).json()
            writing = asyncio.create_task(people.write(client))
            await people.answered(chance.randrange(1, 100))
            await asyncio.sleep(chance.uniform(0, 0.02))
            await server.stop(signal.SIGKILL)
            await writing
    assert people.retries > KILLS  # some were cut off
    server = serve(**SETTINGS)
    await server.ready()
    async with server.client() as client:
        await people.finish(client)
        wanted = {event for writer in people.writers for event in events_of(writer)}
        async with asyncio.timeout(DELIVERED_S):
            while True:
                if len({event_of(each) for each in taken(receiver)}) >= len(wanted) and not await waiting(
                    client, webhook
                ):
                    break
                await asyncio.sleep(0.05)
        await people.check(client)
    assert await server.stop() == 0
    assert {event_of(each) for each in taken(receiver)} == wanted
    assert_in_order(taken(receiver))


def events_of(writer: Any) -> list[tuple[str, int, str]]:
    """Return the events of a client's diaries that a webhook must have received: session, turn and type."""
    reported = []
    for session, entries in zip(writer.diaries, writer.entries, strict=True):
        name = session["sessionId"]
        reported += [(name, turn, "turn") for turn in range(len(entries) + 1)]
        if entries[-1:] == ["stop"]:
            reported.append((name, len(entries), "session.completed"))
    return reported


def taken(receiver: Any) -> list[Any]:
    """Return what the receiver received and did not refuse, in order."""
    return [each for each in receiver.deliveries if each.status == 204]


def event_of(delivery: Any) -> tuple[str, int, str]:
    reported = delivery.json
    return reported["data"]["sessionId"], reported["data"]["turn"], reported["type"]


async def waiting(client: Any, webhook: Any) -> bool:
    """Return whether any delivery still waits."""
    path = f"/api/webhooks/{webhook['webhookId']}/deliveries"
    dead = await client.read(path, status="dead")
    assert dead["data"] == []
    return bool((await client.read(path, status="pending"))["data"])


def assert_in_order(deliveries: list[Any]) -> None:
    """Assert that the events of a session come in order, and again only with the same id."""
    firsts: dict[str, Any] = {}
    for each in deliveries:
        firsts.setdefault(each.id, each)
    assert len(firsts) == len({event_of(each) for each in deliveries}) == len({each.json["id"] for each in deliveries})
    sessions: dict[str, list[tuple[int, int]]] = {}
    for each in firsts.values():
        session, turn, number = each.json["id"].rsplit(":", 2)
        sessions.setdefault(session, []).append((int(turn), int(number)))
    for events in sessions.values():
        assert events == sorted(events)
