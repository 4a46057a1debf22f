"""A turn is committed against the turn it was computed from, and a bad one fails alone."""

import asyncio
import threading
from collections.abc import Awaitable
from copy import copy
from pathlib import Path

import msgspec
import pytest
from cachetools import LRUCache

from store.duckdb import committer
from store.duckdb.committer import TurnCommitter
from store.duckdb.connection import DuckDBConnection
from store.duckdb.database import Database
from store.duckdb.engine import DuckDBEngine
from store.duckdb.writer import Writer
from store.duckdb_store import DuckDBStore
from store.interface.admission import Head, ProposedTurn
from store.interface.errors import KeyTaken, RowRefused, StoreBusy, StoreUnavailable, TurnConflict
from store.interface.rows import NO_TURN, EventRow, TurnRow
from store.open_store import open_store
from store.sql.writing_thread import QUEUE_MAX
from store.store import Store
from tests.support.store_rows import Conversation, write_of


async def outcomes_of(commits: list[Awaitable[None]]) -> list[BaseException | None]:
    return await asyncio.gather(*commits, return_exceptions=True)


@pytest.mark.gate
async def test_of_fifty_turns_from_one_turn_exactly_one_wins(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    rival = conversation.next_turn()
    outcomes = await outcomes_of([store.turns.commit(rival, 0) for _ in range(50)])
    assert outcomes.count(None) == 1
    conflicts = [outcome for outcome in outcomes if isinstance(outcome, TurnConflict)]
    assert len(conflicts) == 49
    assert {(conflict.expected, conflict.actual) for conflict in conflicts} == {(0, 1)}
    assert (await store.sessions.head("clinic", conversation.session_id)).turn == 1


async def test_two_turns_of_one_session_in_one_group_follow_each_other(
    store: Store, conversation: Conversation
) -> None:
    first, second, third = conversation.next_turn(), conversation.next_turn(), conversation.next_turn()
    await asyncio.gather(
        store.turns.commit(first, NO_TURN, conversation.session()),
        store.turns.commit(second, 0),
        store.turns.commit(third, 1),
    )
    assert (await store.sessions.head("clinic", conversation.session_id)).turn == 2


async def test_a_stale_turn_is_refused_after_a_restart_too(tmp_path: Path, conversation: Conversation) -> None:
    store = open_store(tmp_path)
    await conversation.create(store)
    await conversation.say(store)
    await store.close()
    store = open_store(tmp_path)
    conversation.turns = 1
    with pytest.raises(TurnConflict):
        await conversation.say(store)
    await conversation.say(store)
    await store.close()


async def test_a_session_is_not_begun_twice_after_a_restart_too(tmp_path: Path, conversation: Conversation) -> None:
    other, fresh = Conversation("bank", session_id=conversation.session_id), Conversation()
    store = open_store(tmp_path)
    await conversation.create(store)
    await conversation.say(store)
    await store.close()
    store = open_store(tmp_path)
    conversation.turns = 0
    again, *begun = await outcomes_of([conversation.create(store), other.create(store), fresh.create(store, "k")])
    assert (type(again), again.actual) == (TurnConflict, 1)
    assert not any(isinstance(each, BaseException) for each in begun)
    assert (await store.sessions.head("clinic", conversation.session_id)).turn == 1
    await store.close()


BAD_STATES = {"not json": b"{", "two documents": b"{} {}"}


@pytest.mark.parametrize("state", BAD_STATES.values(), ids=BAD_STATES)
async def test_a_turn_the_database_refuses_fails_alone(store: Store, state) -> None:
    conversations = [Conversation() for _ in range(5)]
    for conversation in conversations:
        await conversation.create(store)
    turns = [conversation.next_turn() for conversation in conversations]
    turns[2] = msgspec.structs.replace(turns[2], state=msgspec.Raw(state))
    outcomes = await outcomes_of([store.turns.commit(turn, 0) for turn in turns])
    assert isinstance(outcomes[2], RowRefused)
    assert outcomes[:2] + outcomes[3:] == [None] * 4
    heads = [await store.sessions.head("clinic", conversation.session_id) for conversation in conversations]
    assert [head.turn for head in heads] == [1, 1, 0, 1, 1]
    assert store.ready() is None
    conversations[2].turns = 1
    await conversations[2].say(store)


async def test_after_a_bad_turn_its_successor_in_the_group_is_stale(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    bad = msgspec.structs.replace(conversation.next_turn(), state=msgspec.Raw(b"{"))
    outcomes = await outcomes_of([store.turns.commit(bad, 0), store.turns.commit(conversation.next_turn(), 1)])
    assert [type(outcome) for outcome in outcomes] == [RowRefused, TurnConflict]


@pytest.mark.parametrize("text", ["\ud800", object()], ids=["surrogate", "object"])
async def test_what_json_cannot_hold_is_refused(store: Store, conversation: Conversation, text) -> None:
    await conversation.create(store)
    with pytest.raises(RowRefused):
        await conversation.say(store, variables=[write_of("x", text)])


async def test_a_gap_in_the_numbers_is_refused(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    gap = msgspec.structs.replace(conversation.next_turn(), events=[EventRow(5, "wait", {})])
    with pytest.raises(RowRefused, match="event 5 of turn 1 should be number 4"):
        await store.turns.commit(gap, 0)


@pytest.mark.parametrize(
    "session_id", ["", "not a uuid", "../../x", "6F1C3A6E-0000-4000-8000-000000000001", "x" * 5_000]
)
async def test_a_session_id_is_a_uuid_in_its_usual_form(store: Store, session_id) -> None:
    with pytest.raises(RowRefused):
        await Conversation(session_id=session_id or "-").create(store)
    with pytest.raises(RowRefused, match="not a UUID"):
        await store.turns.note_call(Conversation(session_id=session_id or "-").call("a"))
    assert await store.sessions.head("clinic", session_id) is None


async def test_a_creation_brings_its_session_and_no_other_turn_does(store: Store, conversation: Conversation) -> None:
    first, second = conversation.next_turn(), conversation.next_turn()
    with pytest.raises(RowRefused):
        await store.turns.commit(first, NO_TURN)
    with pytest.raises(RowRefused):
        await store.turns.commit(second, 0, conversation.session())
    with pytest.raises(RowRefused):
        await store.turns.commit(second, 4)


@pytest.mark.parametrize("field", ["key", "idempotency_key"])
async def test_a_key_is_one_sessions_in_its_tenant(store: Store, field) -> None:
    rivals = [Conversation() for _ in range(5)]
    outcomes = await outcomes_of([rival.create(store, **{field: "telegram:1"}) for rival in rivals])
    winners = [rival for rival, outcome in zip(rivals, outcomes, strict=True) if not isinstance(outcome, KeyTaken)]
    assert len(winners) == 1
    with pytest.raises(KeyTaken) as taken:
        await Conversation().create(store, **{field: "telegram:1"})
    assert (taken.value.field, taken.value.session_id) == (field, winners[0].session_id)
    await Conversation(tenant="school").create(store, **{field: "telegram:1"})


async def test_a_session_is_created_once(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    conversation.turns = 0
    with pytest.raises(TurnConflict):
        await conversation.create(store)


async def test_a_cancelled_caller_does_not_stop_its_group(store: Store) -> None:
    conversations = [Conversation() for _ in range(10)]
    tasks = [asyncio.ensure_future(conversation.create(store)) for conversation in conversations]
    await asyncio.sleep(0)
    tasks[4].cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(outcomes[4], asyncio.CancelledError)
    assert not any(isinstance(outcome, Exception) for outcome in outcomes)
    await conversations[4].say(store)


async def test_a_full_queue_says_so_and_loses_nothing(tmp_path: Path) -> None:
    database = Database.open(tmp_path)
    writer = Writer(database)
    store = DuckDBStore(DuckDBEngine(database, writer))
    begun, disk_answers = threading.Event(), threading.Event()

    def hang(_: DuckDBConnection) -> None:
        begun.set()
        disk_answers.wait(60)

    hanging = asyncio.create_task(writer.run(hang))
    await asyncio.to_thread(begun.wait, 60)
    conversations = [Conversation() for _ in range(QUEUE_MAX + 3)]
    writes = [asyncio.create_task(one.create(store)) for one in conversations]
    await asyncio.wait(writes[-3:], timeout=60)
    disk_answers.set()
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    await hanging
    assert {type(outcome) for outcome in outcomes[:QUEUE_MAX]} == {TurnRow}
    assert [type(outcome) for outcome in outcomes[QUEUE_MAX:]] == [StoreBusy] * 3
    for one in conversations[:2] + conversations[-4:]:
        head = await store.sessions.head("clinic", one.session_id)
        assert (head is None) == (one in conversations[-3:])
    await store.close()


async def test_a_closed_record_takes_nothing(tmp_path: Path, conversation: Conversation) -> None:
    store = open_store(tmp_path)
    await store.close()
    with pytest.raises(StoreUnavailable):
        await conversation.create(store)


async def test_global_variables_follow_the_turns(store: Store) -> None:
    first, second = Conversation(), Conversation()
    await asyncio.gather(first.create(store), second.create(store))
    await first.say(store, [write_of("name", "Ana", scope="global"), write_of("mood", "low")])
    await second.say(store, [write_of("name", "Anna", scope="global"), write_of("name", "Annette", scope="global")])
    await second.say(store, [write_of("age", {"years": 30}, scope="global")])
    retained = await store.sessions.user_variables("clinic", "ana")
    assert [(row.name, row.value) for row in retained] == [("age", {"years": 30}), ("name", "Annette")]
    await first.say(store, [write_of("age", None, scope="global")])
    assert [row.name for row in await store.sessions.user_variables("clinic", "ana")] == ["name"]


def in_order(heads: LRUCache[tuple[str, str], Head]) -> list[str]:
    """Return the ids of the sessions whose heads are cached, the least recently used first."""
    heads = copy(heads)
    return [heads.popitem()[0][1] for _ in range(len(heads))]


async def test_the_latest_numbers_of_few_sessions_are_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for three: of eight sessions the last three; a turn of any other is checked against the tables."""
    monkeypatch.setattr(committer, "HEADS_MAX", 3)
    database = Database.open(tmp_path)
    ledger = TurnCommitter(DuckDBConnection(database.cursor()))
    talks = [Conversation() for _ in range(8)]
    starts = [ProposedTurn(talk.next_turn(), NO_TURN, talk.session()) for talk in talks]
    assert ledger.commit(starts[:6], 1)[0] == [None] * 6  # one group may be larger than the bound
    assert len(ledger._heads) == 3
    assert ledger.commit(starts[6:], 1)[0] == [None] * 2
    assert ledger.commit([ProposedTurn(talks[5].next_turn(), 0, None)], 1)[0] == [None]
    assert in_order(ledger._heads) == [talks[n].session_id for n in (6, 7, 5)]
    for talk in talks[:5]:
        assert ledger.commit([ProposedTurn(talk.next_turn(), 0, None)], 1)[0] == [None]
        talk.turns = 1
        (refused,), committed = ledger.commit([ProposedTurn(talk.next_turn(), 0, None)], 1)
        assert (type(refused), committed) == (TurnConflict, [])
        assert len(ledger._heads) == 3
    assert in_order(ledger._heads) == [talk.session_id for talk in talks[2:5]]
    database.close()


async def test_a_head_used_again_stays_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "HEADS_MAX", 2)
    database = Database.open(tmp_path)
    ledger = TurnCommitter(DuckDBConnection(database.cursor()))
    one, two, three = (Conversation() for _ in range(3))
    for talk in (one, two):
        ledger.commit([ProposedTurn(talk.next_turn(), NO_TURN, talk.session())], 1)
    ledger.commit([ProposedTurn(one.next_turn(), 0, None)], 1)
    ledger.commit([ProposedTurn(three.next_turn(), NO_TURN, three.session())], 1)
    assert in_order(ledger._heads) == [one.session_id, three.session_id]
    database.close()
