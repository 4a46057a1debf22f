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

from store.analytics.file import Place, connect
from store.analytics.outlines import OUTLINES, Outline
from store.analytics.refresh import Masking, refresh
from store.duckdb.connection import DuckDBConnection
from store.duckdb.database import Database
from store.interface.list_rows import SessionFilter
from store.interface.retention_rows import Policy, check_policies
from store.interface.rows import ForkRow
from store.open_store import open_store
from store.postgres_store import PostgresStore
from store.sql import retention
from store.store import Store
from tests.support.duckdb_engine import engine_of
from tests.support.effort import repeats
from tests.support.paths import PROCESSES
from tests.support.store_rows import (
    MOMENT,
    Conversation,
    failure_of,
    memory_call_of,
    memory_of,
    rating_of,
    review_of,
    target_of,
    write_of,
)

TENANT = "clinic"
WORD = "Sehnsucht-蝴蝶"
TEXTS = [Policy(after_days=30)]
KILLS = 3


def tables(folder: Path) -> dict[str, list[Any]]:
    """Return every row of a record, by table, in no order."""
    database = Database.open(folder)
    cursor = database.cursor()
    names = [name for (name,) in cursor.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
    found = {name: cursor.execute(f"SELECT to_json(t)::VARCHAR FROM {name} AS t").fetchall() for name in names}
    cursor.close()
    database.close()
    return {name: sorted(text for (text,) in rows) for name, rows in found.items()}


def traces(folder: Path, word: str) -> list[str]:
    """Return the files of a folder that have a word in their bytes."""
    return [path.name for path in folder.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]


@pytest.fixture
def talked() -> Any:
    """Give a session a row in every table that tells of one, each with a word in it; the conversation."""

    async def talk(store: Store, user_id: str = "ana", word: str = WORD) -> Any:
        talk = Conversation(TENANT, user_id)
        first = talk.next_turn(state={"version": 1, "phase": "p", "session_cells": {"name": word}})
        start = talk.session(f"key-{word}-{user_id}", f"request-{talk.session_id}")
        origin = {"forkedFrom": {"sessionId": str(uuid4()), "turn": 3}}
        await store.turns.commit(first, -1, msgspec.structs.replace(start, metadata={"title": word} | origin))
        await talk.ask(store, f"call-{talk.session_id}", reply=msgspec.Raw(json.dumps({"text": word}).encode()))
        said = msgspec.structs.replace(
            talk.next_turn(
                variables=[write_of("mood", word), write_of("gone", None, old=word)],
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
        delivery = msgspec.structs.replace(talk.delivery(payload=msgspec.Raw(json.dumps(word).encode())), turn=1)
        await store.turns.commit(said, 0, calls_used=(f"call-{talk.session_id}",), deliveries=(delivery,))
        moved = talk.next_turn()
        await store.turns.commit(moved, 1, migration=talk.migration(moved.turn, why=[word]))
        await talk.ask(store, f"open-{talk.session_id}", error=word, failures=[word])
        await store.turns.save_failure(msgspec.structs.replace(failure_of(talk), message=word))
        of_review = {"tenant": TENANT, "review_id": str(uuid4())}
        await store.reviews.add(review_of(**of_review), [target_of(talk.session_id, **of_review)])
        await store.reviews.rate(rating_of(talk.session_id, texts={"remarks": word}, **of_review))
        memory = memory_of(TENANT, user_id, talk.session_id, word, ord(user_id[0]))
        await store.memory.change(msgspec.structs.replace(memory, jobs=[]))  # which are of no session
        call = memory_call_of(TENANT, user_id, f"memory-{talk.session_id}", request_digest=f"digest of {word}")
        await store.memory.begin_call(call)
        await store.memory.end_call(msgspec.structs.replace(call, outcome="failed", error=word, failures=[word]))
        return talk

    return talk


async def drop(store: Store, policies: list[Policy], now: datetime, *talks: Any) -> Any:
    return await store.retention.apply(TENANT, [each.session_id for each in talks], policies, now)


async def test_redacted_session_with_a_memory_is_still_read_and_listed(store: Store, talked: Any) -> None:
    talk = await talked(store)
    assert (await drop(store, TEXTS, MOMENT + timedelta(days=31), talk)).users == ["ana"]
    head = await store.sessions.head(TENANT, talk.session_id)
    assert head is not None
    assert (head.turn, head.redacted_at is None) == (talk.turns - 1, False)
    listed = (await store.sessions.page(TENANT)).rows
    assert [(session.session_id, session.turn) for session in listed] == [(talk.session_id, talk.turns - 1)]


async def test_redacted_sessions_are_still_found_by_their_outcome(store: Store, talked: Any) -> None:
    talk = await talked(store)
    ended = talk.next_turn(status="completed", state={"version": 1, "outcome": "refused", "end_reason": WORD})
    await store.turns.commit(ended, ended.turn - 1)
    await drop(store, TEXTS, MOMENT + timedelta(days=31), talk)
    for outcome, expected in (("refused", [talk.session_id]), ("completed", [])):
        found = (await store.sessions.page(TENANT, SessionFilter(outcome=outcome))).rows
        assert [session.session_id for session in found] == expected


async def test_redaction_removes_texts_and_values_and_keeps_counts(store: Store, talked: Any, tmp_path: Path) -> None:
    gone, retained = await talked(store), await talked(store, "ben", "Kolibri")
    now = MOMENT + timedelta(days=31)
    before = await store.turns.range(TENANT, gone.session_id)
    calls = (await store.turns.calls(TENANT, gone.session_id)).rows
    dropped = await drop(store, TEXTS, now, gone)
    assert (dropped.redacted, dropped.deleted, dropped.users) == ([gone.session_id], [], ["ana"])

    start = await store.sessions.start(TENANT, gone.session_id)
    assert start is not None
    assert (start.key, start.redacted_at) == (None, now)
    assert start.metadata.keys() == {"forkedFrom"}
    after = await store.turns.range(TENANT, gone.session_id)
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
    again = (await store.turns.calls(TENANT, gone.session_id)).rows
    assert [[getattr(each, name) for name in counted] for each in again] == [
        [getattr(each, name) for name in counted] for each in calls
    ]
    statistics = await store.sessions.statistics(TENANT, gone.session_id)
    assert statistics is not None
    assert statistics.said == (await talked_statistics(store, before)).said
    assert [each.code for each in await store.turns.failures(TENANT, gone.session_id)] == ["LLM_SERVICE_ERROR"]
    assert await store.memory.units(TENANT, "ana", after=0, limit=10) == []
    assert await store.memory.pending_ingest(TENANT, "ana") == []

    assert (await store.turns.get(TENANT, retained.session_id, 1)).messages[0].content == "Kolibri"
    if not isinstance(store, PostgresStore):
        await store.maintenance.compact()
        assert traces(tmp_path, WORD) == []
        assert traces(tmp_path, "Kolibri")


async def talked_statistics(store: Store, turns: list[Any]) -> Any:
    """Return the statistics of the same turns, not dropped, in another session."""
    session_id = str(uuid4())
    for row in turns:
        start = await store.sessions.start(TENANT, row.session_id) if row.turn == 0 else None
        if start is not None:
            start = msgspec.structs.replace(
                start, session_id=session_id, key=None, idempotency_key=None, redacted_at=None
            )
        await store.turns.commit(msgspec.structs.replace(row, session_id=session_id), row.turn - 1, start)
    found = await store.sessions.statistics(TENANT, session_id)
    await store.maintenance.delete_session(TENANT, session_id)
    return found


async def test_dropping_twice_changes_nothing(store: Store, talked: Any, tmp_path: Path) -> None:
    talk = await talked(store)
    now = MOMENT + timedelta(days=31)
    await drop(store, TEXTS, now, talk)
    assert await store.retention.due(TEXTS, now + timedelta(days=900)) == []
    assert (await drop(store, TEXTS, now + timedelta(days=900), talk)).redacted == []
    assert await store.retention.counts(TEXTS, now) == []


async def test_what_went_on_meanwhile_is_not_dropped(store: Store, talked: Any) -> None:
    talk, now = await talked(store), MOMENT + timedelta(days=31)
    (due,) = await store.retention.due(TEXTS, now)
    late = msgspec.structs.replace(talk.next_turn(), finished_at=now - timedelta(days=1))
    await store.turns.commit(late, 2)
    dropped = await store.retention.apply(TENANT, [due.session_id], TEXTS, now)
    assert (dropped.redacted, dropped.deleted) == ([], [])
    assert (await store.turns.get(TENANT, talk.session_id, 1)).messages[0].content == WORD


async def test_copy_of_a_redacted_session_is_marked_and_has_no_key(store: Store, talked: Any) -> None:
    talk, now, copy = await talked(store), MOMENT + timedelta(days=31), str(uuid4())
    await drop(store, TEXTS, now, talk)
    await store.sessions.fork(ForkRow(TENANT, talk.session_id, 1, copy, None, {}, now, None, None))
    copied = await store.sessions.start(TENANT, copy)
    assert copied is not None
    assert copied.redacted_at == now
    before = await store.sessions.start(TENANT, talk.session_id)
    assert before is not None
    assert not await store.sessions.label(before, "a key", {"title": "a title"})
    start = await store.sessions.start(TENANT, talk.session_id)
    assert start is not None
    assert (start.key, "title" in start.metadata) == (None, False)


async def test_sessions_are_deleted_whole_also_those_that_never_began(
    store: Store, talked: Any, tmp_path: Path
) -> None:
    now = MOMENT + timedelta(days=31)
    talk, unbegun = await talked(store), Conversation(TENANT, "eve")
    await unbegun.ask(store, "lost", error=WORD)
    assert {each.session_id: (each.action, each.turns) for each in await store.retention.due(TEXTS, now)} == {
        talk.session_id: ("redact", 3),
        unbegun.session_id: ("redact", 0),
    }
    assert (await drop(store, TEXTS, now, unbegun)).redacted == [unbegun.session_id]
    assert {each.session_id for each in await store.retention.due(TEXTS, now)} == {talk.session_id}
    whole = [Policy(after_days=30, action="delete")]
    assert (await drop(store, whole, now, talk, unbegun)).deleted == [talk.session_id, unbegun.session_id]
    if isinstance(store, PostgresStore):
        assert await store.sessions.head(TENANT, talk.session_id) is None
        return
    await store.maintenance.compact()
    assert traces(tmp_path, WORD) == []
    await store.close()
    left = {name: found for name, found in tables(tmp_path).items() if found}
    assert left.keys() <= {"migrations", "memory_owners", "memory_calls", "commits", "reviews"}, "those are the user's"


async def test_a_dry_run_tells_what_each_policy_would_drop(store: Store, talked: Any) -> None:
    for user in ("ana", "ben"):
        await talked(store, user)
    policies = [Policy(after_days=10, script="other"), Policy(after_days=20, script="in*"), Policy(after_days=30)]
    assert await store.retention.counts(policies, MOMENT + timedelta(days=20)) == []
    assert await store.retention.count_due(policies, MOMENT + timedelta(days=20)) == 0
    assert await store.retention.count_due(policies, MOMENT + timedelta(days=21)) == 2
    (found,) = await store.retention.counts(policies, MOMENT + timedelta(days=21))
    assert (found.number, found.sessions, found.turns, found.messages) == (1, 2, 6, 12)
    assert found.oldest == MOMENT
    assert found.bytes > 2 * 6 * len(WORD.encode())


@pytest.mark.gate
async def test_an_analytics_file_follows(store: Store, talked: Any, tmp_path: Path) -> None:
    gone, retained = await talked(store), await talked(store, "ben", "Kolibri")
    place = Place(tmp_path / "analytics.duckdb")
    before = await refresh_file(store, place, tmp_path / "first")
    assert before[gone.session_id][:4] == (False, 6, 3, 2)
    assert before[gone.session_id][5] == WORD
    await drop(store, TEXTS, MOMENT + timedelta(days=31), gone)
    after = await refresh_file(store, place, tmp_path / "second")
    assert after[gone.session_id] == (True, *before[gone.session_id][1:5], None)
    assert after[retained.session_id] == before[retained.session_id]
    await store.maintenance.delete_session(TENANT, gone.session_id)
    assert (await refresh_file(store, place, tmp_path / "third")).keys() == {retained.session_id}


async def refresh_file(store: Store, place: Place, folder: Path) -> dict[str, tuple[Any, ...]]:
    """Refresh an analytics file; return of each session whether it is reduced, and its messages, turns,
    writes and characters, and a word that was said.
    """
    folder.mkdir()  # noqa: ASYNC240
    await store.analytics.delta(TENANT, folder, place.read_known(), units=True)
    (folder / OUTLINES).write_bytes(msgspec.json.encode(Outline([], [], [])))
    refresh(place, folder, Masking(is_masked=False))
    connection = connect(place.path, folder, read_only=True)
    found = connection.execute(
        """SELECT s.session_id::VARCHAR, s.is_redacted, count(*), max(m.turn) + 1,
            (SELECT count(*) FROM variable_history AS w WHERE w.session_id = s.session_id),
            sum(m.characters)::BIGINT, any_value(m.content) FILTER (m.turn = 1)
        FROM sessions AS s JOIN messages AS m USING (session_id) GROUP BY ALL"""
    ).fetchall()
    connection.close()
    return {session_id: tuple(reported) for session_id, *reported in found}


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
    action=st.sampled_from(["redact", "delete"]),
    script=st.sampled_from([None, "intake", "in*", "*", "d?ary", "[a-d]*", "nothing"]),
    tenant=st.sampled_from([None, "clinic", "school"]),
    status=st.sampled_from([None, *STATUSES]),
)


def meant(policies: list[Policy], place: tuple[str, str, str, int], now: int) -> str | None:
    """Return what policies drop of a session, computed plainly."""
    tenant, script, status, left = place
    due = set()
    for kind in ("redact", "delete"):
        for each in policies:
            fits = each.script is None or fnmatchcase(script, each.script)
            fits = fits and each.tenant in {None, tenant} and each.status in {None, status}
            if each.action == kind and fits:
                due |= {kind} if now - left > each.after_days else set()
                break
    return "delete" if "delete" in due else "redact" if "redact" in due else None


async def test_the_first_policy_of_its_kind_that_fits_is_the_one(store: Store) -> None:
    placed = {}
    for tenant, script, status, days in PLACES:
        talk = Conversation(tenant)
        left = MOMENT + timedelta(days=days)
        first = msgspec.structs.replace(talk.next_turn(status=status), finished_at=left)
        begun_with = "diary" if script == "intake_long" else script  # that one has moved to it
        await store.turns.commit(first, -1, msgspec.structs.replace(talk.session(), script_id=begun_with))
        if script == "intake_long":
            second = msgspec.structs.replace(talk.next_turn(status=status), finished_at=left)
            await store.turns.commit(second, 0, migration=talk.migration(1, from_script_id="diary", script_id=script))
        placed[talk.session_id] = (tenant, script, status, days)

    @settings(max_examples=repeats(40))
    @given(st.lists(policy, max_size=5), st.integers(0, 100))
    def check(policies: list[Policy], now: int) -> None:
        found = find(store, policies, MOMENT + timedelta(days=now))
        reported = {session_id: meant(policies, place, now) for session_id, place in placed.items()}
        assert found == {session_id: drop for session_id, drop in reported.items() if drop is not None}

    check()


def find(store: Store, policies: list[Policy], now: datetime) -> dict[str, str]:
    """Return what is due by session, read in this thread."""
    if isinstance(store, PostgresStore):
        found = store._engine.run(lambda connection: retention.due(connection, policies, now))
    else:
        cursor = engine_of(store).database.cursor()
        try:
            found = retention.due(DuckDBConnection(cursor), policies, now)
        finally:
            cursor.close()
    return {each.session_id: each.action for each in found}


async def test_forks_and_imported_sessions_age_from_their_arrival(store: Store, talked: Any) -> None:
    talk, copy = await talked(store), str(uuid4())
    now = MOMENT + timedelta(days=31)
    await store.sessions.fork(ForkRow(TENANT, talk.session_id, 1, copy, None, {}, now, None, None))
    assert [each.session_id for each in await store.retention.due(TEXTS, now)] == [talk.session_id]


def test_a_policy_that_never_applies_is_refused() -> None:
    check_policies([Policy(after_days=9, script="a"), Policy(after_days=1), Policy(after_days=2, action="delete")])
    for first in (Policy(after_days=1), Policy(after_days=1, script="a")):
        with pytest.raises(ValueError, match=r"retention\[1\] never applies: the earlier retention\[0\]"):
            check_policies([first, Policy(after_days=9, script="a", tenant="t")])


# -- whatever happens -----------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_killed_process_leaves_a_session_redacted_or_whole(tmp_path: Path, environment: dict[str, str]) -> None:
    store = open_store(tmp_path)
    talks = [Conversation(TENANT, f"user {number % 5}") for number in range(24)]
    for number, talk in enumerate(talks):
        await talk.create(store, key=f"key {number}")
        for _ in range(2):
            await talk.say(store, [write_of("mood", WORD)], {"version": 1, "said": WORD})
        await store.memory.change(memory_of(TENANT, talk.user_id, talk.session_id, WORD, number + 1))
    await store.close()
    now, chance = MOMENT + timedelta(days=31), random.Random(3)
    reported: set[str] = set()
    for _ in range(KILLS):
        reported |= kill_after(chance.randrange(1, 8), tmp_path, now, environment)
        reopened = open_store(tmp_path)
        dropped = {talk.session_id for talk in talks if await is_dropped(reopened, talk.session_id)}
        await reopened.close()
        assert reported <= dropped
    assert len(reported) < len(talks)


def kill_after(count: int, folder: Path, now: datetime, environment: dict[str, str]) -> set[str]:
    """Let a process drop text until it has printed so many sessions, and kill it; return the printed sessions."""
    script = PROCESSES / "apply_retention.py"
    process = subprocess.Popen(
        [sys.executable, script, folder, now.isoformat(), "redact"], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    reported = [process.stdout.readline().strip() for _ in range(count)]
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate(timeout=60)
    return {*reported, *(line for line in rest.split("\n")[:-1])} - {"done", ""}


async def is_dropped(store: Store, session_id: str) -> bool:
    """Return whether a session's text is dropped; it is so in each of its rows, or in none."""
    start = await store.sessions.start(TENANT, session_id)
    assert start is not None
    turns = await store.turns.range(TENANT, session_id)
    assert [each.turn for each in turns] == list(range(3))
    gone = start.redacted_at is not None
    assert {start.key is None} == {gone}
    assert {WORD.encode() in bytes(each.state) for each in turns[1:]} == {not gone}
    assert {message.content == "" for each in turns for message in each.messages} == {gone}
    assert {write.new is None for each in turns for write in each.variables} == {gone}
    units = await store.memory.units(TENANT, start.user_id, after=0, limit=1_000)
    assert (session_id in {each.session_id for each in units}) is not gone
    return gone
