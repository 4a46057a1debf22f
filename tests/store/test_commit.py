"""A turn is committed against the turn it was computed from, and a bad one fails alone."""

import asyncio
import threading
from collections.abc import Awaitable

import msgspec
import pytest

from store import commit
from store.commit import Ledger, Proposal
from store.database import Database
from store.errors import KeyTaken, RowRefused, StoreBusy, StoreUnavailable, TurnConflict
from store.readers import Readers
from store.record import Record
from store.rows import NO_TURN, EventRow, TurnRow
from store.writer import QUEUE_MAX, Cursor, Writer


async def outcomes_of(commits: list[Awaitable[None]]) -> list[BaseException | None]:
    return await asyncio.gather(*commits, return_exceptions=True)


async def test_of_fifty_turns_from_one_turn_exactly_one_wins(record, conversation) -> None:
    await conversation.create(record)
    rival = conversation.next_turn()
    outcomes = await outcomes_of([record.commit(rival, 0) for _ in range(50)])
    assert outcomes.count(None) == 1
    conflicts = [outcome for outcome in outcomes if isinstance(outcome, TurnConflict)]
    assert len(conflicts) == 49
    assert {(conflict.expected, conflict.actual) for conflict in conflicts} == {(0, 1)}
    assert (await record.session_head("clinic", conversation.session_id)).turn == 1


async def test_two_turns_of_one_session_in_one_group_follow_each_other(record, conversation) -> None:
    first, second, third = conversation.next_turn(), conversation.next_turn(), conversation.next_turn()
    await asyncio.gather(
        record.commit(first, NO_TURN, conversation.session()), record.commit(second, 0), record.commit(third, 1)
    )
    assert (await record.session_head("clinic", conversation.session_id)).turn == 2


async def test_a_stale_turn_is_refused_after_a_restart_too(tmp_path, conversation) -> None:
    record = Record.open(tmp_path)
    await conversation.create(record)
    await conversation.say(record)
    await record.close()
    record = Record.open(tmp_path)
    conversation.turns = 1
    with pytest.raises(TurnConflict):
        await conversation.say(record)
    await conversation.say(record)
    await record.close()


BAD_STATES = {"not json": b"{", "two documents": b"{} {}"}


@pytest.mark.parametrize("state", BAD_STATES.values(), ids=BAD_STATES)
async def test_a_turn_the_database_refuses_fails_alone(record, rows, state) -> None:
    conversations = [rows.Conversation() for _ in range(5)]
    for conversation in conversations:
        await conversation.create(record)
    turns = [conversation.next_turn() for conversation in conversations]
    turns[2] = msgspec.structs.replace(turns[2], state=msgspec.Raw(state))
    outcomes = await outcomes_of([record.commit(turn, 0) for turn in turns])
    assert isinstance(outcomes[2], RowRefused)
    assert outcomes[:2] + outcomes[3:] == [None] * 4
    heads = [await record.session_head("clinic", conversation.session_id) for conversation in conversations]
    assert [head.turn for head in heads] == [1, 1, 0, 1, 1]
    assert record.ready() is None
    conversations[2].turns = 1
    await conversations[2].say(record)


async def test_after_a_bad_turn_its_successor_in_the_group_is_stale(record, conversation) -> None:
    await conversation.create(record)
    bad = msgspec.structs.replace(conversation.next_turn(), state=msgspec.Raw(b"{"))
    outcomes = await outcomes_of([record.commit(bad, 0), record.commit(conversation.next_turn(), 1)])
    assert [type(outcome) for outcome in outcomes] == [RowRefused, TurnConflict]


@pytest.mark.parametrize("text", ["\ud800", object()], ids=["surrogate", "object"])
async def test_what_json_cannot_hold_is_refused(record, conversation, rows, text) -> None:
    await conversation.create(record)
    with pytest.raises(RowRefused):
        await conversation.say(record, variables=[rows.write_of("x", text)])


async def test_a_gap_in_the_numbers_is_refused(record, conversation) -> None:
    await conversation.create(record)
    gap = msgspec.structs.replace(conversation.next_turn(), events=[EventRow(5, "wait", {})])
    with pytest.raises(RowRefused, match="event 5 of turn 1 should be number 4"):
        await record.commit(gap, 0)


@pytest.mark.parametrize(
    "session_id", ["", "not a uuid", "../../x", "6F1C3A6E-0000-4000-8000-000000000001", "x" * 5_000]
)
async def test_a_session_id_is_a_uuid_in_its_usual_form(record, rows, session_id) -> None:
    with pytest.raises(RowRefused):
        await rows.Conversation(session_id=session_id or "-").create(record)
    assert await record.session_head("clinic", session_id) is None


async def test_a_creation_brings_its_session_and_no_other_turn_does(record, conversation) -> None:
    first, second = conversation.next_turn(), conversation.next_turn()
    with pytest.raises(RowRefused):
        await record.commit(first, NO_TURN)
    with pytest.raises(RowRefused):
        await record.commit(second, 0, conversation.session())
    with pytest.raises(RowRefused):
        await record.commit(second, 4)


@pytest.mark.parametrize("field", ["key", "idempotency_key"])
async def test_a_key_is_one_sessions_in_its_tenant(record, rows, field) -> None:
    rivals = [rows.Conversation() for _ in range(5)]
    outcomes = await outcomes_of([rival.create(record, **{field: "telegram:1"}) for rival in rivals])
    winners = [rival for rival, outcome in zip(rivals, outcomes, strict=True) if not isinstance(outcome, KeyTaken)]
    assert len(winners) == 1
    with pytest.raises(KeyTaken) as taken:
        await rows.Conversation().create(record, **{field: "telegram:1"})
    assert (taken.value.field, taken.value.session_id) == (field, winners[0].session_id)
    await rows.Conversation(tenant="school").create(record, **{field: "telegram:1"})


async def test_a_session_is_created_once(record, conversation) -> None:
    await conversation.create(record)
    conversation.turns = 0
    with pytest.raises(TurnConflict):
        await conversation.create(record)


async def test_a_cancelled_caller_does_not_stop_its_group(record, rows) -> None:
    conversations = [rows.Conversation() for _ in range(10)]
    tasks = [asyncio.ensure_future(conversation.create(record)) for conversation in conversations]
    await asyncio.sleep(0)
    tasks[4].cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(outcomes[4], asyncio.CancelledError)
    assert not any(isinstance(outcome, Exception) for outcome in outcomes)
    await conversations[4].say(record)


async def test_a_full_queue_says_so_and_loses_nothing(tmp_path, rows) -> None:
    database = Database.open(tmp_path)
    writer = Writer(database)
    record = Record(database, writer, Readers(database))
    begun, disk_answers = threading.Event(), threading.Event()

    def hang(_: Cursor) -> None:
        begun.set()
        disk_answers.wait(60)

    hanging = asyncio.create_task(writer.run(hang))
    await asyncio.to_thread(begun.wait, 60)
    conversations = [rows.Conversation() for _ in range(QUEUE_MAX + 3)]
    writes = [asyncio.create_task(one.create(record)) for one in conversations]
    await asyncio.wait(writes[-3:], timeout=60)
    disk_answers.set()
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    await hanging
    assert {type(outcome) for outcome in outcomes[:QUEUE_MAX]} == {TurnRow}
    assert [type(outcome) for outcome in outcomes[QUEUE_MAX:]] == [StoreBusy] * 3
    for one in conversations[:2] + conversations[-4:]:
        head = await record.session_head("clinic", one.session_id)
        assert (head is None) == (one in conversations[-3:])
    await record.close()


async def test_a_closed_record_takes_nothing(tmp_path, conversation) -> None:
    record = Record.open(tmp_path)
    await record.close()
    with pytest.raises(StoreUnavailable):
        await conversation.create(record)


async def test_global_variables_follow_the_turns(record, rows) -> None:
    first, second = rows.Conversation(), rows.Conversation()
    await asyncio.gather(first.create(record), second.create(record))
    await first.say(record, [rows.write_of("name", "Ana", scope="global"), rows.write_of("mood", "low")])
    await second.say(
        record, [rows.write_of("name", "Anna", scope="global"), rows.write_of("name", "Annette", scope="global")]
    )
    await second.say(record, [rows.write_of("age", {"years": 30}, scope="global")])
    kept = await record.user_variables("clinic", "ana")
    assert [(row.name, row.value) for row in kept] == [("age", {"years": 30}), ("name", "Annette")]
    await first.say(record, [rows.write_of("age", None, scope="global")])
    assert [row.name for row in await record.user_variables("clinic", "ana")] == ["name"]


async def test_the_latest_numbers_of_few_sessions_are_in_memory(tmp_path, rows, monkeypatch) -> None:
    """With room for three: of eight sessions the last three; a turn of any other is checked against the tables."""
    monkeypatch.setattr(commit, "HEADS_MAX", 3)
    database = Database.open(tmp_path)
    ledger = Ledger(database.cursor())
    talks = [rows.Conversation() for _ in range(8)]
    starts = [Proposal(talk.next_turn(), NO_TURN, talk.session()) for talk in talks]
    assert ledger.commit(starts[:6]) == [None] * 6  # one group may be larger than the bound
    assert len(ledger._heads) == 3
    assert ledger.commit(starts[6:]) == [None] * 2
    assert ledger.commit([Proposal(talks[5].next_turn(), 0, None)]) == [None]
    assert [session_id for _, session_id in ledger._heads] == [talks[n].session_id for n in (6, 7, 5)]
    for talk in talks[:5]:
        assert ledger.commit([Proposal(talk.next_turn(), 0, None)]) == [None]
        talk.turns = 1
        (refused,) = ledger.commit([Proposal(talk.next_turn(), 0, None)])
        assert isinstance(refused, TurnConflict)
        assert len(ledger._heads) == 3
    assert [session_id for _, session_id in ledger._heads] == [talk.session_id for talk in talks[2:5]]
    database.close()


async def test_a_head_used_again_stays_in_memory(tmp_path, rows, monkeypatch) -> None:
    monkeypatch.setattr(commit, "HEADS_MAX", 2)
    database = Database.open(tmp_path)
    ledger = Ledger(database.cursor())
    one, two, three = (rows.Conversation() for _ in range(3))
    for talk in (one, two):
        ledger.commit([Proposal(talk.next_turn(), NO_TURN, talk.session())])
    ledger.commit([Proposal(one.next_turn(), 0, None)])
    ledger.commit([Proposal(three.next_turn(), NO_TURN, three.session())])
    assert [session_id for _, session_id in ledger._heads] == [one.session_id, three.session_id]
    database.close()
