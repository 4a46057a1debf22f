"""What servers do for each other: work of one for all, old rows that are deleted, and changes that are noticed."""

from datetime import timedelta
from uuid import uuid4

import msgspec
import psycopg

from store.interface.webhook_rows import WebhookRow
from store.store import Store
from tests.support.store_rows import MOMENT, WEBHOOK, Conversation, key_of, participant_of, webhook_of


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


async def test_changes_are_noticed_whatever_the_clock_of_their_server(
    stores: tuple[Store, Store],
) -> None:
    one, two = stores
    assert one.shared is not None
    await one.delivery.add_webhook(webhook_of())
    await one.delivery.add_webhook(webhook_of(webhook_id=str(uuid4())))
    before = await one.shared.marks()

    def moved(webhook: WebhookRow) -> WebhookRow:
        return msgspec.structs.replace(webhook, url="https://example.com", updated_at=MOMENT - timedelta(seconds=5))

    await two.delivery.change_webhook("clinic", WEBHOOK, moved)
    assert (await one.shared.marks()).webhooks != before.webhooks


async def test_rows_that_replace_others_are_noticed(stores: tuple[Store, Store], postgres_url: str) -> None:
    """Erasures delete keys and participants, at the same time as others come."""
    one, two = stores
    assert one.shared is not None
    talks = [Conversation() for _ in range(2)]
    late = MOMENT + timedelta(days=2)
    await one.keys.add(key_of(user_id="ana"))
    await one.participants.add(participant_of("clinic", "ana", talks[0].session_id), 10, MOMENT)
    before = await one.shared.marks()
    with psycopg.connect(postgres_url) as connection:
        connection.execute("DELETE FROM api_keys")
    await two.keys.add(key_of(key_id="2"))
    await two.participants.add(participant_of("clinic", "ben", talks[1].session_id, expires_at=late), 10, late)
    now = await one.shared.marks()
    assert now.keys != before.keys
    assert now.participants != before.participants
    await one.keys.note_use("clinic", "2", late)
    assert await one.shared.marks() == now
