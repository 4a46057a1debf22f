"""Sessions are listed by activity or creation, filtered, with title and a few words, in pages."""

import itertools
from datetime import datetime, timedelta
from random import Random
from uuid import uuid4

import msgspec
import pytest

from store.interface.errors import CursorInvalid
from store.interface.list_rows import ListedSession, Order, SessionFilter
from store.interface.rows import NO_TURN, ForkRow, TurnRow
from store.store import Store
from tests.support.effort import repeats
from tests.support.store_rows import MOMENT, Conversation, failure_of, script_of, text_of


@pytest.fixture
def talk(store: Store):
    """Begin a session, and goes on with one: a turn at a minute, with what is said in it as (role, content)."""

    async def begin(minute=0, said=(), **fields):
        one = Conversation()
        one.count = 0  # type: ignore[attr-defined]
        one.row = msgspec.structs.replace(  # type: ignore[attr-defined]
            one.session(created_at=MOMENT + timedelta(minutes=minute)),
            metadata=fields.pop("metadata", {}),
            **fields,
        )
        await go_on(one, minute, said)
        return one

    async def go_on(one, minute, said=(), state="told", **fields):
        turn = one.next_turn(state=state)
        messages = [
            msgspec.structs.replace(turn.messages[0], seq=one.count + number, role=role, content=content)
            for number, (role, content) in enumerate(said, start=1)
        ]
        one.count += len(messages)
        moment = MOMENT + timedelta(minutes=minute)
        turn = msgspec.structs.replace(turn, messages=messages, finished_at=moment, **fields)
        session = one.row if turn.turn == 0 else None
        await store.turns.commit(turn, turn.turn - 1 if turn.turn else NO_TURN, session)

    begin.go_on = go_on  # type: ignore[attr-defined]
    return begin


async def ids(store, order="activity", limit=50, **which):
    page = await store.sessions.page("clinic", SessionFilter(**which), order=order, limit=limit)
    return [row.session_id for row in page.rows]


async def test_the_last_active_comes_first(store: Store, talk) -> None:
    first, second, third = [await talk(minute) for minute in (0, 1, 2)]
    await talk.go_on(first, 9)
    assert await ids(store) == [first.session_id, third.session_id, second.session_id]
    assert await ids(store, order="created") == [third.session_id, second.session_id, first.session_id]


async def test_pages_by_activity_have_each_session_that_rests(store: Store, talk) -> None:
    sessions = [await talk(minute) for minute in range(6)]
    page = await store.sessions.page("clinic", order="activity", limit=2)
    found = [row.session_id for row in page.rows]
    for minute, goes_on in ((10, sessions[0]), (11, sessions[5])):
        await talk.go_on(goes_on, minute, status="completed")
        await talk(minute)
        page = await store.sessions.page("clinic", order="activity", limit=2, cursor=page.next)
        found += [row.session_id for row in page.rows]
    assert found == [each.session_id for each in reversed(sessions[1:])]
    assert page.next is None
    assert len(await ids(store)) == 8


async def test_a_cursor_is_of_one_order(store: Store, talk) -> None:
    for minute in range(3):
        await talk(minute)
    for order, other in (("activity", "created"), ("created", "activity")):
        page = await store.sessions.page("clinic", order=order, limit=1)
        with pytest.raises(CursorInvalid):
            await store.sessions.page("clinic", order=other, cursor=page.next)


async def test_a_session_has_a_title_and_a_few_of_its_words(store: Store, talk) -> None:
    await store.scripts.save(script_of(uuid="named"), text_of())
    plain = await talk(5, [("assistant", "Welcome."), ("assistant", "Your name?")])
    await talk.go_on(plain, 6, [("user", "Ana"), ("assistant", "Hello, Ana!")])
    await talk.go_on(plain, 7)
    titled = await talk(4, [("assistant", 'He wrote "role":"user","content":"x"')], metadata={"title": " Mine "})
    named = await talk(3, script_uuid="named", metadata={"title": ""})
    long = await talk(2, [("user", "妈" * 1000)])
    found = (await store.sessions.page("clinic", order="activity")).rows
    assert [row.session_id for row in found] == [each.session_id for each in (plain, titled, named, long)]
    assert [(row.title, row.preview, row.last_message, row.message_count) for row in found[:3]] == [
        ("intake", "Ana", "Hello, Ana!", 4),
        ("Mine", 'He wrote "role":"user","content":"x"', 'He wrote "role":"user","content":"x"', 1),
        ("First visit", None, None, 0),
    ]
    assert found[3].preview == "妈" * 400


async def test_a_preview_is_looked_for_in_the_first_messages(store: Store, talk) -> None:
    one = await talk(0, [("assistant", f"a{number}") for number in range(150)])
    await talk.go_on(one, 1, [("assistant", f"b{number}") for number in range(60)] + [("user", "late")])
    (row,) = (await store.sessions.page("clinic")).rows
    assert (row.preview, row.last_message) == ("a0", "late")


async def test_a_message_without_words_is_no_preview(store: Store, talk) -> None:
    one = await talk(0, [("assistant", "Your name?"), ("user", " "), ("assistant", "Sorry?")])
    (row,) = (await store.sessions.page("clinic")).rows
    assert row.preview == "Your name?"
    await talk.go_on(one, 1, [("user", "Ana")])
    other = await talk(2, [("user", ""), ("user", "Ben")])
    found = {row.session_id: row.preview for row in (await store.sessions.page("clinic")).rows}
    assert found == {one.session_id: "Your name?", other.session_id: "Ben"}


async def test_what_was_taken_out_of_a_conversation_is_not_shown(store: Store, talk) -> None:
    one = await talk(0, [("assistant", "first")])
    await talk.go_on(one, 1, [("user", "withdrawn"), ("assistant", "as well")])
    await talk.go_on(one, 2, state={"gaps": [[2, 3]]})
    (row,) = (await store.sessions.page("clinic")).rows
    assert (row.preview, row.last_message) == ("first", "first")
    await talk.go_on(one, 3, [("user", "again")], state={"gaps": [[2, 3]]})
    (row,) = (await store.sessions.page("clinic")).rows
    assert (row.preview, row.last_message) == ("again", "again")
    await talk.go_on(one, 4, state={"gaps": [[1, 4]]})
    (row,) = (await store.sessions.page("clinic")).rows
    assert (row.preview, row.last_message) == (None, None)


async def test_every_filter_works(store: Store, talk) -> None:
    at = MOMENT
    one = await talk(0, key="telegram:1", metadata={"shop": "north", "n": 1, "a/b": "x", "$": "y"}, user_id="ana")
    two = await talk(10, key="telegram:2", metadata={"shop": "south"}, script_id="diary", script_version=3)
    await talk.go_on(one, 20, status="paused", execution_status="paused", state={"outcome": "reached"})
    await store.turns.save_failure(failure_of(two))
    first, second = [one.session_id], [two.session_id]
    for which, expected in (
        ({"user_id": "ana"}, [*first, *second]),
        ({"user_id": "ben"}, []),
        ({"status": "paused"}, first),
        ({"execution_status": "error"}, second),
        ({"execution_status": "waiting_input"}, []),
        ({"outcome": "reached"}, first),
        ({"outcome": "completed"}, []),
        ({"script": "diary"}, second),
        ({"script": "11111111-0000-4000-8000-000000000000"}, [*first, *second]),
        ({"script_version": 3}, second),
        ({"key": "telegram:1"}, first),
        ({"key_prefix": "telegram:"}, [*first, *second]),
        ({"key_prefix": "tele%"}, []),
        ({"metadata": (("shop", "north"),)}, first),
        ({"metadata": (("shop", "north"), ("n", "1"), ("a/b", "x"), ("$", "y"))}, first),
        ({"metadata": (("shop", "north"), ("n", "2"))}, []),
        ({"metadata": (("no", ""),)}, []),
        ({"created_after": at + timedelta(minutes=10)}, second),
        ({"created_before": at + timedelta(minutes=10)}, first),
        ({"active_after": at + timedelta(minutes=20)}, first),
        ({"active_before": at + timedelta(minutes=20)}, second),
    ):
        assert await ids(store, **which) == expected, which
        assert sorted(await ids(store, order="created", **which)) == sorted(expected), which


async def test_a_session_is_filtered_by_the_script_it_moved_to(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    await conversation.migrate(store)
    assert await ids(store, script_version=2) == [conversation.session_id]
    assert await ids(store, script_version=1) == []


@pytest.mark.gate
@pytest.mark.parametrize("seed", range(repeats(10)))
async def test_lists_are_right_whenever_they_are_read(store: Store, seed: int) -> None:
    """The clock is set back between turns, and sessions are deleted and copied."""
    random = Random(seed)
    talks: dict[str, list[TurnRow]] = {}
    created: dict[str, datetime] = {}
    for _ in range(20):
        each = Conversation(user_id=random.choice(["ana", "ben"]))
        created[each.session_id] = MOMENT + timedelta(minutes=random.randrange(60))
        session = each.session(created_at=created[each.session_id])
        talks[each.session_id] = []
        for number in range(random.randrange(1, 5)):
            moment = session.created_at + timedelta(minutes=random.randrange(-5, 60))
            turn = each.next_turn(status=random.choice(["active", "completed", "paused"]))
            turn = msgspec.structs.replace(turn, finished_at=moment)
            await store.turns.commit(turn, number - 1, session if number == 0 else None)
            talks[each.session_id].append(turn)
            if random.random() < 0.3:
                await all_pages(store, SessionFilter(status="active"), "activity")
        if random.random() < 0.2:
            last, at = random.randrange(each.turns), MOMENT + timedelta(minutes=90)
            copy = ForkRow("clinic", each.session_id, last, str(uuid4()), None, {}, at, None, None)
            await store.sessions.fork(copy)
            talks[copy.session_id] = talks[each.session_id][: copy.turn + 1]
            created[copy.session_id] = copy.created_at
        if random.random() < 0.2:
            gone = random.choice(list(talks))
            await store.maintenance.delete_session("clinic", gone)
            del talks[gone]

    for status, order in itertools.product(["active", "completed", "failed", None], ("activity", "created")):
        times = {
            session_id: max([created[session_id], *(turn.finished_at for turn in turns if order == "activity")])
            for session_id, turns in talks.items()
            if status in {None, turns[-1].status}
        }
        pages = await all_pages(store, SessionFilter(status=status), order)
        assert [row.session_id for row in pages] == sorted(times, key=lambda each: (times[each], each), reverse=True)
        for row in pages:
            head = await store.sessions.head("clinic", row.session_id)
            assert head is not None
            assert row.turn == head.turn == len(talks[row.session_id]) - 1


async def all_pages(store: Store, which: SessionFilter, order: Order) -> list[ListedSession]:
    """Return the sessions of all pages of three."""
    rows: list[ListedSession] = []
    cursor: str | None = None
    while True:
        page = await store.sessions.page("clinic", which, order=order, limit=3, cursor=cursor)
        rows += page.rows
        if page.next is None:
            return rows
        cursor = page.next
