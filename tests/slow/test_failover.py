"""PostgreSQL fails over to a synchronous standby while people talk: servers go on, nothing acknowledged is lost."""

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.effort import repeats
from tests.support.load_balancer import LoadBalancer
from tests.support.postgres_server import StandbyPair, programs, running_pair
from tests.support.server_process import ServerProcess
from tests.support.whole_database import assert_verified

pytestmark = [pytest.mark.slow, pytest.mark.gate, pytest.mark.timeout(900)]

FAILOVERS = repeats(20)


@pytest.fixture
def pair() -> Iterator[StandbyPair]:
    found = programs()
    if found is None or not (found / "pg_basebackup").exists():
        pytest.skip("PostgreSQL is not installed")
    with running_pair(found) as pair:
        yield pair


async def test_nothing_acknowledged_is_lost_by_a_failover(
    serve_on_postgres: Callable[..., ServerProcess], diary_clients: Callable[[int], Any], pair: StandbyPair
) -> None:
    people, chance = diary_clients(5), random.Random(5)
    url = pair.url("template_of_tests")
    started = [serve_on_postgres(name, database=url) for name in ("one", "two")]
    await asyncio.gather(*(server.ready() for server in started))
    servers = LoadBalancer([server.url for server in started])
    async with servers.client() as client:
        writing = asyncio.create_task(people.write(client))
        for number in range(FAILOVERS):
            if number:
                await asyncio.to_thread(pair.add_standby)
            await people.answered(chance.randrange(10, 40))
            await asyncio.sleep(chance.uniform(0, 0.02))
            await asyncio.to_thread(pair.fail_over)
            await people.answered(10)
        servers.is_closed = True
        await writing
    assert people.acknowledged > 10 * FAILOVERS
    for server in started:
        assert server.process.poll() is None, "the servers were not started again"
        async with server.client() as client:
            await people.check(client)
    async with started[0].client() as client:
        await people.finish(client)
        await assert_verified(client, url)
