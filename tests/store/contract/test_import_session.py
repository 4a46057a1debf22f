"""A session that is imported at once: all of it or nothing, as if it had been written turn by turn."""

import msgspec
import pytest

from store.duckdb import connection
from store.interface.errors import KeyTaken, RowRefused, SessionTaken
from store.interface.rows import SessionDocument, UserVariableRow
from store.store import Store
from tests.support.store_rows import MOMENT, Conversation, text_of


def whole_of(conversation, turns: int = 3, key: str | None = None) -> SessionDocument:
    made = [conversation.next_turn() for _ in range(turns)]
    call = conversation.settled(conversation.call("c1"), turn=1, used=True, outcome="done")
    variable = UserVariableRow(conversation.tenant, conversation.user_id, "visits", 1, "number", "script", MOMENT)
    return SessionDocument(
        session=conversation.session(key),
        turns=made,
        migrations=[conversation.migration(2)],
        calls=[call],
        texts=[text_of(), text_of(digest="digest 2")],
        variables=[variable],
    )


async def test_everything_is_there_and_goes_on(store: Store, conversation: Conversation) -> None:
    whole = whole_of(conversation, key="a")
    await store.sessions.import_session(whole)
    tenant, session_id = conversation.tenant, conversation.session_id
    assert await store.turns.range(tenant, session_id) == whole.turns
    assert await store.sessions.start(tenant, session_id) == whole.session
    assert await store.sessions.migrations(tenant, session_id) == whole.migrations
    assert (await store.turns.calls(tenant, session_id)).rows == whole.calls
    assert await store.sessions.user_variables(tenant, "ana") == whole.variables
    assert await store.scripts.text(tenant, "digest 2") == whole.texts[1]
    assert [row.seq for row in await store.turns.messages(tenant, session_id)] == [1, 2, 3, 4, 5, 6]
    await conversation.say(store)
    head = await store.sessions.head(tenant, session_id)
    assert (head.turn, head.message_count, head.event_count, head.digest) == (3, 8, 12, "digest 2")


async def test_list_has_imported_sessions_and_no_deleted_ones(store: Store) -> None:
    unchanged, replaced, deleted, imported = [Conversation() for _ in range(4)]
    for talk in (unchanged, replaced, deleted):
        await talk.create(store)
    assert len((await store.sessions.page(unchanged.tenant)).rows) == 3
    await store.sessions.import_session(whole_of(imported))
    await store.sessions.import_session(whole_of(Conversation(session_id=replaced.session_id), turns=5), replaces=True)
    await store.maintenance.delete_session(deleted.tenant, deleted.session_id)
    listed = {row.session_id: row.turn for row in (await store.sessions.page(unchanged.tenant)).rows}
    assert listed == {unchanged.session_id: 0, replaced.session_id: 4, imported.session_id: 2}


async def test_many_turns_travel_in_groups(
    store: Store, conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "GROUP_ROWS_MAX", 7)
    whole = whole_of(conversation, turns=50)
    await store.sessions.import_session(whole)
    assert await store.turns.range(conversation.tenant, conversation.session_id, limit=100) == whole.turns


async def test_what_is_there_stays_unless_it_is_to_be_replaced(store: Store, conversation: Conversation) -> None:
    await conversation.create(store, key="a")
    await conversation.say(store)
    tenant, session_id = conversation.tenant, conversation.session_id
    before = await store.turns.range(tenant, session_id)
    again = Conversation(session_id=session_id)
    whole = whole_of(again, turns=3, key="a")
    with pytest.raises(SessionTaken):
        await store.sessions.import_session(whole)
    assert await store.turns.range(tenant, session_id) == before
    await store.sessions.import_session(whole, replaces=True)
    assert await store.turns.range(tenant, session_id) == whole.turns
    await again.say(store)  # the writer knows where the session stands now


async def test_a_key_of_another_session_is_not_taken(store: Store, conversation: Conversation) -> None:
    await conversation.create(store, key="a")
    other = Conversation()
    with pytest.raises(KeyTaken):
        await store.sessions.import_session(whole_of(other, key="a"))
    assert await store.sessions.start(other.tenant, other.session_id) is None
    elsewhere = Conversation(tenant="school", session_id=conversation.session_id)
    await store.sessions.import_session(whole_of(elsewhere, key="a"))
    assert len(await store.turns.range(conversation.tenant, conversation.session_id)) == 1


async def test_a_users_variable_that_is_set_stays(store: Store, conversation: Conversation) -> None:
    set_now = UserVariableRow("clinic", "ana", "visits", 7, "number", "user", MOMENT)
    await store.sessions.set_user_variables([set_now], 10)
    await store.sessions.import_session(whole_of(conversation))
    assert await store.sessions.user_variables("clinic", "ana") == [set_now]


async def test_numbers_with_gaps_are_refused_and_leave_nothing(store: Store, conversation: Conversation) -> None:
    whole = whole_of(conversation)
    for turns in (whole.turns[1:], [whole.turns[0], whole.turns[2]], []):
        with pytest.raises(RowRefused):
            await store.sessions.import_session(msgspec.structs.replace(whole, turns=turns))
    stranger = [msgspec.structs.replace(whole.turns[0], tenant="school")]
    with pytest.raises(RowRefused):
        await store.sessions.import_session(msgspec.structs.replace(whole, turns=stranger))
    assert await store.sessions.start(conversation.tenant, conversation.session_id) is None
    assert await store.scripts.text(conversation.tenant, "digest 2") is None
