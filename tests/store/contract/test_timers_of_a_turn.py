"""The timers of a session are replaced only by those after its latest turn."""

from msgspec.structs import replace

from store.store import Store
from tests.support.store_rows import Conversation, timer_of


async def test_timers_of_an_earlier_turn_do_not_replace_later_ones(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    await conversation.say(store)
    session_id = conversation.session_id
    timer = replace(timer_of("clinic", "ana", session_id), turn=1)
    await store.timers.replace("clinic", session_id, [timer], 1)
    for late in (0, 2):
        await store.timers.replace("clinic", session_id, [], late)
    assert (await store.timers.page("clinic")).rows == [timer]
    await store.timers.replace("clinic", session_id, [], 1)
    assert (await store.timers.page("clinic")).rows == []
    await store.timers.replace("clinic", session_id, [timer], 1)
    await store.timers.replace("clinic", session_id, [], None)
    assert (await store.timers.page("clinic")).rows == []


async def test_no_timers_are_stored_of_a_session_that_was_deleted(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    await store.maintenance.delete_session("clinic", conversation.session_id)
    timers = [timer_of("clinic", "ana", conversation.session_id)]
    await store.timers.replace("clinic", conversation.session_id, timers, 0)
    assert (await store.timers.page("clinic")).rows == []
