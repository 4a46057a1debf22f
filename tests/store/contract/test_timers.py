"""Timers of sessions are those of the latest turn."""

from msgspec.structs import replace

from store.store import Store
from tests.support.store_rows import Conversation, timer_of


async def test_timers_of_an_earlier_turn_do_not_replace_later_ones(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    await conversation.say(store)
    session_id = conversation.session_id
    timer = timer_of("clinic", "ana", session_id)
    await store.timers.replace("clinic", session_id, [replace(timer, turn=1)], 1)
    await store.timers.replace("clinic", session_id, [timer], 0)
    await store.timers.replace("clinic", session_id, [], 0)
    assert [row.turn for row in (await store.timers.page("clinic")).rows] == [1]
    await store.timers.replace("clinic", session_id, ())
    assert (await store.timers.page("clinic")).rows == []
