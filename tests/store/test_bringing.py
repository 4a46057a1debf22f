"""A session brought in at once: all of it or nothing, as if it had been written turn by turn."""

import msgspec
import pytest

from store import bringing
from store.bringing import WholeSession
from store.errors import KeyTaken, RowRefused, SessionTaken
from store.record import Record
from store.rows import UserVariableRow


def whole_of(conversation, rows, turns: int = 3, key: str | None = None) -> WholeSession:
    made = [conversation.next_turn() for _ in range(turns)]
    call = msgspec.structs.replace(conversation.call("c1"), turn=1, used=True, outcome="done")
    variable = UserVariableRow(conversation.tenant, conversation.user_id, "visits", 1, "number", "script", rows.MOMENT)
    return WholeSession(
        session=conversation.session(key),
        turns=made,
        migrations=[conversation.migration(2)],
        calls=[call],
        texts=[rows.text_of(), rows.text_of(digest="digest 2")],
        variables=[variable],
    )


async def test_everything_is_there_and_goes_on(record, conversation, rows) -> None:
    whole = whole_of(conversation, rows, key="a")
    await record.bring_session(whole)
    tenant, session_id = conversation.tenant, conversation.session_id
    assert await record.turns(tenant, session_id) == whole.turns
    assert await record.session_start(tenant, session_id) == whole.session
    assert await record.migrations(tenant, session_id) == whole.migrations
    assert (await record.calls(tenant, session_id)).rows == whole.calls
    assert await record.user_variables(tenant, "ana") == whole.variables
    assert await record.script_text(tenant, "digest 2") == whole.texts[1]
    assert [row.seq for row in await record.messages(tenant, session_id)] == [1, 2, 3, 4, 5, 6]
    await conversation.say(record)
    head = await record.session_head(tenant, session_id)
    assert (head.turn, head.message_count, head.event_count, head.digest) == (3, 8, 12, "digest 2")


async def test_many_turns_travel_in_groups(record, conversation, rows, monkeypatch) -> None:
    monkeypatch.setattr(bringing, "GROUP_ROWS_MAX", 7)
    whole = whole_of(conversation, rows, turns=50)
    await record.bring_session(whole)
    assert await record.turns(conversation.tenant, conversation.session_id, limit=100) == whole.turns


async def test_what_is_there_stays_unless_it_is_to_be_replaced(record, conversation, rows) -> None:
    await conversation.create(record, key="a")
    await conversation.say(record)
    tenant, session_id = conversation.tenant, conversation.session_id
    before = await record.turns(tenant, session_id)
    again = rows.Conversation(session_id=session_id)
    whole = whole_of(again, rows, turns=3, key="a")
    with pytest.raises(SessionTaken):
        await record.bring_session(whole)
    assert await record.turns(tenant, session_id) == before
    await record.bring_session(whole, replaces=True)
    assert await record.turns(tenant, session_id) == whole.turns
    await again.say(record)  # the writer knows where the session stands now


async def test_a_key_of_another_session_is_not_taken(record, conversation, rows) -> None:
    await conversation.create(record, key="a")
    other = rows.Conversation()
    with pytest.raises(KeyTaken):
        await record.bring_session(whole_of(other, rows, key="a"))
    assert await record.session_start(other.tenant, other.session_id) is None
    elsewhere = rows.Conversation(tenant="school", session_id=conversation.session_id)
    await record.bring_session(whole_of(elsewhere, rows, key="a"))
    assert len(await record.turns(conversation.tenant, conversation.session_id)) == 1


async def test_a_users_variable_that_is_set_stays(record, conversation, rows) -> None:
    set_now = UserVariableRow("clinic", "ana", "visits", 7, "number", "user", rows.MOMENT)
    await record.set_user_variables([set_now], 10)
    await record.bring_session(whole_of(conversation, rows))
    assert await record.user_variables("clinic", "ana") == [set_now]


async def test_numbers_with_gaps_are_refused_and_leave_nothing(record: Record, conversation, rows) -> None:
    whole = whole_of(conversation, rows)
    for turns in (whole.turns[1:], [whole.turns[0], whole.turns[2]], []):
        with pytest.raises(RowRefused):
            await record.bring_session(msgspec.structs.replace(whole, turns=turns))
    stranger = [msgspec.structs.replace(whole.turns[0], tenant="school")]
    with pytest.raises(RowRefused):
        await record.bring_session(msgspec.structs.replace(whole, turns=stranger))
    assert await record.session_start(conversation.tenant, conversation.session_id) is None
    assert await record.script_text(conversation.tenant, "digest 2") is None
