"""Webhooks in the record: deliveries are there with their turn or not at all, and go when their time is over."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from store.errors import RowRefused, TurnConflict
from store.record import Record
from store.webhook_rows import AttemptRow, DeliveryBounds, DeliverySummary

OTHER = "33333333-0000-4000-8000-000000000000"


async def ahead(record, rows, *webhooks: str, each_max: int = 10, after_s: float = 3_600) -> list:
    """The turns and numbers of what is due."""
    found = await record.deliveries_ahead(
        list(webhooks or [rows.webhook_of().webhook_id]), each_max, 100, rows.MOMENT + timedelta(seconds=after_s)
    )
    return [(delivery.turn, delivery.number) for delivery in found.due]


async def kept(record, status=None) -> list:
    """The turns of the deliveries that are there, the oldest first."""
    found = await record.deliveries("clinic", "22222222-0000-4000-8000-000000000000", status=status, limit=100)
    return [delivery.turn for delivery in found.rows][::-1]


def attempt(delivery, rows, status: str = "delivered", later_s: float = 0) -> AttemptRow:
    settled_at = rows.MOMENT if status != "pending" else None
    later = rows.MOMENT + timedelta(seconds=later_s)
    answered = 200 if status == "delivered" else 500
    return AttemptRow(
        tenant=delivery.tenant,
        delivery_id=delivery.delivery_id,
        status=status,  # type: ignore[arg-type]
        attempts=delivery.attempts + 1,
        next_attempt_at=later,
        attempted_at=rows.MOMENT,
        last_status=answered,
        last_error=None if status == "delivered" else "status",
        settled_at=settled_at,
    )


async def said(record, conversation, turns: int) -> list:
    """The deliveries of the first turns of a conversation."""
    await conversation.create(record)
    deliveries = []
    for _ in range(turns):
        deliveries.append(conversation.delivery())
        await conversation.say(record, deliveries=(deliveries[-1],))
    return deliveries


async def test_webhooks_are_read_as_they_were_written(tmp_path, rows) -> None:
    record = Record.open(tmp_path)
    first = rows.webhook_of(old_secret_id=OTHER, old_secret_until=rows.MOMENT)
    second = rows.webhook_of(webhook_id=OTHER, tenant="school", created_at=rows.MOMENT + timedelta(seconds=1))
    await record.save_webhook(first)
    await record.save_webhook(second)
    changed = msgspec.structs.replace(first, status="paused", paused_because="failing", failing_since=rows.MOMENT)
    await record.save_webhook(changed)
    await record.close()
    record = Record.open(tmp_path)
    assert await record.webhooks_of_all() == [changed, second]
    await record.close()


async def test_a_delivery_is_read_as_it_was_written(record, conversation) -> None:
    (delivery,) = await said(record, conversation, 1)
    assert await record.delivery("clinic", delivery.webhook_id, delivery.delivery_id) == delivery
    summary = {name: getattr(delivery, name) for name in DeliverySummary.__struct_fields__}
    assert (await record.deliveries("clinic", delivery.webhook_id)).rows == [DeliverySummary(**summary)]


async def test_a_turn_that_is_refused_leaves_no_delivery(record, conversation, rows) -> None:
    await said(record, conversation, 1)
    turn = conversation.next_turn()
    delivery = msgspec.structs.replace(conversation.delivery(), turn=turn.turn)
    with pytest.raises(TurnConflict):
        await record.commit(msgspec.structs.replace(turn, turn=9), 8, deliveries=(
            msgspec.structs.replace(delivery, turn=9),
        ))  # fmt: skip
    for stranger in ({"turn": 7}, {"tenant": "school"}, {"session_id": OTHER}):
        with pytest.raises(RowRefused, match="a delivery and its turn"):
            await record.commit(turn, turn.turn - 1, deliveries=(msgspec.structs.replace(delivery, **stranger),))
    assert await kept(record) == [1]
    await record.commit(turn, turn.turn - 1, deliveries=(delivery,))
    assert await kept(record) == [1, 2]


async def test_a_group_keeps_the_deliveries_of_all_its_turns(record, rows) -> None:
    conversations = [rows.Conversation() for _ in range(20)]
    await asyncio.gather(*(said(record, each, 3) for each in conversations))
    assert sorted(await kept(record)) == sorted([1, 2, 3] * 20)


async def test_of_a_session_only_the_first_that_waits_is_ahead(record, conversation, rows) -> None:
    await conversation.create(record)
    both = (conversation.delivery(number=1), conversation.delivery(number=2))
    await conversation.say(record, deliveries=both)
    third = conversation.delivery()
    await conversation.say(record, deliveries=(third, conversation.delivery(webhook_id=OTHER)))
    other = rows.Conversation()
    await said(record, other, 5)
    assert await ahead(record, rows) == [(1, 1), (1, 1)]
    assert await ahead(record, rows, OTHER) == [(2, 1)]
    assert await ahead(record, rows, each_max=1) == [(1, 1)]
    await record.note_attempts([attempt(both[0], rows)])
    assert sorted(await ahead(record, rows)) == [(1, 1), (1, 2)]
    await record.note_attempts([attempt(both[1], rows, "pending", later_s=100)])
    assert (2, 1) not in await ahead(record, rows, after_s=50)  # it waits for that one
    found = await record.deliveries_ahead([third.webhook_id], 10, 100, rows.MOMENT + timedelta(seconds=50))
    assert found.next_at == rows.MOMENT + timedelta(seconds=100)
    await record.note_attempts([attempt(both[1], rows, "dead")])
    assert (2, 1) in await ahead(record, rows, after_s=50)


async def test_what_came_of_sending_is_kept(record, conversation, rows) -> None:
    deliveries = await said(record, conversation, 3)
    made = [attempt(deliveries[0], rows), attempt(deliveries[1], rows, "dead")]
    await record.note_attempts([*made, msgspec.structs.replace(made[0], tenant="school", status="dead")])
    for delivery, expected in zip(deliveries, made, strict=False):
        found = await record.delivery("clinic", delivery.webhook_id, delivery.delivery_id)
        assert {name: getattr(found, name) for name in AttemptRow.__struct_fields__} == msgspec.structs.asdict(expected)
    assert await kept(record, "pending") == [3]


async def test_dead_ones_are_replayed_and_no_others(record, conversation, rows) -> None:
    deliveries = await said(record, conversation, 4)
    await record.note_attempts([attempt(each, rows, "dead") for each in deliveries[:2]])
    await record.note_attempts([attempt(deliveries[2], rows)])
    webhook, now = deliveries[0].webhook_id, rows.MOMENT + timedelta(days=1)
    for stranger in (("school", webhook), ("clinic", OTHER), ("clinic", "no id")):
        assert await record.replay_deliveries(*stranger, now, status="dead") == 0
    assert await record.replay_deliveries("clinic", webhook, now, status="dead") == 2
    assert await kept(record, "pending") == [1, 2, 4]
    found = await record.delivery("clinic", webhook, deliveries[0].delivery_id)
    assert (found.attempts, found.next_attempt_at, found.settled_at) == (0, now, None)
    assert await record.replay_deliveries("clinic", webhook, now, delivery_id=deliveries[2].delivery_id) == 1
    assert await kept(record, "delivered") == []


async def test_too_many_that_wait_are_given_up_the_oldest_first(record, conversation, rows) -> None:
    await record.save_webhook(rows.webhook_of())
    deliveries = await said(record, conversation, 6)
    await record.tidy_deliveries(DeliveryBounds(4, 10, rows.MOMENT - timedelta(days=1)), rows.MOMENT)
    assert (await kept(record, "dead"), await kept(record, "pending")) == ([1, 2], [3, 4, 5, 6])
    found = await record.delivery("clinic", deliveries[0].webhook_id, deliveries[0].delivery_id)
    assert (found.last_error, found.settled_at) == ("overflow", rows.MOMENT)


async def test_what_is_settled_goes_after_its_time_and_beyond_its_number(record, conversation, rows) -> None:
    await record.save_webhook(rows.webhook_of())
    deliveries = await said(record, conversation, 6)
    await record.note_attempts([attempt(each, rows) for each in deliveries[:3]])
    day_after = rows.MOMENT + timedelta(days=1)
    later = [msgspec.structs.replace(attempt(each, rows, "dead"), settled_at=day_after) for each in deliveries[3:5]]
    await record.note_attempts(later)
    await record.tidy_deliveries(DeliveryBounds(9, 4, rows.MOMENT), rows.MOMENT)
    assert len(await kept(record)) == 5  # one beyond the number
    await record.tidy_deliveries(DeliveryBounds(9, 4, rows.MOMENT + timedelta(seconds=1)), rows.MOMENT)
    assert await kept(record) == [4, 5, 6]


async def test_with_a_webhook_go_its_deliveries(record, conversation, rows) -> None:
    await record.save_webhook(rows.webhook_of())
    await record.save_webhook(rows.webhook_of(webhook_id=OTHER))
    await said(record, conversation, 2)
    await record.remove_webhook("school", rows.webhook_of().webhook_id)
    assert await kept(record) == [1, 2]
    await record.remove_webhook("clinic", rows.webhook_of().webhook_id)
    assert await kept(record) == []
    await conversation.say(record, deliveries=(conversation.delivery(),))  # of a turn that was under way
    await record.tidy_deliveries(DeliveryBounds(9, 9, rows.MOMENT), rows.MOMENT)
    assert await kept(record) == []
    assert [each.webhook_id for each in await record.webhooks_of_all()] == [OTHER]
