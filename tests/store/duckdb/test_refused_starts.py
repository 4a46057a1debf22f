"""A turn that the database refuses leaves no row in any table, and its successor is numbered from the same head."""

import msgspec
import pytest

from store.interface.errors import RowRefused
from store.interface.rows import NO_TURN


async def test_of_a_start_that_is_refused_no_table_has_a_row(store, conversation) -> None:
    """The row of the session is inserted before that of its turn, which the database refuses."""
    bad = msgspec.structs.replace(conversation.next_turn(), state=msgspec.Raw(b"{"))
    with pytest.raises(RowRefused):
        await store.turns.commit(bad, NO_TURN, conversation.session(key="telegram:1"))
    assert await store.sessions.start("clinic", conversation.session_id) is None
    assert await store.sessions.by_key("clinic", "telegram:1") is None
    conversation.turns = 0
    await conversation.create(store, key="telegram:1")
    assert (await store.sessions.head("clinic", conversation.session_id)).turn == 0


async def test_a_gap_in_the_numbers_of_messages_is_named(store, conversation) -> None:
    await conversation.create(store)
    turn = conversation.next_turn()
    gap = [msgspec.structs.replace(message, seq=message.seq + 7) for message in turn.messages]
    with pytest.raises(RowRefused, match=r"^message \d+ of turn 1 should be number \d+$"):
        await store.turns.commit(msgspec.structs.replace(turn, messages=gap), 0)
