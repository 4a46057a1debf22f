"""Forks are copied whole or not at all; keys and metadata change, and stay unique."""

import asyncio
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from store.analytics.query import query
from store.interface.errors import KeyTaken, RowRefused
from store.interface.list_rows import SearchFilter
from store.interface.private_files import FILE_NAME
from store.interface.rows import ForkRow
from store.open_store import open_store
from store.store import Store
from tests.support.store_rows import MOMENT, Conversation


def fork_of(conversation, turn: int, **changes: object) -> ForkRow:
    fields: dict[str, object] = {
        "tenant": conversation.tenant,
        "from_session_id": conversation.session_id,
        "turn": turn,
        "session_id": Conversation().session_id,
        "key": None,
        "metadata": {"forkedFrom": {"sessionId": conversation.session_id, "turn": turn}},
        "created_at": MOMENT,
        "idempotency_key": None,
        "fingerprint": None,
    }
    return ForkRow(**fields | changes)


async def test_a_fork_has_the_turns_and_moves_up_to_its_turn(tmp_path: Path) -> None:
    store, conversation = open_store(tmp_path), Conversation()
    await conversation.create(store, key="telegram:42", idempotency_key="k")
    await conversation.migrate(store)
    await conversation.say(store)
    await conversation.migrate(store, "digest 3")
    fork = fork_of(conversation, 2, key="copy", idempotency_key="f", fingerprint="x")
    await store.sessions.fork(fork)
    head = await store.sessions.head("clinic", fork.session_id)
    assert (head.turn, head.digest, head.key, head.metadata) == (2, "digest 2", "copy", fork.metadata)
    assert (head.message_count, head.event_count, head.idempotency_key) == (6, 9, "f")
    assert [move.turn for move in await store.sessions.migrations("clinic", fork.session_id)] == [1]
    for number in range(3):
        copied = await store.turns.get("clinic", fork.session_id, number)
        original = await store.turns.get("clinic", conversation.session_id, number)
        assert (copied.messages, copied.events, copied.state) == (original.messages, original.events, original.state)
    assert (await store.turns.get("clinic", fork.session_id, 0)).fingerprint == "x"
    assert (await store.sessions.head("clinic", conversation.session_id)).turn == 3
    copy = Conversation(session_id=fork.session_id)
    copy.turns = 3
    await copy.say(store)
    await store.close()
    found = query(
        tmp_path / FILE_NAME, "SELECT digest, count(*) FROM turn_scripts GROUP BY digest ORDER BY digest"
    ).rows
    assert found == [("digest", 2), ("digest 2", 5), ("digest 3", 1)]


@pytest.mark.gate
@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"turn": 2}, RowRefused),
        ({"from_session_id": "none"}, RowRefused),
        ({"tenant": "other"}, RowRefused),
        ({"session_id": "none"}, RowRefused),
        ({"metadata": {"a": object()}}, RowRefused),
        ({"key": "taken"}, KeyTaken),
        ({"idempotency_key": "k"}, KeyTaken),
    ],
)
async def test_a_fork_that_is_refused_leaves_nothing(tmp_path: Path, changes, refused) -> None:
    store, conversation = open_store(tmp_path), Conversation()
    await conversation.create(store, key="taken", idempotency_key="k")
    await conversation.say(store)
    with pytest.raises(refused):
        await store.sessions.fork(msgspec.structs.replace(fork_of(conversation, 1), **changes))
    await conversation.say(store)  # the writer goes on
    await store.close()
    for table, count in (("session_starts", 1), ("turns", 3), ("session_migrations", 0)):
        assert query(tmp_path / FILE_NAME, f"SELECT count(*) FROM {table}").rows == [(count,)]


async def test_of_two_sessions_that_want_a_key_one_gets_it(store: Store) -> None:
    one, two = Conversation(), Conversation()
    await asyncio.gather(one.create(store), two.create(store))
    wanted = [store.sessions.label(each.session(), "k", {"n": 1}) for each in (one, two)]
    outcomes = await asyncio.gather(*wanted, store.sessions.fork(fork_of(one, 0, key="k")), return_exceptions=True)
    assert Counter(type(outcome) for outcome in outcomes)[KeyTaken] == 2
    winner = (await store.sessions.by_key("clinic", "k")).session_id
    for loser in {one.session_id, two.session_id} - {winner}:
        assert (await store.sessions.start("clinic", loser)).metadata == {}


async def test_second_of_two_concurrent_metadata_changes_is_refused(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    before = conversation.session()
    changes = [store.sessions.label(before, "k", {"n": n}) for n in range(2)]
    assert sorted(await asyncio.gather(*changes)) == [False, True]
    now = await store.sessions.start("clinic", conversation.session_id)
    assert await store.sessions.label(now, "k", {"n": 2})
    assert (await store.sessions.head("clinic", conversation.session_id)).metadata == {"n": 2}
    stranger = msgspec.structs.replace(now, tenant="other", metadata={"n": 2})
    assert not await store.sessions.label(stranger, None, {})
    assert (await store.sessions.head("clinic", conversation.session_id)).metadata == {"n": 2}


async def test_the_place_of_a_message_of_the_users(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    for _ in range(3):
        await conversation.say(store)
    for index, turn in ((0, 0), (2, 2)):
        found = await store.turns.user_message("clinic", conversation.session_id, index)
        assert (found.count, found.turn, found.is_first) == (4, turn, True)
    without = [(3, 6)]
    found = await store.turns.user_message("clinic", conversation.session_id, 1, without=without)
    assert (found.count, found.turn) == (2, 3)
    missing = await store.turns.user_message("clinic", conversation.session_id, 2, without=without)
    assert (missing.count, missing.turn, missing.is_first) == (2, None, None)
    assert (await store.turns.user_message("other", conversation.session_id, 0)).count == 0


async def test_where_each_turn_left_a_session(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    for _ in range(4):
        await conversation.say(store)
    found = await store.turns.snapshots("clinic", conversation.session_id, after_turn=1, limit=2)
    assert [(row.turn, row.message_count, row.event_count, row.action_id) for row in found] == [
        (2, 6, 9, "ask"),
        (3, 8, 12, "ask"),
    ]
    assert await store.turns.snapshots("other", conversation.session_id) == []


async def test_metadata_with_u0000_does_not_affect_lists_and_searches(store: Store) -> None:
    labelled = Conversation()
    await labelled.create(store)
    before = await store.sessions.start("clinic", labelled.session_id)
    assert before is not None
    await store.sessions.label(before, None, {"title": "a\0b"})
    await store.sessions.fork(fork_of(labelled, 0, metadata={"title": "a\0b"}))
    listed = (await store.sessions.page("clinic")).rows
    assert {session.title.replace("\ufffd", "\0") for session in listed} == {"a\0b"}
    found = (await store.turns.search("clinic", SearchFilter(words=("question",)))).rows
    assert len(found) == len(listed) == 2
