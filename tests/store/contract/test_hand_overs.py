"""Sessions for a person: committed with the turn that asks for one, and listed by how long they wait."""

from datetime import timedelta

import pytest

from store.interface.errors import RowRefused
from store.store import Store
from tests.support.store_rows import MOMENT, Conversation


@pytest.fixture
async def waiting(store: Store) -> list[Conversation]:
    """Create three sessions that wait for a person, the last one the longest."""
    sessions = [Conversation("clinic", user) for user in ("ana", "ben", "cara")]
    for number, session in enumerate(sessions):
        await session.create(store)
        row = session.hand_over(since=MOMENT - timedelta(minutes=number))
        await session.say(store, hand_overs=(row,))
    return sessions


async def test_those_that_wait_longest_come_first(store: Store, waiting: list[Conversation]) -> None:
    first = await store.sessions.hand_overs("clinic", limit=2)
    rest = await store.sessions.hand_overs("clinic", limit=2, cursor=first.next)
    assert [row.user_id for row in (*first.rows, *rest.rows)] == ["cara", "ben", "ana"]
    assert rest.next is None
    of_user = await store.sessions.hand_overs("clinic", user_id="ben")
    assert [row.session_id for row in of_user.rows] == [waiting[1].session_id]


async def test_later_turn_replaces_or_removes_the_row_of_a_session(store: Store, waiting: list[Conversation]) -> None:
    first, second, third = waiting
    taken = first.hand_over(status="taken", operator="Kim")
    await first.say(store, hand_overs=(taken,))
    await second.say(store, hand_overs=())
    await third.say(store)
    assert (await store.sessions.hand_overs("clinic", status="taken")).rows == [taken]
    requested = (await store.sessions.hand_overs("clinic", status="requested")).rows
    assert [row.session_id for row in requested] == [third.session_id]


async def test_a_row_of_another_turn_is_refused(store: Store, waiting: list[Conversation]) -> None:
    first = waiting[0]
    with pytest.raises(RowRefused, match="hand-over"):
        await first.say(store, hand_overs=(first.hand_over(turn=7),))
