"""What one server does for all: when it was last done, who may do it, and old rows that are deleted."""

import psycopg

from store.store import Store
from tests.support.store_rows import Conversation


async def test_a_job_is_due_until_a_server_has_ended_it(stores: tuple[Store, Store]) -> None:
    one, two = (store.shared for store in stores)
    assert one is not None
    assert two is not None
    assert await one.is_due("retention", 3_600)
    await one.note_end("retention")
    assert not await two.is_due("retention", 3_600)
    assert await two.is_due("retention", 0)


async def test_a_server_that_leaves_is_followed_at_once(stores: tuple[Store, Store]) -> None:
    one, two = (store.shared for store in stores)
    assert one is not None
    assert two is not None
    assert [await each.beat() for each in (one, two)] == [1, 2]
    assert [await each.lead("housekeeping", 60) for each in (one, two)] == [True, False]
    await one.leave()
    assert await two.beat() == 1
    assert await two.lead("housekeeping", 60)


async def test_old_changes_of_sessions_are_forgotten(stores: tuple[Store, Store], postgres_url: str) -> None:
    one, talks = stores[0], [Conversation() for _ in range(2)]
    assert one.shared is not None
    for talk in talks:
        await talk.create(one)
        await one.maintenance.delete_session("clinic", talk.session_id)
    with psycopg.connect(postgres_url) as connection:
        connection.execute(
            "UPDATE changed_sessions SET changed_at = now() - INTERVAL '8 days' WHERE session_id = %s",
            [talks[0].session_id],
        )
    await one.shared.beat()
    with psycopg.connect(postgres_url) as connection:
        found = connection.execute("SELECT session_id::text FROM changed_sessions").fetchall()
    assert found == [(talks[1].session_id,)]
