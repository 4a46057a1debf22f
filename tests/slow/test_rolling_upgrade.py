"""Servers are stopped and started again one by one while people talk: no turn fails, and none is taken twice."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.advice import ADVICE
from tests.support.api_client import ApiClient
from tests.support.effort import repeats
from tests.support.load_balancer import LoadBalancer
from tests.support.openai_server import Endpoint
from tests.support.server_process import ServerProcess
from tests.support.whole_database import assert_verified

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

NAMES = ("one", "two", "three")
RESTARTS = repeats(20)
SPEAKERS = 6
CALL_S = 0.1


async def replace_each(
    servers: LoadBalancer, started: list[ServerProcess], start: Callable[[str], ServerProcess], *, waits: bool = False
) -> None:
    """Stop one server after the other with SIGTERM, and start it again.

    With `waits`, the balancer notices that a server is not ready any more, and sends it nothing more.
    """
    for number in range(RESTARTS):
        place = number % len(started)
        old = started[place]
        stopping = asyncio.create_task(old.stop())
        if waits:
            await old.unready()
            servers.urls.remove(old.url)
        assert await stopping == 0, old.log
        started[place] = start(NAMES[place])
        await started[place].ready()
        servers.urls = [server.url for server in started]


async def test_no_turn_fails_while_servers_are_replaced(
    serve_on_postgres: Callable[..., ServerProcess], diary_clients: Callable[[int], Any], postgres_url: str
) -> None:
    people = diary_clients(6)
    started = [serve_on_postgres(name) for name in NAMES]
    await asyncio.gather(*(server.ready() for server in started))
    servers = LoadBalancer([server.url for server in started])
    async with servers.client() as client:
        writing = asyncio.create_task(people.write(client))
        await replace_each(servers, started, serve_on_postgres)
        servers.is_closed = True
        await writing
    assert servers.moved.total() > 0
    assert people.acknowledged > RESTARTS
    async with started[0].client() as client:
        await people.finish(client)
        await people.check(client)
        await assert_verified(client, postgres_url)


async def test_no_request_is_repeated_if_the_proxy_checks_readiness(
    serve_on_postgres: Callable[..., ServerProcess], postgres_url: str
) -> None:
    """Messages without keys, which nobody may send again, are each taken once."""

    def start(name: str) -> ServerProcess:
        return serve_on_postgres(name, CUEBOOK_STOP_DELAY_S="3")

    started = [start(name) for name in NAMES]
    await asyncio.gather(*(server.ready() for server in started))
    servers = LoadBalancer([server.url for server in started])
    is_over = asyncio.Event()

    async def speak(api: ApiClient, number: int) -> None:
        while not is_over.is_set():
            session = await api.create_session("diary", user=f"user {number}")
            for turn in range(1, 500):  # a diary ends after a thousand
                answer = await api.send_message(session, {"content": f"entry {turn}"})
                assert (answer.status_code, answer.json().get("turn")) == (200, turn), answer.text
                if is_over.is_set():
                    break

    async with servers.client() as client:
        speaking = [asyncio.create_task(speak(client, number)) for number in range(SPEAKERS)]
        await replace_each(servers, started, start, waits=True)
        is_over.set()
        await asyncio.gather(*speaking)
        assert servers.moved.total() == 0
        await assert_verified(client, postgres_url)


async def test_turns_that_call_a_model_end_before_the_server(
    serve_on_postgres: Callable[..., ServerProcess], endpoint: Endpoint, postgres_url: str
) -> None:
    """Each turn has called the model once, since no server ends within a call."""
    endpoint.always(wait_s=CALL_S)
    model = {"CUEBOOK_MODEL": "openai:tiny", "CUEBOOK_MODEL_URL": endpoint.url, "CUEBOOK_MODEL_KEY": "k"}

    def start(name: str) -> ServerProcess:
        return serve_on_postgres(name, **model)

    started = [start(name) for name in NAMES]
    await asyncio.gather(*(server.ready() for server in started))
    servers = LoadBalancer([server.url for server in started])
    async with servers.client() as client:
        await client.publish_script(ADVICE, strict=False)
        is_over, turns = asyncio.Event(), {}

        async def speak(api: ApiClient, number: int) -> None:
            for visit in itertools.count():  # a conversation ends after 1,000 turns
                session = await api.create_session("advice", user=f"user {number}", key=f"advice {number} {visit}")
                for turn in range(1, 501):
                    if is_over.is_set():
                        return
                    answer = await api.send_message(session, {"content": "rain"}, {"Idempotency-Key": f"{turn}"})
                    assert (answer.status_code, answer.json().get("turn")) == (200, turn), answer.text
                    turns[session["sessionId"]] = turn

        speaking = [asyncio.create_task(speak(client, number)) for number in range(SPEAKERS)]
        await replace_each(servers, started, start)
        is_over.set()
        await asyncio.gather(*speaking)
        assert len(endpoint.requests) == sum(turns.values())
        await assert_verified(client, postgres_url)
