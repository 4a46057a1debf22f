"""Calls of models: in the journal before and after they are made, settled with their turn, never doubled."""

import asyncio
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from store import schema
from store.analytics.query import query
from store.database import FILE_NAME, Database
from store.errors import CursorInvalid, RowRefused, TurnConflict
from store.insert import as_list, insert_statement
from store.record import Record
from store.rows import SpentRow

ALL = "SELECT call_id, outcome, used FROM llm_calls ORDER BY number, call_id"


def calls_of(folder: Path, sql: str = ALL) -> list[tuple[object, ...]]:
    return list(query(folder / FILE_NAME, sql).rows)


async def test_a_call_for_a_memory_has_one_row_which_becomes_what_came_of_it(record, rows, tmp_path) -> None:
    begun = rows.memory_call_of("clinic", "ana", "a")
    ended = msgspec.structs.replace(
        begun,
        outcome="done",
        ended_at=rows.MOMENT,
        endpoint_model="tiny-1",
        input_tokens=10,
        output_tokens=2,
        cost=0.5,
        attempts=2,
        failures=["503"],
        parameters={"temperature": 0.5},
    )
    for row in (begun, rows.memory_call_of("clinic", "ana", "b"), rows.memory_call_of("school", "ana", "a")):
        await record.memory.begin_call(row)
    await record.memory.end_call(ended)
    await record.memory.end_call(rows.memory_call_of("clinic", "ana", "unknown", outcome="done"))
    hour = timedelta(hours=1)
    assert await record.spent("clinic", rows.MOMENT, rows.MOMENT + hour) == SpentRow(2, 12, 0.5)
    assert await record.spent("clinic", rows.MOMENT - hour, rows.MOMENT) == SpentRow(0, 0, 0.0)
    assert await record.spent("clinic", rows.MOMENT, rows.MOMENT + hour, "ben") == SpentRow(0, 0, 0.0)
    await record.close()
    told = (
        "SELECT tenant, call_id, outcome, cost, failures->>0, session_id, reply, withheld FROM llm_calls ORDER BY ALL"
    )
    assert calls_of(tmp_path, told) == [
        ("clinic", "a", "done", 0.5, "503", None, None, True),
        ("clinic", "b", "in_doubt", None, None, None, None, True),
        ("school", "a", "in_doubt", None, None, None, None, True),
    ]


async def test_a_call_is_read_as_it_was_written_in_every_state(record, conversation) -> None:
    await conversation.create(record)
    begun = conversation.call("a")
    await record.note_call(begun)
    assert await record.unsettled_calls("clinic", conversation.session_id) == [begun]
    ended = await conversation.ask(record, "b", 2)
    assert await record.unsettled_calls("clinic", conversation.session_id) == [begun, ended]
    assert await record.unsettled_calls("school", conversation.session_id) == []
    await conversation.say(record, calls_used=("b",))
    assert await record.unsettled_calls("clinic", conversation.session_id) == []
    settled = (await record.calls("clinic", conversation.session_id)).rows
    assert settled == [msgspec.structs.replace(begun, used=False), msgspec.structs.replace(ended, used=True)]


async def test_a_turn_takes_its_calls_along_and_no_others(tmp_path, rows) -> None:
    record, one, other = Record.open(tmp_path), rows.Conversation(), rows.Conversation(user_id="ben")
    await asyncio.gather(one.create(record), other.create(record))
    await one.ask(record, "a", 1, outcome="failed", error="no answer")
    await one.ask(record, "b", 2)
    await one.ask(record, "c", 3)
    await record.note_call(one.call("d", 4))
    await other.ask(record, "z", 9)
    await one.say(record, calls_used=("b", "c"))
    await record.close()
    assert calls_of(tmp_path) == [
        ("a", "failed", False),
        ("b", "done", True),
        ("c", "done", True),
        ("d", "in_doubt", False),
        ("z", "done", None),
    ]
    assert calls_of(tmp_path, "SELECT call_id, user_id FROM call_journal GROUP BY ALL") == [("z", "ben")]
    assert calls_of(tmp_path, "SELECT sum(cost), sum(output_tokens) FROM llm_calls WHERE user_id = 'ana'") == [
        (0.75, 21)
    ]


async def test_calls_count_for_the_turn_that_settles_them(tmp_path, conversation) -> None:
    record = Record.open(tmp_path)
    await conversation.ask(record, "a", 1)  # of the first turn, which fails: it is kept without settling anything
    await conversation.create(record)
    assert [row.turn for row in await record.unsettled_calls("clinic", conversation.session_id)] == [0]
    await conversation.ask(record, "b", 2)
    await conversation.say(record, calls_used=("a", "b"))
    await record.close()
    assert calls_of(tmp_path, "SELECT call_id, turn, used FROM llm_calls ORDER BY number") == [
        ("a", 1, True),
        ("b", 1, True),
    ]


async def test_a_refused_turn_leaves_the_journal_as_it_was(record, conversation) -> None:
    await conversation.create(record)
    call = await conversation.ask(record, "a")
    stale = conversation.next_turn()
    with pytest.raises(TurnConflict):
        await record.commit(msgspec.structs.replace(stale, turn=6), 5, calls_used=("a",))
    with pytest.raises(RowRefused):
        bad = msgspec.structs.replace(stale, state=msgspec.Raw(b"{"))
        await record.commit(bad, 0, calls_used=("a",))
    assert await record.unsettled_calls("clinic", conversation.session_id) == [call]
    await record.commit(stale, 0, calls_used=("a",))
    assert await record.unsettled_calls("clinic", conversation.session_id) == []


async def test_the_words_of_a_call_that_were_withheld_are_not_settled(record, conversation) -> None:
    await conversation.create(record)
    reply = msgspec.Raw(b'{"text": "bad", "raw": "{bad}", "exit": false, "values": {"a": null}}')
    calls = [await conversation.ask(record, name, number, reply=reply) for number, name in enumerate("abc", 1)]
    await conversation.ask(record, "d", 4, outcome="failed", error="no answer", reply=msgspec.Raw(b"null"))
    unsettled = (await record.calls("clinic", calls[0].session_id)).rows
    assert [bytes(row.reply) for row in unsettled] == [b"null"] * 4  # nobody knows yet whether it is said
    await record.commit(conversation.next_turn(), 0, calls_used=("a", "b"), calls_withheld=("a",))
    settled = (await record.calls("clinic", calls[0].session_id)).rows
    wordless = {"text": "", "raw": "", "exit": False, "values": {"a": None}}
    assert [(row.withheld, msgspec.json.decode(row.reply)) for row in settled] == [
        (True, wordless),
        (False, {"text": "bad", "raw": "{bad}", "exit": False, "values": {"a": None}}),
        (True, wordless),  # it was not used
        (False, None),
    ]


async def test_what_calls_took_is_summed_by_tenant_user_and_time(record, rows) -> None:
    ana, ben, other = rows.Conversation(), rows.Conversation(user_id="ben"), rows.Conversation(tenant="school")
    for each in (ana, ben, other):
        await each.create(record)
    taken = {"input_tokens": 10, "output_tokens": 5, "cost": 0.5}
    await ana.ask(record, "a", 1, **taken)
    await ben.ask(record, "b", 1, **taken)
    await other.ask(record, "c", 1, **taken)
    await ana.say(record, calls_used=("a",))
    await ana.ask(record, "d", 2, **taken, outcome="failed", error="no answer")
    await record.note_call(ana.call("e", 3))
    since = rows.MOMENT - timedelta(hours=1)
    until = rows.MOMENT + timedelta(hours=1)
    assert await record.spent("clinic", since, until) == SpentRow(4, 45, 1.5)
    assert await record.spent("clinic", since, until, "ana") == SpentRow(3, 30, 1.0)
    assert await record.spent("clinic", until, until + timedelta(hours=1)) == SpentRow(0, 0, 0.0)


async def test_a_turn_without_calls_settles_nothing(record, conversation) -> None:
    await conversation.create(record)
    call = await conversation.ask(record, "a")
    await conversation.say(record)
    assert await record.unsettled_calls("clinic", conversation.session_id) == [call]


@pytest.mark.parametrize(
    "changes",
    [{"error": "\ud800"}, {"session_id": "none"}, {"reply": msgspec.Raw(b"{")}, {"round": 2**40}],
    ids=["surrogate", "no uuid", "no json", "too large"],
)
async def test_a_call_the_record_cannot_hold_is_refused_alone(record, rows, changes) -> None:
    conversations = [rows.Conversation() for _ in range(4)]
    calls = [each.call(f"c{number}") for number, each in enumerate(conversations)]
    calls[1] = msgspec.structs.replace(calls[1], **changes)
    writes = [record.note_call(call) for call in calls]
    outcomes = await asyncio.gather(*writes, conversations[0].create(record), return_exceptions=True)
    assert [isinstance(outcome, Exception) for outcome in outcomes] == [False, True, False, False, False]
    assert isinstance(outcomes[1], RowRefused)
    found = [await record.unsettled_calls("clinic", each.session_id) for each in conversations]
    assert [len(each) for each in found] == [1, 0, 1, 1]


async def test_64_sessions_with_three_calls_each_share_their_transactions(tmp_path, rows) -> None:
    record = Record.open(tmp_path)
    conversations = [rows.Conversation(user_id=f"u{number}") for number in range(64)]

    async def talk(conversation) -> None:
        await conversation.create(record)
        for turn in range(3):
            calls = [f"{conversation.user_id} {turn} {number}" for number in (1, 2, 3)]
            for number, call_id in enumerate(calls, 1):
                await conversation.ask(record, call_id, number)
            await conversation.say(record, calls_used=tuple(calls[:2]))

    await asyncio.gather(*map(talk, conversations))
    await record.close()
    once = "SELECT count(*), count(DISTINCT call_id), count(*) FILTER (used), count(DISTINCT turn) FROM llm_calls"
    assert calls_of(tmp_path, once) == [(64 * 9, 64 * 9, 64 * 6, 3)]
    assert calls_of(tmp_path, "SELECT count(*) FROM call_journal") == [(0,)]


async def test_calls_come_in_pages_whether_settled_or_not(record, rows, conversation) -> None:
    await conversation.create(record)
    other = rows.Conversation()
    await other.create(record)
    await other.ask(record, "theirs")
    for number in range(1, 5):
        await conversation.ask(record, f"a{number}", number)
    await conversation.say(record, calls_used=())
    for number in range(1, 4):
        await conversation.ask(record, f"b{number}", number)
    found, cursor = [], None
    while True:
        page = await record.calls("clinic", conversation.session_id, limit=3, cursor=cursor)
        found.append([row.call_id for row in page.rows])
        cursor = page.next
        if cursor is None:
            break
    assert found == [["a1", "a2", "a3"], ["a4", "b1", "b2"], ["b3"]]
    assert (await record.calls("clinic", "no-such")).rows == []
    with pytest.raises(CursorInvalid):
        await record.calls("clinic", conversation.session_id, cursor="rubbish")


def test_an_older_file_learns_of_calls(tmp_path, monkeypatch, rows) -> None:
    every, conversation = schema.known_migrations(), rows.Conversation()
    with monkeypatch.context() as patched:
        patched.setattr(schema, "known_migrations", lambda: every[:2])
        database = Database.open(tmp_path)
        cursor = database.cursor()
        start = msgspec.json.encode(conversation.session())
        cursor.execute(insert_statement(cursor, "session_starts"), [as_list([start])])
        turn = msgspec.json.decode(msgspec.json.encode(conversation.next_turn()))
        turn |= {"message_count": 2, "event_count": 3}
        cursor.execute(insert_statement(cursor, "turns"), [as_list([msgspec.json.encode(turn)])])
        cursor.close()
        database.close()

    async def go_on() -> None:
        record = Record.open(tmp_path)
        await conversation.ask(record, "a")
        await conversation.say(record, calls_used=("a",))
        await record.close()

    asyncio.run(go_on())
    assert calls_of(tmp_path, "SELECT call_id, turn, used FROM llm_calls") == [("a", 1, True)]
    assert calls_of(tmp_path, "SELECT max(turn) FROM turns") == [(1,)]


CALL = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from conftest import Conversation
from store.record import Record

async def talk(record, conversation):
    await conversation.create(record)
    for turn in range(100000):
        calls = [f"{conversation.session_id} {turn} {number}" for number in (1, 2)]
        for number, call_id in enumerate(calls, 1):
            await conversation.ask(record, call_id, number)
        await conversation.say(record, calls_used=tuple(calls))

async def main():
    record = Record.open(Path(sys.argv[1]))
    print("open", flush=True)
    await asyncio.gather(*(talk(record, Conversation()) for _ in range(8)))

asyncio.run(main())
"""


def test_a_process_killed_while_it_calls_has_every_call_once_and_with_its_turn(tmp_path, environment) -> None:
    for delay in (0.1, 0.25, 0.4):
        with subprocess.Popen(
            [sys.executable, "-c", CALL, str(tmp_path), str(Path(__file__).parent)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        ) as caller:
            assert caller.stdout is not None
            assert caller.stdout.readline() == "open\n"
            try:
                caller.wait(delay)
            except subprocess.TimeoutExpired:
                caller.send_signal(signal.SIGKILL)
    Database.open(tmp_path).close()
    assert calls_of(tmp_path, "SELECT count(*) - count(DISTINCT call_id) FROM llm_calls") == [(0,)]
    torn = """
        SELECT count(*) FROM (SELECT * FROM turns WHERE turn > 0) AS t
        FULL JOIN (SELECT session_id, turn, count(*) AS calls FROM settled_calls WHERE used GROUP BY ALL) AS c
            USING (session_id, turn)
        WHERE calls IS DISTINCT FROM 2 OR state IS NULL"""
    assert calls_of(tmp_path, torn) == [(0,)]
    ahead = "SELECT count(*) FROM call_journal AS j JOIN turns AS t USING (session_id, turn)"
    assert calls_of(tmp_path, ahead) == [(0,)]
    ((settled,),) = calls_of(tmp_path, "SELECT count(*) FROM settled_calls")
    assert settled > 10
