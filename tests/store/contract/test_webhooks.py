"""Webhooks in the database: deliveries are committed with their turn or not at all, and expire."""

import asyncio
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from store.interface.errors import RowRefused, TurnConflict
from store.interface.webhook_rows import SERIES_MAX, AttemptRow, DeliveryBounds, DeliverySummary
from store.open_store import open_store
from store.store import Store
from tests.support.store_rows import MOMENT, Conversation, webhook_of

OTHER = "33333333-0000-4000-8000-000000000000"


async def ahead(store, *webhooks: str, each_max: int = 10, after_s: float = 3_600) -> list:
    """Return the turns and numbers of what is due."""
    found = await store.delivery.ahead(
        dict.fromkeys(webhooks or [webhook_of().webhook_id], each_max), 100, MOMENT + timedelta(seconds=after_s)
    )
    return [(delivery.turn, delivery.number) for delivery in found.due]


async def delivery_numbers(store, status=None) -> list:
    """Return the turns of the deliveries that are there, the oldest first."""
    found = await store.delivery.page("clinic", "22222222-0000-4000-8000-000000000000", status=status, limit=100)
    return [delivery.turn for delivery in found.rows][::-1]


def attempt(delivery, status: str = "delivered", later_s: float = 0) -> AttemptRow:
    settled_at = MOMENT if status != "pending" else None
    later = MOMENT + timedelta(seconds=later_s)
    answered = 200 if status == "delivered" else 500
    return AttemptRow(
        tenant=delivery.tenant,
        delivery_id=delivery.delivery_id,
        status=status,
        attempts=delivery.attempts + 1,
        next_attempt_at=later,
        attempted_at=MOMENT,
        last_status=answered,
        last_error=None if status == "delivered" else "status",
        settled_at=settled_at,
    )


async def said(store, conversation, turns: int) -> list:
    """Return the deliveries of the first turns of a conversation."""
    await conversation.create(store)
    deliveries = []
    for _ in range(turns):
        deliveries.append(conversation.delivery())
        await conversation.say(store, deliveries=(deliveries[-1],))
    return deliveries


async def test_webhooks_are_read_as_they_were_written(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    first = webhook_of(old_secret_id=OTHER, old_secret_until=MOMENT)
    second = webhook_of(webhook_id=OTHER, tenant="school", created_at=MOMENT + timedelta(seconds=1))
    await store.delivery.add_webhook(first)
    await store.delivery.add_webhook(second)
    changed = msgspec.structs.replace(first, status="paused", paused_because="failing", failing_since=MOMENT)
    assert await store.delivery.change_webhook("clinic", first.webhook_id, lambda _: changed) == changed
    assert await store.delivery.change_webhook("other", first.webhook_id, lambda row: row) is None
    await store.close()
    store = open_store(tmp_path)
    assert await store.delivery.webhooks_of_all() == [changed, second]
    await store.close()


async def test_a_delivery_is_read_as_it_was_written(store: Store, conversation: Conversation) -> None:
    (delivery,) = await said(store, conversation, 1)
    assert await store.delivery.get("clinic", delivery.webhook_id, delivery.delivery_id) == delivery
    summary = {name: getattr(delivery, name) for name in DeliverySummary.__struct_fields__}
    assert (await store.delivery.page("clinic", delivery.webhook_id)).rows == [DeliverySummary(**summary)]


async def test_a_turn_that_is_refused_leaves_no_delivery(store: Store, conversation: Conversation) -> None:
    await said(store, conversation, 1)
    turn = conversation.next_turn()
    delivery = msgspec.structs.replace(conversation.delivery(), turn=turn.turn)
    with pytest.raises(TurnConflict):
        await store.turns.commit(msgspec.structs.replace(turn, turn=9), 8, deliveries=(
            msgspec.structs.replace(delivery, turn=9),
        ))  # fmt: skip
    for stranger in ({"turn": 7}, {"tenant": "school"}, {"session_id": OTHER}):
        with pytest.raises(RowRefused, match="a delivery and its turn"):
            await store.turns.commit(turn, turn.turn - 1, deliveries=(msgspec.structs.replace(delivery, **stranger),))
    assert await delivery_numbers(store) == [1]
    await store.turns.commit(turn, turn.turn - 1, deliveries=(delivery,))
    assert await delivery_numbers(store) == [1, 2]


async def test_a_group_keeps_the_deliveries_of_all_its_turns(store: Store) -> None:
    conversations = [Conversation() for _ in range(20)]
    await asyncio.gather(*(said(store, each, 3) for each in conversations))
    assert sorted(await delivery_numbers(store)) == sorted([1, 2, 3] * 20)


@pytest.mark.database_file  # a server over PostgreSQL takes what it reads, and only the first of a session
async def test_what_waits_for_one_session_is_ahead_in_order(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    both = (conversation.delivery(number=1), conversation.delivery(number=2))
    await conversation.say(store, deliveries=both)
    third = conversation.delivery()
    await conversation.say(store, deliveries=(third, conversation.delivery(webhook_id=OTHER)))
    assert await ahead(store) == [(1, 1), (1, 2), (2, 1)]
    assert await ahead(store, OTHER) == [(2, 1)]
    other = Conversation()
    await said(store, other, SERIES_MAX + 1)
    of_other = [(turn, 1) for turn in range(1, SERIES_MAX + 1)]
    assert sorted(await ahead(store)) == sorted([(1, 1), (1, 2), (2, 1), *of_other])
    assert await ahead(store, each_max=1) in ([(1, 1), (1, 2), (2, 1)], of_other)
    await store.delivery.note_attempts([attempt(both[0])])
    await store.delivery.note_attempts([attempt(both[1], "pending", later_s=100)])
    assert await ahead(store, after_s=50) == of_other  # the third waits for the second
    found = await store.delivery.ahead({third.webhook_id: 10}, 100, MOMENT + timedelta(seconds=50))
    assert found.next_at == MOMENT + timedelta(seconds=100)
    await store.delivery.note_attempts([attempt(both[1], "dead")])
    assert (2, 1) in await ahead(store, after_s=50)


async def test_the_result_of_sending_is_stored(store: Store, conversation: Conversation) -> None:
    deliveries = await said(store, conversation, 3)
    made = [attempt(deliveries[0]), attempt(deliveries[1], "dead")]
    await store.delivery.note_attempts([*made, msgspec.structs.replace(made[0], tenant="school", status="dead")])
    for delivery, expected in zip(deliveries, made, strict=False):
        found = await store.delivery.get("clinic", delivery.webhook_id, delivery.delivery_id)
        assert {name: getattr(found, name) for name in AttemptRow.__struct_fields__} == msgspec.structs.asdict(expected)
    assert await delivery_numbers(store, "pending") == [3]


async def test_a_late_failure_does_not_replace_a_delivery(store: Store, conversation: Conversation) -> None:
    await store.delivery.add_webhook(webhook_of())
    (delivery,) = await said(store, conversation, 1)
    for status in ("dead", "delivered", "pending", "dead"):
        await store.delivery.note_attempts([attempt(delivery, status)])
    assert (await delivery_numbers(store, "delivered"), await ahead(store)) == ([1], [])


async def test_dead_ones_are_replayed_and_no_others(store: Store, conversation: Conversation) -> None:
    deliveries = await said(store, conversation, 4)
    await store.delivery.note_attempts([attempt(each, "dead") for each in deliveries[:2]])
    await store.delivery.note_attempts([attempt(deliveries[2])])
    webhook, now = deliveries[0].webhook_id, MOMENT + timedelta(days=1)
    for stranger in (("school", webhook), ("clinic", OTHER), ("clinic", "no id")):
        assert await store.delivery.replay(*stranger, now, status="dead") == 0
    assert await store.delivery.replay("clinic", webhook, now, status="dead") == 2
    assert await delivery_numbers(store, "pending") == [1, 2, 4]
    found = await store.delivery.get("clinic", webhook, deliveries[0].delivery_id)
    assert (found.attempts, found.next_attempt_at, found.settled_at) == (0, now, None)
    assert await store.delivery.replay("clinic", webhook, now, delivery_id=deliveries[2].delivery_id) == 1
    assert await delivery_numbers(store, "delivered") == []


async def test_too_many_that_wait_are_given_up_the_oldest_first(store: Store, conversation: Conversation) -> None:
    await store.delivery.add_webhook(webhook_of())
    deliveries = await said(store, conversation, 6)
    await store.delivery.tidy(DeliveryBounds(4, 10, MOMENT - timedelta(days=1)), MOMENT)
    assert (await delivery_numbers(store, "dead"), await delivery_numbers(store, "pending")) == ([1, 2], [3, 4, 5, 6])
    found = await store.delivery.get("clinic", deliveries[0].webhook_id, deliveries[0].delivery_id)
    assert (found.last_error, found.settled_at) == ("overflow", MOMENT)


async def test_finished_deliveries_go_after_their_time_or_number(store: Store, conversation: Conversation) -> None:
    await store.delivery.add_webhook(webhook_of())
    deliveries = await said(store, conversation, 6)
    await store.delivery.note_attempts([attempt(each) for each in deliveries[:3]])
    day_after = MOMENT + timedelta(days=1)
    later = [msgspec.structs.replace(attempt(each, "dead"), settled_at=day_after) for each in deliveries[3:5]]
    await store.delivery.note_attempts(later)
    await store.delivery.tidy(DeliveryBounds(9, 4, MOMENT), MOMENT)
    assert len(await delivery_numbers(store)) == 5  # one beyond the number
    await store.delivery.tidy(DeliveryBounds(9, 4, MOMENT + timedelta(seconds=1)), MOMENT)
    assert await delivery_numbers(store) == [4, 5, 6]


async def test_with_a_webhook_go_its_delivery_numbers(store: Store, conversation: Conversation) -> None:
    await store.delivery.add_webhook(webhook_of())
    await store.delivery.add_webhook(webhook_of(webhook_id=OTHER))
    await said(store, conversation, 2)
    await store.delivery.remove_webhook("school", webhook_of().webhook_id)
    assert await delivery_numbers(store) == [1, 2]
    await store.delivery.remove_webhook("clinic", webhook_of().webhook_id)
    assert await delivery_numbers(store) == []
    await conversation.say(store, deliveries=(conversation.delivery(),))  # of a turn that was under way
    await store.delivery.tidy(DeliveryBounds(9, 9, MOMENT), MOMENT)
    assert await delivery_numbers(store) == []
    assert [each.webhook_id for each in await store.delivery.webhooks_of_all()] == [OTHER]
