"""Calls of models: in the journal before and after they are made, settled with their turn, never doubled."""

import asyncio
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import duckdb
import msgspec
import pytest

from store.analytics.query import query
from store.duckdb import schema
from store.duckdb.database import Database
from store.duckdb.statements import Inserts
from store.interface.errors import CursorInvalid, RowRefused, TurnConflict
from store.interface.private_files import FILE_NAME
from store.interface.rows import SpentRow
from store.open_store import open_store
from store.store import Store
from store.verification.rules import RULES
from tests.support.store_rows import MOMENT, Conversation, answered, memory_call_of

ALL = "SELECT call_id, outcome, used FROM llm_calls ORDER BY number, call_id"


def calls_of(folder: Path, sql: str = ALL) -> list[tuple[object, ...]]:
    return list(query(folder / FILE_NAME, sql).rows)


@pytest.mark.database_file
async def test_call_for_a_memory_has_one_row_with_its_result(store: Store, tmp_path: Path) -> None:
    begun = memory_call_of("clinic", "ana", "a")
    ended = msgspec.structs.replace(
        begun,
        outcome="done",
        ended_at=MOMENT,
        endpoint_model="tiny-1",
        input_tokens=10,
        output_tokens=2,
        cost=0.5,
        attempts=2,
        failures=["503"],
        parameters={"temperature": 0.5},
    )
    for row in (begun, memory_call_of("clinic", "ana", "b"), memory_call_of("school", "ana", "a")):
        await store.memory.begin_call(row)
    await store.memory.end_call(ended)
    await store.memory.end_call(memory_call_of("clinic", "ana", "unknown", outcome="done"))
    hour = timedelta(hours=1)
    assert await store.turns.spent("clinic", MOMENT, MOMENT + hour) == SpentRow(2, 12, 0.5)
    assert await store.turns.spent("clinic", MOMENT - hour, MOMENT) == SpentRow(0, 0, 0.0)
    assert await store.turns.spent("clinic", MOMENT, MOMENT + hour, "ben") == SpentRow(0, 0, 0.0)
    await store.close()
    reported = (
        "SELECT tenant, call_id, outcome, cost, failures->>0, session_id, reply, withheld FROM llm_calls ORDER BY ALL"
    )
    assert calls_of(tmp_path, reported) == [
        ("clinic", "a", "done", 0.5, "503", None, None, True),
        ("clinic", "b", "in_doubt", None, None, None, None, True),
        ("school", "a", "in_doubt", None, None, None, None, True),
    ]


async def test_a_call_is_read_as_it_was_written_in_every_state(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    begun = conversation.call("a")
    await store.turns.note_call(begun)
    assert await store.turns.unsettled_calls("clinic", conversation.session_id) == [begun]
    ended = await conversation.ask(store, "b", 2)
    assert await store.turns.unsettled_calls("clinic", conversation.session_id) == [begun, ended]
    assert await store.turns.unsettled_calls("school", conversation.session_id) == []
    await conversation.say(store, calls_used=("b",))
    assert await store.turns.unsettled_calls("clinic", conversation.session_id) == []
    settled = (await store.turns.calls("clinic", conversation.session_id)).rows
    assert settled == [conversation.settled(begun, used=False), conversation.settled(ended, used=True)]


async def test_a_turn_takes_its_calls_along_and_no_others(tmp_path: Path) -> None:
    store, one, other = open_store(tmp_path), Conversation(), Conversation(user_id="ben")
    await asyncio.gather(one.create(store), other.create(store))
    await one.ask(store, "a", 1, outcome="failed", error="no answer")
    await one.ask(store, "b", 2)
    await one.ask(store, "c", 3)
    await store.turns.note_call(one.call("d", 4))
    await other.ask(store, "z", 9)
    await one.say(store, calls_used=("b", "c"))
    await store.close()
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


async def test_a_turn_leaves_calls_for_a_later_one(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    failed = await conversation.ask(store, "a", 1, outcome="failed", error="no answer")
    begun = conversation.call("b", 2)
    await store.turns.note_call(begun)
    await conversation.ask(store, "c", 3)
    await store.turns.commit(conversation.next_turn(), 0, calls_used=("c",), calls_unsettled=("a", "b"))
    assert await store.turns.unsettled_calls("clinic", conversation.session_id) == [failed, begun]
    await store.turns.note_call(msgspec.structs.replace(begun, turn=2, ended_at=MOMENT, error="interrupted"))
    await store.verification.refresh()
    assert [await store.verification.broken(rule) for rule in RULES if rule.code == "call_twice"] == [[]]
    await conversation.say(store, calls_used=("b",))
    assert await store.turns.unsettled_calls("clinic", conversation.session_id) == []
    settled = (await store.turns.calls("clinic", conversation.session_id)).rows
    assert sorted((row.call_id, row.turn, row.used) for row in settled) == [
        ("a", 2, False),
        ("b", 2, True),
        ("c", 1, True),
    ]


async def test_calls_count_for_the_turn_that_settles_them(tmp_path: Path, conversation: Conversation) -> None:
    store = open_store(tmp_path)
    await conversation.ask(store, "a", 1)  # of the first turn, which fails: it is stored without settling anything
    await conversation.create(store)
    assert [row.turn for row in await store.turns.unsettled_calls("clinic", conversation.session_id)] == [0]
    await conversation.ask(store, "b", 2)
    await conversation.say(store, calls_used=("a", "b"))
    await store.close()
    assert calls_of(tmp_path, "SELECT call_id, turn, used FROM llm_calls ORDER BY number") == [
        ("a", 1, True),
        ("b", 1, True),
    ]


@pytest.mark.database_file
async def test_prompts_are_stored_for_used_calls_whose_texts_were_said(
    store: Store, conversation: Conversation, tmp_path: Path
) -> None:
    await conversation.create(store)
    for number, call_id in enumerate(("a", "b", "c"), 1):
        await store.turns.note_call(conversation.call(call_id, number, **answered()))
    assert [row.prompt for row in (await store.turns.calls("clinic", conversation.session_id)).rows] == [None] * 3
    await store.turns.commit(
        conversation.next_turn(), 0, calls_used=("a", "b"), prompts={"a": "prompt a", "c": "prompt c"}
    )
    rows = (await store.turns.calls("clinic", conversation.session_id)).rows
    assert [(row.call_id, row.prompt) for row in rows] == [("a", "prompt a"), ("b", None), ("c", None)]
    await store.close()
    assert "prompt a" not in str(calls_of(tmp_path, "SELECT to_json(llm_calls)::VARCHAR FROM llm_calls"))


async def test_a_refused_turn_leaves_the_journal_as_it_was(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    call = await conversation.ask(store, "a")
    stale = conversation.next_turn()
    with pytest.raises(TurnConflict):
        await store.turns.commit(msgspec.structs.replace(stale, turn=6), 5, calls_used=("a",))
    with pytest.raises(RowRefused):
        bad = msgspec.structs.replace(stale, state=msgspec.Raw(b"{"))
        await store.turns.commit(bad, 0, calls_used=("a",))
    assert await store.turns.unsettled_calls("clinic", conversation.session_id) == [call]
    await store.turns.commit(stale, 0, calls_used=("a",))
    assert await store.turns.unsettled_calls("clinic", conversation.session_id) == []


async def test_the_words_of_a_call_that_were_withheld_are_not_settled(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    reply = msgspec.Raw(b'{"text": "bad", "raw": "{bad}", "exit": false, "values": {"a": null}}')
    calls = [await conversation.ask(store, name, number, reply=reply) for number, name in enumerate("abc", 1)]
    await conversation.ask(store, "d", 4, outcome="failed", error="no answer", reply=msgspec.Raw(b"null"))
    unsettled = (await store.turns.calls("clinic", calls[0].session_id)).rows
    assert [bytes(row.reply) for row in unsettled] == [b"null"] * 4  # nobody knows yet whether it is said
    await store.turns.commit(conversation.next_turn(), 0, calls_used=("a", "b"), calls_withheld=("a",))
    settled = (await store.turns.calls("clinic", calls[0].session_id)).rows
    wordless = {"text": "", "raw": "", "exit": False, "values": {"a": None}}
    assert [(row.withheld, msgspec.json.decode(row.reply)) for row in settled] == [
        (True, wordless),
        (False, {"text": "bad", "raw": "{bad}", "exit": False, "values": {"a": None}}),
        (True, wordless),  # it was not used
        (False, None),
    ]


async def test_what_calls_took_is_summed_by_tenant_user_and_time(store: Store) -> None:
    ana, ben, other = Conversation(), Conversation(user_id="ben"), Conversation(tenant="school")
    for each in (ana, ben, other):
        await each.create(store)
    taken = {"input_tokens": 10, "output_tokens": 5, "cost": 0.5}
    await ana.ask(store, "a", 1, **taken)
    await ben.ask(store, "b", 1, **taken)
    await other.ask(store, "c", 1, **taken)
    await ana.say(store, calls_used=("a",))
    await ana.ask(store, "d", 2, **taken, outcome="failed", error="no answer")
    await store.turns.note_call(ana.call("e", 3))
    since = MOMENT - timedelta(hours=1)
    until = MOMENT + timedelta(hours=1)
    assert await store.turns.spent("clinic", since, until) == SpentRow(4, 45, 1.5)
    assert await store.turns.spent("clinic", since, until, "ana") == SpentRow(3, 30, 1.0)
    assert await store.turns.spent("clinic", until, until + timedelta(hours=1)) == SpentRow(0, 0, 0.0)


async def test_a_turn_without_calls_settles_nothing(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    call = await conversation.ask(store, "a")
    await conversation.say(store)
    assert await store.turns.unsettled_calls("clinic", conversation.session_id) == [call]


@pytest.mark.parametrize(
    "changes",
    [{"error": "\ud800"}, {"session_id": "none"}, {"reply": msgspec.Raw(b"{")}, {"round": 2**40}],
    ids=["surrogate", "no uuid", "no json", "too large"],
)
async def test_a_call_the_store_cannot_hold_is_refused_alone(store: Store, changes) -> None:
    conversations = [Conversation() for _ in range(4)]
    calls = [each.call(f"c{number}") for number, each in enumerate(conversations)]
    calls[1] = msgspec.structs.replace(calls[1], **changes)
    writes = [store.turns.note_call(call) for call in calls]
    outcomes = await asyncio.gather(*writes, conversations[0].create(store), return_exceptions=True)
    assert [isinstance(outcome, Exception) for outcome in outcomes] == [False, True, False, False, False]
    assert isinstance(outcomes[1], RowRefused)
    found = [await store.turns.unsettled_calls("clinic", each.session_id) for each in conversations]
    assert [len(each) for each in found] == [1, 0, 1, 1]


async def test_64_sessions_with_three_calls_each_share_transactions(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    conversations = [Conversation(user_id=f"u{number}") for number in range(64)]

    async def talk(conversation) -> None:
        await conversation.create(store)
        for turn in range(3):
            calls = [f"{conversation.user_id} {turn} {number}" for number in (1, 2, 3)]
            for number, call_id in enumerate(calls, 1):
                await conversation.ask(store, call_id, number)
            await conversation.say(store, calls_used=tuple(calls[:2]))

    await asyncio.gather(*map(talk, conversations))
    await store.close()
    once = "SELECT count(*), count(DISTINCT call_id), count(*) FILTER (used), count(DISTINCT turn) FROM llm_calls"
    assert calls_of(tmp_path, once) == [(64 * 9, 64 * 9, 64 * 6, 3)]
    assert calls_of(tmp_path, "SELECT count(*) FROM call_journal") == [(0,)]


async def test_calls_come_in_pages_whether_settled_or_not(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    other = Conversation()
    await other.create(store)
    await other.ask(store, "theirs")
    for number in range(1, 5):
        await conversation.ask(store, f"a{number}", number)
    await conversation.say(store, calls_used=())
    for number in range(1, 4):
        await conversation.ask(store, f"b{number}", number)
    found, cursor = [], None
    while True:
        page = await store.turns.calls("clinic", conversation.session_id, limit=3, cursor=cursor)
        found.append([row.call_id for row in page.rows])
        cursor = page.next
        if cursor is None:
            break
    assert found == [["a1", "a2", "a3"], ["a4", "b1", "b2"], ["b3"]]
    assert (await store.turns.calls("clinic", "no-such")).rows == []
    with pytest.raises(CursorInvalid):
        await store.turns.calls("clinic", conversation.session_id, cursor="rubbish")


def test_an_older_file_learns_of_calls(tmp_path: Path) -> None:
    conversation, path = Conversation(), tmp_path / FILE_NAME
    with duckdb.connect(path) as earlier:
        schema.migrate(earlier, path, schema.known_migrations()[:2])
        start = msgspec.json.decode(msgspec.json.encode(conversation.session()))
        del start["redacted_at"]  # it came later
        Inserts(earlier).insert("session_starts", [msgspec.json.encode(start)])
        turn = msgspec.json.decode(msgspec.json.encode(conversation.next_turn()))
        turn |= {"message_count": 2, "event_count": 3}
        Inserts(earlier).insert("turns", [msgspec.json.encode(turn)])

    async def go_on() -> None:
        store = open_store(tmp_path)
        await conversation.ask(store, "a")
        await conversation.say(store, calls_used=("a",))
        await store.close()

    asyncio.run(go_on())
    assert calls_of(tmp_path, "SELECT call_id, turn, used FROM llm_calls") == [("a", 1, True)]
    assert calls_of(tmp_path, "SELECT max(turn) FROM turns") == [(1,)]


CALL = """
import asyncio, sys
from pathlib import Path
from store.open_store import open_store
from store.store import Store
from tests.support.store_rows import Conversation

async def talk(store, conversation):
    await conversation.create(store)
    for turn in range(100000):
        calls = [f"{conversation.session_id} {turn} {number}" for number in (1, 2)]
        for number, call_id in enumerate(calls, 1):
            await conversation.ask(store, call_id, number)
        await conversation.say(store, calls_used=tuple(calls))

async def main():
    store = open_store(Path(sys.argv[1]))
    print("open", flush=True)
    await asyncio.gather(*(talk(store, Conversation()) for _ in range(8)))

asyncio.run(main())
"""


@pytest.mark.slow
def test_killed_process_has_every_call_once_and_with_its_turn(tmp_path: Path, environment: dict[str, str]) -> None:
    for delay in (0.1, 0.25, 0.4):
        with subprocess.Popen(
            [sys.executable, "-c", CALL, str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        ) as principal:
            assert principal.stdout is not None
            assert principal.stdout.readline() == "open\n"
            try:
                principal.wait(delay)
            except subprocess.TimeoutExpired:
                principal.send_signal(signal.SIGKILL)
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
