"""Policies: what is due by them, what dropping leaves of a session, and that nothing is ever half dropped."""

import json
import random
import signal
import subprocess
import sys
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store import retention
from store.analytics.bringing import Masking, bring
from store.analytics.file import Place, connect
from store.analytics.outlines import OUTLINES, Outline
from store.database import Database
from store.record import Record
from store.retention import Policy, check_policies
from store.rows import ForkRow

TENANT = "clinic"
WORD = "Sehnsucht-蝴蝶"
TEXTS = [Policy(after_days=30)]
KILLS = 3


def tables(folder: Path) -> dict[str, list[Any]]:
    """Every row of a record, by table, in no order."""
    opened = Database.open(folder)
    cursor = opened.cursor()
    names = [name for (name,) in cursor.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
    found = {name: cursor.execute(f"SELECT to_json(t)::VARCHAR FROM {name} AS t").fetchall() for name in names}
    cursor.close()
    opened.close()
    return {name: sorted(text for (text,) in rows) for name, rows in found.items()}


def traces(folder: Path, word: str) -> list[str]:
    """The files of a folder that have a word in their bytes."""
    return [path.name for path in folder.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]


@pytest.fixture
def talked(rows: Any) -> Any:
    """Gives a session a row in every table that tells of one, each with a word in it; the conversation."""

    async def talk(record: Record, user_id: str = "ana", word: str = WORD) -> Any:
        talk = rows.Conversation(TENANT, user_id)
        first = talk.next_turn(state={"version": 1, "phase": "p", "session_cells": {"name": word}})
        start = talk.session(f"key-{word}-{user_id}", f"request-{talk.session_id}")
        origin = {"forkedFrom": {"sessionId": str(uuid4()), "turn": 3}}
        await record.commit(first, -1, msgspec.structs.replace(start, metadata={"title": word} | origin))
        await talk.ask(record, f"call-{talk.session_id}", reply=msgspec.Raw(json.dumps({"text": word}).encode()))
        said = msgspec.structs.replace(
            talk.next_turn(
                variables=[rows.write_of("mood", word), rows.write_of("gone", None, old=word)],
                state={"version": 1, "wait": {"kind": "choice", "choices": [{"key": "A", "text": word}]}},
                idempotency_key=word,
            ),
            fingerprint="a digest",
        )
        messages = [msgspec.structs.replace(each, content=word, metadata={"name": word}) for each in said.messages]
        events = [
            msgspec.structs.replace(
                said.events[0], kind="exit", data={"action_id": "a", "source": "s", "reason": word}
            ),
            msgspec.structs.replace(said.events[1], kind="of another version", data={"action_id": word}),
            said.events[2],
        ]
        said = msgspec.structs.replace(said, messages=messages, events=events)
        told = msgspec.structs.replace(talk.delivery(payload=msgspec.Raw(json.dumps(word).encode())), turn=1)
        await record.commit(said, 0, calls_used=(f"call-{talk.session_id}",), deliveries=(told,))
        moved = talk.next_turn()
        await record.commit(moved, 1, migration=talk.migration(moved.turn, why=[word]))
        await record.save_failure(msgspec.structs.replace(rows.failure_of(talk), message=word))
        await talk.ask(record, f"open-{talk.session_id}", error=word, failures=[word])
        memory = rows.memory_of(TENANT, user_id, talk.session_id, word, ord(user_id[0]))
        await record.memory.change(msgspec.structs.replace(memory, jobs=[]))  # which are of no session
        return talk

    return talk


async def drop(record: Record, policies: list[Policy], now: datetime, *talks: Any) -> Any:
    return await record.retention.drop(TENANT, [each.session_id for each in talks], policies, now)


async def test_what_a_session_said_and_knew_goes_and_what_is_counted_stays(
    record: Record, rows: Any, talked: Any, tmp_path: Path
) -> None:
    gone, kept = await talked(record), await talked(record, "ben", "Kolibri")
    now = rows.MOMENT + timedelta(days=31)
    before = await record.turns(TENANT, gone.session_id)
    calls = (await record.calls(TENANT, gone.session_id)).rows
    dropped = await drop(record, TEXTS, now, gone)
    assert (dropped.texts, dropped.sessions, dropped.users) == ([gone.session_id], [], ["ana"])

    start = await record.session_start(TENANT, gone.session_id)
    assert start is not None
    assert (start.key, start.text_dropped_at) == (None, now)
    assert start.metadata.keys() == {"forkedFrom"}
    after = await record.turns(TENANT, gone.session_id)
    changed = {"state", "messages", "variables", "events", "idempotency_key", "fingerprint"}
    for old, new in zip(before, after, strict=True):
        for name in set(old.__struct_fields__) - changed:
            assert getattr(old, name) == getattr(new, name), name
        assert [(each.seq, each.message_id, each.role, each.action_id, each.created_at) for each in old.messages] == [
            (each.seq, each.message_id, each.role, each.action_id, each.created_at) for each in new.messages
        ]
        assert [len(each.content) for each in old.messages] == [each.characters for each in new.messages]
        assert {each.content for each in new.messages} == {""}
        assert [(each.seq, each.kind) for each in old.events] == [(each.seq, each.kind) for each in new.events]
    assert [(write.name, write.scope, write.old, write.new) for write in after[1].variables] == [
        ("mood", "session", None, None),
        ("gone", "session", None, None),
    ]
    assert after[1].events[0].data == {"action_id": "a", "source": "s"}
    assert after[1].events[1].data == {}
    assert json.loads(bytes(after[1].state)) == {"version": 1, "wait": {"kind": "choice"}}
    counted = ("call_id", "turn", "number", "purpose", "outcome", "used", "input_tokens", "output_tokens", "cost")
    again = (await record.calls(TENANT, gone.session_id)).rows
    assert [[getattr(each, name) for name in counted] for each in again] == [
        [getattr(each, name) for name in counted] for each in calls
    ]
    statistics = await record.statistics(TENANT, gone.session_id)
    assert statistics is not None
    assert statistics.said == (await talked_statistics(record, before)).said
    assert [each.code for each in await record.failures(TENANT, gone.session_id)] == ["LLM_SERVICE_ERROR"]
    assert await record.memory.units(TENANT, "ana", after=0, limit=10) == []
    assert await record.memory.behind(TENANT, "ana") == []

    assert (await record.turn(TENANT, kept.session_id, 1)).messages[0].content == "Kolibri"  # type: ignore[union-attr]
    await record.compact()
    assert traces(tmp_path, WORD) == []
    assert traces(tmp_path, "Kolibri")


async def talked_statistics(record: Record, turns: list[Any]) -> Any:
    """The statistics of the same turns, not dropped, in another session."""
    session_id = str(uuid4())
    for row in turns:
        start = await record.session_start(TENANT, row.session_id) if row.turn == 0 else None
        if start is not None:
            start = msgspec.structs.replace(
                start, session_id=session_id, key=None, idempotency_key=None, text_dropped_at=None
            )
        await record.commit(msgspec.structs.replace(row, session_id=session_id), row.turn - 1, start)
    found = await record.statistics(TENANT, session_id)
    await record.delete_session(TENANT, session_id)
    return found


async def test_dropping_twice_changes_nothing(record: Record, rows: Any, talked: Any, tmp_path: Path) -> None:
    talk = await talked(record)
    now = rows.MOMENT + timedelta(days=31)
    await drop(record, TEXTS, now, talk)
    assert await record.retention.due(TEXTS, now + timedelta(days=900)) == []
    assert (await drop(record, TEXTS, now + timedelta(days=900), talk)).texts == []
    assert await record.retention.counts(TEXTS, now) == []


async def test_what_went_on_meanwhile_is_not_dropped(record: Record, rows: Any, talked: Any) -> None:
    talk, now = await talked(record), rows.MOMENT + timedelta(days=31)
    (due,) = await record.retention.due(TEXTS, now)
    late = msgspec.structs.replace(talk.next_turn(), finished_at=now - timedelta(days=1))
    await record.commit(late, 2)
    dropped = await record.retention.drop(TENANT, [due.session_id], TEXTS, now)
    assert (dropped.texts, dropped.sessions) == ([], [])
    assert (await record.turn(TENANT, talk.session_id, 1)).messages[0].content == WORD  # type: ignore[union-attr]


async def test_a_copy_of_a_dropped_session_is_marked_and_cannot_be_named(
    record: Record, rows: Any, talked: Any
) -> None:
    talk, now, copy = await talked(record), rows.MOMENT + timedelta(days=31), str(uuid4())
    await drop(record, TEXTS, now, talk)
    await record.fork(ForkRow(TENANT, talk.session_id, 1, copy, None, {}, now, None, None))
    copied = await record.session_start(TENANT, copy)
    assert copied is not None
    assert copied.text_dropped_at == now
    await record.label(TENANT, talk.session_id, "a key", {"title": "a title"})
    start = await record.session_start(TENANT, talk.session_id)
    assert start is not None
    assert (start.key, "title" in start.metadata) == (None, False)


async def test_sessions_are_deleted_whole_and_so_are_those_that_never_began(
    record: Record, rows: Any, talked: Any, tmp_path: Path
) -> None:
    now = rows.MOMENT + timedelta(days=31)
    talk, unbegun = await talked(record), rows.Conversation(TENANT, "eve")
    await unbegun.ask(record, "lost", error=WORD)
    assert {each.session_id: (each.drops, each.turns) for each in await record.retention.due(TEXTS, now)} == {
        talk.session_id: ("text", 3),
        unbegun.session_id: ("text", 0),
    }
    assert (await drop(record, TEXTS, now, unbegun)).texts == [unbegun.session_id]
    assert {each.session_id for each in await record.retention.due(TEXTS, now)} == {talk.session_id}
    whole = [Policy(after_days=30, drop="session")]
    assert (await drop(record, whole, now, talk, unbegun)).sessions == [talk.session_id, unbegun.session_id]
    await record.compact()
    assert traces(tmp_path, WORD) == []
    await record.close()
    left = {name: found for name, found in tables(tmp_path).items() if found}
    assert left.keys() <= {"migrations", "memory_owners"}, "those are the user's"


async def test_a_dry_run_tells_what_each_policy_would_drop(record: Record, rows: Any, talked: Any) -> None:
    for user in ("ana", "ben"):
        await talked(record, user)
    policies = [Policy(after_days=10, script="other"), Policy(after_days=20, script="in*"), Policy(after_days=30)]
    assert await record.retention.counts(policies, rows.MOMENT + timedelta(days=20)) == []
    (found,) = await record.retention.counts(policies, rows.MOMENT + timedelta(days=21))
    assert (found.number, found.sessions, found.turns, found.messages) == (1, 2, 6, 12)
    assert found.oldest == rows.MOMENT
    assert found.bytes > 2 * 6 * len(WORD.encode())


async def test_an_analytics_file_follows(record: Record, rows: Any, talked: Any, tmp_path: Path) -> None:
    gone, kept = await talked(record), await talked(record, "ben", "Kolibri")
    place = Place(tmp_path / "analytics.duckdb")
    before = await brought(record, place, tmp_path / "first")
    assert before[gone.session_id][:4] == (False, 6, 3, 2)
    assert before[gone.session_id][5] == WORD
    await drop(record, TEXTS, rows.MOMENT + timedelta(days=31), gone)
    after = await brought(record, place, tmp_path / "second")
    assert after[gone.session_id] == (True, *before[gone.session_id][1:5], None)
    assert after[kept.session_id] == before[kept.session_id]
    await record.delete_session(TENANT, gone.session_id)
    assert (await brought(record, place, tmp_path / "third")).keys() == {kept.session_id}


async def brought(record: Record, place: Place, folder: Path) -> dict[str, tuple[Any, ...]]:
    """What an analytics file tells of each session once it is up to date: whether it is reduced, its messages, turns,
    writes and characters, and a word that was said.
    """
    folder.mkdir()  # noqa: ASYNC240
    await record.analytics.delta(TENANT, folder, place.known(), units=True)
    (folder / OUTLINES).write_bytes(msgspec.json.encode(Outline([], [], [])))
    bring(place, folder, Masking(is_masked=False))
    connection = connect(place.path, folder, read_only=True)
    found = connection.execute(
        """SELECT s.session_id::VARCHAR, s.is_reduced, count(*), max(m.turn) + 1,
            (SELECT count(*) FROM variable_history AS w WHERE w.session_id = s.session_id),
            sum(m.characters)::BIGINT, any_value(m.content) FILTER (m.turn = 1)
        FROM sessions AS s JOIN messages AS m USING (session_id) GROUP BY ALL"""
    ).fetchall()
    connection.close()
    return {session_id: tuple(told) for session_id, *told in found}


# -- which sessions -------------------------------------------------------------------------------------------------

SCRIPTS = ["intake", "intake_long", "diary"]
STATUSES = ["active", "paused", "completed"]
PLACES = [
    (tenant, script, status, days)
    for number, (tenant, script, status) in enumerate(
        (tenant, script, status) for tenant in ("clinic", "school") for script in SCRIPTS for status in STATUSES
    )
    for days in (number % 3 * 20, 15 + number % 5 * 10)
]
policy = st.builds(
    Policy,
    after_days=st.integers(1, 60),
    drop=st.sampled_from(["text", "session"]),
    script=st.sampled_from([None, "intake", "in*", "*", "d?ary", "[a-d]*", "nothing"]),
    tenant=st.sampled_from([None, "clinic", "school"]),
    status=st.sampled_from([None, *STATUSES]),
)


def meant(policies: list[Policy], place: tuple[str, str, str, int], now: int) -> str | None:
    """What is dropped of a session by policies, told plainly."""
    tenant, script, status, left = place
    due = set()
    for kind in ("text", "session"):
        for each in policies:
            fits = each.script is None or fnmatchcase(script, each.script)
            fits = fits and each.tenant in {None, tenant} and each.status in {None, status}
            if each.drop == kind and fits:
                due |= {kind} if now - left > each.after_days else set()
                break
    return "session" if "session" in due else "text" if "text" in due else None


async def test_the_first_policy_of_its_kind_that_fits_is_the_one(record: Record, rows: Any) -> None:
    placed = {}
    for tenant, script, status, days in PLACES:
        talk = rows.Conversation(tenant)
        left = rows.MOMENT + timedelta(days=days)
        first = msgspec.structs.replace(talk.next_turn(status=status), finished_at=left)
        begun_with = "diary" if script == "intake_long" else script  # that one has moved to it
        await record.commit(first, -1, msgspec.structs.replace(talk.session(), script_id=begun_with))
        if script == "intake_long":
            second = msgspec.structs.replace(talk.next_turn(status=status), finished_at=left)
            await record.commit(second, 0, migration=talk.migration(1, from_script_id="diary", script_id=script))
        placed[talk.session_id] = (tenant, script, status, days)

    @settings(max_examples=40)
    @given(st.lists(policy, max_size=5), st.integers(0, 100))
    def check(policies: list[Policy], now: int) -> None:
        cursor = record._database.cursor()
        try:
            found = find(cursor, policies, rows.MOMENT + timedelta(days=now))
        finally:
            cursor.close()
        told = {session_id: meant(policies, place, now) for session_id, place in placed.items()}
        assert found == {session_id: drop for session_id, drop in told.items() if drop is not None}

    check()


def find(cursor: Any, policies: list[Policy], now: datetime) -> dict[str, str]:
    return {each.session_id: each.drops for each in retention._find(cursor, policies, now)}


async def test_a_fork_and_a_session_that_was_brought_in_count_from_when_they_came(
    record: Record, rows: Any, talked: Any
) -> None:
    talk, copy = await talked(record), str(uuid4())
    now = rows.MOMENT + timedelta(days=31)
    await record.fork(ForkRow(TENANT, talk.session_id, 1, copy, None, {}, now, None, None))
    assert [each.session_id for each in await record.retention.due(TEXTS, now)] == [talk.session_id]


def test_a_policy_that_never_applies_is_refused() -> None:
    check_policies([Policy(after_days=9, script="a"), Policy(after_days=1), Policy(after_days=2, drop="session")])
    for first in (Policy(after_days=1), Policy(after_days=1, script="a")):
        with pytest.raises(ValueError, match=r"retention\[1\] never applies: retention\[0\] before it"):
            check_policies([first, Policy(after_days=9, script="a", tenant="t")])


# -- whatever happens -----------------------------------------------------------------------------------------------


async def test_a_session_is_dropped_or_whole_whenever_the_process_is_killed(
    tmp_path: Path, opened: Any, rows: Any, environment: dict[str, str]
) -> None:
    record = opened(tmp_path)
    talks = [rows.Conversation(TENANT, f"user {number % 5}") for number in range(24)]
    for number, talk in enumerate(talks):
        await talk.create(record, key=f"key {number}")
        for _ in range(2):
            await talk.say(record, [rows.write_of("mood", WORD)], {"version": 1, "said": WORD})
        await record.memory.change(rows.memory_of(TENANT, talk.user_id, talk.session_id, WORD, number + 1))
    await record.close()
    now, chance = rows.MOMENT + timedelta(days=31), random.Random(3)
    told: set[str] = set()
    for _ in range(KILLS):
        told |= kill_after(chance.randrange(1, 8), tmp_path, now, environment)
        reopened = Record.open(tmp_path)
        dropped = {talk.session_id for talk in talks if await is_dropped(reopened, talk.session_id)}
        await reopened.close()
        assert told <= dropped
    assert len(told) < len(talks)


def kill_after(count: int, folder: Path, now: datetime, environment: dict[str, str]) -> set[str]:
    """Lets a process drop text until it has told of so many sessions, and kills it; those it told of."""
    script = Path(__file__).with_name("dropping.py")
    process = subprocess.Popen(
        [sys.executable, script, folder, now.isoformat(), "text"], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    told = [process.stdout.readline().strip() for _ in range(count)]
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate(timeout=60)
    return {*told, *(line for line in rest.split("\n")[:-1])} - {"done", ""}


async def is_dropped(record: Record, session_id: str) -> bool:
    """Whether a session's text is dropped; it is so in each of its rows, or in none."""
    start = await record.session_start(TENANT, session_id)
    assert start is not None
    turns = await record.turns(TENANT, session_id)
    assert [each.turn for each in turns] == list(range(3))
    gone = start.text_dropped_at is not None
    assert {start.key is None} == {gone}
    assert {WORD.encode() in bytes(each.state) for each in turns[1:]} == {not gone}
    assert {message.content == "" for each in turns for message in each.messages} == {gone}
    assert {write.new is None for each in turns for write in each.variables} == {gone}
    units = await record.memory.units(TENANT, start.user_id, after=0, limit=1_000)
    assert (session_id in {each.session_id for each in units}) is not gone
    return gone
