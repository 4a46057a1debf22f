"""Servers on PostgreSQL are killed and stopped: no acknowledged turn is lost, torn or doubled, and another goes on."""

import asyncio
import json
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.effort import repeats
from tests.support.kill_points import POSTGRES_POINTS
from tests.support.load_balancer import LoadBalancer
from tests.support.openai_server import Endpoint
from tests.support.server_process import START_S, ServerProcess
from tests.support.whole_database import assert_verified, assert_whole

KILLS = max(5, repeats(20))
DURING_S = 0.01

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ASKING = """\
cuebook: 1
script: asking
actions:
  - ask: What is on your mind?
    into: {var: topic}
  - ai_say: Answer in one sentence about {{ topic }}.
  - ask: And now?
    into: {var: more}
"""


@pytest.fixture
def serve_both(serve_on_postgres: Callable[..., ServerProcess]) -> Callable[..., list[ServerProcess]]:
    """Start two servers on one database."""
    return lambda *flags, **environment: [serve_on_postgres(name, *flags, **environment) for name in ("one", "two")]


async def test_killed_while_eight_people_write(
    serve_both: Callable[..., list[ServerProcess]], diary_clients: Callable[[int], Any], postgres_url: str
) -> None:
    """One of two servers is killed again and again; people who wrote to it go on at the other one at once."""
    people, chance = diary_clients(7), random.Random(7)
    for number in range(KILLS):
        servers = serve_both()
        await asyncio.gather(*(server.ready() for server in servers))
        for killed in servers if number % 2 else reversed(servers):
            async with killed.client() as client:
                writing = asyncio.create_task(people.write(client))
                await people.answered(chance.randrange(25))
                await asyncio.sleep(chance.uniform(0, 0.02))
                await killed.stop(signal.SIGKILL)
                await writing
    (last, _) = serve_both()
    await last.ready()
    async with last.client() as client:
        await people.finish(client)
        await people.check(client)
    assert people.acknowledged > 2 * KILLS
    assert_whole(postgres_url)


@pytest.mark.parametrize("point", POSTGRES_POINTS)
async def test_killed_at_a_point_of_a_commit(
    serve_on_postgres: Callable[..., ServerProcess],
    diary_clients: Callable[[int], Any],
    postgres_url: str,
    point: str,
) -> None:
    """A server kills itself at a commit; requests without an answer are sent again to another server."""
    people, chance = diary_clients(sum(map(ord, point))), random.Random(point)
    survivor = serve_on_postgres("two")
    await survivor.ready()
    servers = LoadBalancer([survivor.url])
    async with servers.client() as client:
        writing = asyncio.create_task(people.write(client))
        for _ in range(repeats(20)):
            kill = {"name": point, "passes": chance.randint(1, 20), "after_s": chance.uniform(0, DURING_S)}
            dying = serve_on_postgres("one", KILL_AT=json.dumps(kill))
            await dying.ready()
            servers.urls = [survivor.url, dying.url]
            assert await asyncio.to_thread(dying.process.wait, START_S) == -signal.SIGKILL
            await people.answered(10)
        servers.is_closed = True
        await writing
    assert servers.moved.total() > 0
    async with survivor.client() as client:
        await people.finish(client)
        await people.check(client)
        await assert_verified(client, postgres_url)


async def test_a_server_that_was_stopped_too_long_loses_its_turn(
    serve_both: Callable[..., list[ServerProcess]], endpoint: Endpoint, postgres_url: str, tmp_path: Path
) -> None:
    """A server is stopped within a call of a model; another one takes the turn; then the first one goes on."""
    scripts = tmp_path / "asking"
    scripts.mkdir()
    (scripts / "asking.yaml").write_text(ASKING)
    model = {
        "CUEBOOK_MODEL": "openai:tiny",
        "CUEBOOK_MODEL_URL": endpoint.url,
        "CUEBOOK_MODEL_KEY": "k",
        "CUEBOOK_MODEL_ATTEMPTS": "1",
    }
    one, two = serve_both("--scripts", str(scripts), **model)
    await asyncio.gather(one.ready(), two.ready())
    async with one.client() as first, two.client() as second:
        session = (await first.post("/api/sessions", json={"userId": "ana", "scriptId": "asking"})).json()
        path = f"/api/sessions/{session['sessionId']}"
        endpoint.will(content="The first answer.", wait_s=2.0)
        late = asyncio.create_task(first.post(f"{path}/messages", json={"content": "rain"}))
        await asyncio.to_thread(endpoint.wait, 1)
        busy = await second.post(f"{path}/messages", json={"content": "rain"})
        assert (busy.status_code, busy.json()["error"]["code"]) == (409, "SESSION_BUSY")
        one.process.send_signal(signal.SIGSTOP)
        with psycopg.connect(postgres_url) as connection:
            connection.execute("UPDATE turn_claims SET expires_at = now() - INTERVAL '1 second'")
        endpoint.will(content="The second answer.")
        taken = await second.post(f"{path}/messages", json={"content": "rain"})
        assert (taken.status_code, taken.json()["turn"]) == (200, 1), taken.text
        one.process.send_signal(signal.SIGCONT)
        refused = await late
        assert refused.status_code in {409, 412}, refused.text
        for client in (first, second):
            said = [message["content"] for message in (await client.read(f"{path}/messages"))["data"]]
            assert "The second answer." in said
            assert "The first answer." not in said
    assert_whole(postgres_url)
