"""A session is loaded at once with what separate reads return, whatever its length."""

from collections.abc import Sequence

import msgspec
import pytest

from api.sessions.history import messages_of_load, recent_messages
from store.interface.rows import KEYED_TURNS, NO_TURN, RECENT_TURNS, LoadedSession, Role
from store.store import Store
from tests.support.store_rows import Conversation, failure_of


async def talk(store: Store, conversation: Conversation, turns: int, first_role: Role = "user") -> None:
    """Commit turns, each with an idempotency key."""
    for number in range(turns):
        turn = conversation.next_turn(idempotency_key=f"key {number}")
        if number == 0:
            turn.messages[0] = msgspec.structs.replace(turn.messages[0], role=first_role)
        await store.turns.commit(turn, number - 1, conversation.session() if number == 0 else None)


async def loaded_of(store: Store, conversation: Conversation) -> LoadedSession:
    loaded = await store.sessions.load(conversation.tenant, conversation.session_id)
    assert loaded is not None
    return loaded


@pytest.mark.gate
@pytest.mark.parametrize("turns", [1, RECENT_TURNS, RECENT_TURNS + 1])
async def test_a_session_is_loaded_with_its_head_and_messages(
    store: Store, conversation: Conversation, turns: int
) -> None:
    await talk(store, conversation, turns)
    loaded, which = await loaded_of(store, conversation), (conversation.tenant, conversation.session_id)
    assert loaded.head == await store.sessions.head(*which)
    assert loaded.first_messages == await store.turns.messages(*which, limit=2)
    assert loaded.recent_messages == await store.turns.recent_messages(*which, 2 * RECENT_TURNS)
    assert (loaded.calls, loaded.failures) == ([], [])


@pytest.mark.gate
async def test_the_latest_keys_are_loaded(store: Store, conversation: Conversation) -> None:
    await talk(store, conversation, KEYED_TURNS)
    assert (await loaded_of(store, conversation)).keys == [f"key {number}" for number in range(KEYED_TURNS)]
    for number in (KEYED_TURNS, KEYED_TURNS + 1):
        await store.turns.commit(conversation.next_turn(idempotency_key=f"key {number}"), number - 1)
    keys = [f"key {number}" for number in (0, *range(2, KEYED_TURNS + 2))]
    assert (await loaded_of(store, conversation)).keys == keys


async def test_failures_and_calls_are_loaded(store: Store, conversation: Conversation) -> None:
    await store.turns.commit(conversation.next_turn(), NO_TURN, conversation.session())
    await conversation.ask(store, "call")
    await store.turns.save_failure(failure_of(conversation))
    loaded = await loaded_of(store, conversation)
    assert loaded.failures == [failure_of(conversation)]
    assert loaded.calls == await store.turns.unsettled_calls(conversation.tenant, conversation.session_id) != []


@pytest.mark.gate
@pytest.mark.parametrize("first_role", ["user", "system"])
@pytest.mark.parametrize("gaps", [(), ((3, 4),)])
@pytest.mark.parametrize("turns", [2, 30])
async def test_conversation_of_a_loaded_session_is_the_stored_one(
    store: Store, conversation: Conversation, first_role: Role, gaps: Sequence[tuple[int, int]], turns: int
) -> None:
    await talk(store, conversation, turns, first_role)
    loaded, without = await loaded_of(store, conversation), tuple(gaps)
    for messages_max in (1, 4, 5, 50, 60, 100):
        recorded = await recent_messages(store, conversation.tenant, conversation.session_id, messages_max, without)
        assert await messages_of_load(store, loaded, messages_max, without) == recorded
