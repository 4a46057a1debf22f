"""Deleting a session, erasing a user, and rewriting the file so that nothing is left in it of either."""

import asyncio
import shutil
import threading
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from store.duckdb import database, database_file
from store.duckdb.commit_mark import MARK
from store.duckdb.database import Database
from store.interface.errors import CompactionRunning, DiskTooSmall, StoreUnavailable, TurnConflict, VariablesFull
from store.interface.private_files import FILE_NAME
from store.interface.rows import UserVariableRow
from store.open_store import open_store
from store.postgres.connection import PostgresConnection
from store.postgres_store import PostgresStore
from store.sql import deletion
from store.store import Store
from tests.support.database_rows import owned_columns, rows_of
from tests.support.store_rows import (
    MOMENT,
    Conversation,
    failure_of,
    key_of,
    memory_call_of,
    memory_of,
    participant_of,
    rating_of,
    review_of,
    script_of,
    target_of,
    text_of,
    timer_of,
    write_of,
)

TENANT = "clinic"
NOT_FILLED = {("turn_claims", "session_id"), ("changed_sessions", "session_id")}
"""Tables that have no row of a session at rest, or that remember the ids of deleted ones."""


@pytest.fixture
def global_of() -> Any:
    """Return a global variable of a user."""

    def variable(name: str, value: Any, user_id: str = "ana", tenant: str = TENANT) -> UserVariableRow:
        return UserVariableRow(tenant, user_id, name, value, "text", "api", MOMENT)

    return variable


@pytest.fixture
async def everything(store: Store, global_of: Any) -> Any:
    """Give a user a row in every table that can hold one; the sessions."""

    async def fill(user_id: str, word: str, tenant: str = TENANT) -> list[Any]:
        talked = Conversation(tenant, user_id)
        await talked.create(store, key=f"key-{word}-{user_id}", idempotency_key=f"idem-{word}-{user_id}")
        await talked.ask(store, f"settled-{talked.session_id}", reply=msgspec.Raw(f'{{"text":"{word}"}}'.encode()))
        write = write_of("mood", word, scope="global")
        delivery = talked.delivery(payload=msgspec.Raw(msgspec.json.encode(word)))
        settled = (f"settled-{talked.session_id}",)
        await talked.say(
            store, [write], {"said": word}, calls_used=settled, deliveries=(delivery,), hand_overs=(talked.hand_over(),)
        )
        await talked.migrate(store)
        await store.timers.replace(
            tenant, talked.session_id, [timer_of(tenant, user_id, talked.session_id)], talked.turns - 1
        )
        await store.turns.save_failure(failure_of(talked, code=word))
        await talked.ask(store, f"open-{talked.session_id}", error=word)
        unbegun = Conversation(tenant, user_id)
        await unbegun.ask(store, f"lost-{unbegun.session_id}", error=word)
        await store.sessions.set_user_variables([global_of("channel", word, user_id, tenant)], 10)
        await store.keys.add(key_of(tenant, f"key-{word}-{user_id}", name=word, user_id=user_id))
        await store.participants.add(participant_of(tenant, user_id, talked.session_id), 100, MOMENT)
        await store.participants.add(participant_of(tenant, user_id, unbegun.session_id), 100, MOMENT)
        review = review_of(tenant=tenant, review_id=str(uuid4()))
        of_review = {"tenant": tenant, "review_id": review.review_id}
        await store.reviews.add(review, [target_of(talked.session_id, **of_review)])
        await store.reviews.rate(rating_of(talked.session_id, texts={"remarks": word}, **of_review))
        await store.memory.change(memory_of(tenant, user_id, talked.session_id, word, ord(word[1])))
        await store.memory.begin_call(memory_call_of(tenant, user_id, f"memory-{word}-{user_id}", error=word))
        return [talked, unbegun]

    return fill


async def test_every_table_of_a_session_or_a_user_is_covered(store: Store, tmp_path: Path) -> None:
    await store.close()
    reported = {(owned.table, "session_id") for owned in deletion.OWNED if owned.by_session}
    reported |= {(owned.table, "user_id") for owned in deletion.OWNED if owned.by_user}
    if isinstance(store, PostgresStore):
        reported |= {(table, "session_id") for table in (*PostgresConnection.derived_tables, "changed_sessions")}
        reported |= {(table, "user_id") for table in PostgresConnection.derived_of_users}
    assert reported == owned_columns(store, tmp_path), "add the table to OWNED of store/sql/deletion.py"
    if not isinstance(store, PostgresStore):
        sequences = rows_of(store, tmp_path, "SELECT * FROM duckdb_sequences()")
        assert sequences == [], "a compaction would begin them anew"


@pytest.mark.gate
async def test_a_deleted_session_leaves_no_row_and_its_keys_are_free(
    store: Store, tmp_path: Path, everything: Any
) -> None:
    talked, unbegun = await everything("ana", "pear")
    others = await everything("ana", "plum")
    assert await store.maintenance.delete_session("other", talked.session_id) is False
    assert await store.maintenance.delete_session(TENANT, talked.session_id) is True
    assert await store.maintenance.delete_session(TENANT, talked.session_id) is False
    assert await store.maintenance.delete_session(TENANT, "no uuid") is False
    assert await store.sessions.head(TENANT, talked.session_id) is None
    with pytest.raises(TurnConflict):  # one that was under way
        await talked.say(store)
    assert [row.name for row in await store.sessions.user_variables(TENANT, "ana")] == ["channel", "mood"]
    again = Conversation(TENANT, "ben", talked.session_id)
    await again.create(store, key="key-pear-ana", idempotency_key="idem-pear-ana")
    await again.say(store)
    assert await store.maintenance.delete_session(TENANT, talked.session_id) is True
    await store.close()
    for table, column in sorted(owned_columns(store, tmp_path) - NOT_FILLED):
        if column == "session_id":
            left = {session for (session,) in rows_of(store, tmp_path, f"SELECT session_id::VARCHAR FROM {table}")}
            assert talked.session_id not in left, table
            assert left, table
            assert left <= {each.session_id for each in (unbegun, *others)}, table


@pytest.mark.gate
async def test_erased_user_leaves_no_row_and_others_keep_theirs(store: Store, tmp_path: Path, everything: Any) -> None:
    sessions = await everything("ana", "pear")
    others = [*await everything("ben", "plum"), *await everything("ana", "fig", tenant="other")]
    assert await store.sessions.ids_of_user(TENANT, "ana") == sorted(each.session_id for each in sessions)
    erased = await store.maintenance.erase_user(TENANT, "ana", "receipt", MOMENT)
    assert set(erased.sessions) == {each.session_id for each in sessions}
    assert erased.counts == {
        "sessions": 1,
        "turns": 3,
        "messages": 6,
        "events": 9,
        "writes": 2,
        "targets": 1,
        "ratings": 1,
        "variables": 2,
        "migrations": 1,
        "failures": 1,
        "calls": 4,
        "deliveries": 1,
        "timers": 1,
        "handOvers": 1,
        "keys": 1,
        "participants": 2,
        "units": 1,
        "groups": 1,
        "vectors": 1,
        "memories": 1,
        "jobs": 1,
    }
    again = await store.maintenance.erase_user(TENANT, "ana", "receipt 2", MOMENT)
    assert (again.sessions, set(again.counts.values())) == ([], {0})
    back = Conversation(TENANT, "ana")
    await back.create(store, key="key-pear-ana", idempotency_key="idem-pear-ana")
    assert await store.sessions.user_variables(TENANT, "ana") == []
    assert await store.sessions.user_history(TENANT, "ana") == []
    await store.maintenance.erase_user(TENANT, "ana", "receipt 3", MOMENT)
    await store.close()
    for table, column in sorted(owned_columns(store, tmp_path) - NOT_FILLED):
        found = rows_of(store, tmp_path, f"SELECT DISTINCT tenant, {column}::VARCHAR FROM {table}")
        known = {(each.tenant, getattr(each, column)) for each in others}
        assert found, table
        assert set(found) <= known, table
    receipts = rows_of(store, tmp_path, "SELECT tenant, receipt_id, counts->>'messages', compacted_at FROM erasures")
    assert receipts == [
        (TENANT, "receipt", "6", None),
        (TENANT, "receipt 2", "0", None),
        (TENANT, "receipt 3", "2", None),
    ]


async def test_user_variables_are_set_and_unset_with_their_history(store: Store, global_of: Any) -> None:
    assert await store.sessions.set_user_variables([global_of("gone", None)], 2) == []
    await store.sessions.set_user_variables([global_of("name", "Ana"), global_of("age", 34)], 2)
    with pytest.raises(VariablesFull):
        await store.sessions.set_user_variables([global_of("name", "Eve"), global_of("more", 1)], 2)
    left = await store.sessions.set_user_variables([global_of("name", None), global_of("more", [1])], 2)
    assert [(row.name, row.value) for row in left] == [("age", 34), ("more", [1])]
    assert await store.sessions.user_variables(TENANT, "ana") == left
    history = [(row.name, row.old, row.new, row.session_id) for row in await store.sessions.user_history(TENANT, "ana")]
    written = [
        ("name", None, "Ana", None),
        ("age", None, 34, None),
        ("name", "Ana", None, None),
        ("more", None, [1], None),
    ]
    assert sorted(map(repr, history)) == sorted(map(repr, written))
    assert await store.sessions.user_history(TENANT, "ana", offset=4) == []
    assert await store.sessions.user_variables("other", "ana") == []


@pytest.mark.gate
async def test_many_writers_at_once_lose_nothing(store: Store, global_of: Any) -> None:
    talking = Conversation()
    await talking.create(store)

    async def talk() -> None:
        for number in range(20):
            await talking.say(store, [write_of(f"said {number}", number, scope="global")])

    setting = [store.sessions.set_user_variables([global_of(f"set {number}", number)], 100) for number in range(20)]
    await asyncio.gather(talk(), *setting)
    values = {row.name: row.value for row in await store.sessions.user_variables(TENANT, "ana")}
    assert values == {f"{how} {number}": number for number in range(20) for how in ("said", "set")}


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def traces(folder: Path, words: list[bytes]) -> dict[str, list[bytes]]:
    """Return the words that are anywhere in the bytes of the files of a folder, by file."""
    found = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: left for name, text in found.items() if (left := [word for word in words if word in text])}


def as_stored(session_id: str) -> bytes:
    """Return a UUID as a column holds it: a signed number."""
    return (UUID(session_id).int ^ 1 << 127).to_bytes(16, "little")


@pytest.mark.database_file
@pytest.mark.slow
async def test_compacted_files_have_no_byte_of_erased_data(store: Store, tmp_path: Path, everything: Any) -> None:
    user, word = f"user-{uuid4()}", "Sehnsucht-蝴蝶"
    sessions = await everything(user, word)
    for number in range(30):
        await everything("ben", f"plum {number}")
    words = [user.encode(), word.encode(), *(as_stored(each.session_id) for each in sessions)]
    assert {left for found in traces(tmp_path, words).values() for left in found} == set(words)
    await store.maintenance.erase_user(TENANT, user, "receipt", MOMENT)
    done = await store.maintenance.compact()
    assert done.bytes_before > 0
    assert done.bytes_after > 0
    assert traces(tmp_path, words) == {}
    assert traces(tmp_path, [b"plum 29"])
    await everything("ben", "later")
    await store.close()
    assert traces(tmp_path, words) == {}
    assert files(tmp_path) == [FILE_NAME, FILE_NAME + MARK]
    assert rows_of(store, tmp_path, "SELECT count(*) FROM erasures WHERE compacted_at IS NOT NULL") == [(1,)]


@pytest.mark.database_file
@pytest.mark.slow
async def test_a_compacted_record_is_the_same_record(store: Store, tmp_path: Path, everything: Any) -> None:
    for number in range(5):
        await everything(f"user {number}", f"word {number}")
    await store.scripts.save(script_of(), text_of())
    await store.close()
    before = contents(store, tmp_path)
    again = open_store(tmp_path)
    await again.maintenance.compact()
    await again.close()
    assert contents(store, tmp_path) == before


def contents(store: Store, folder: Path) -> dict[str, Any]:
    """Return every table with its rows in their order, every view with its rows, and the comments of all columns."""
    tables = [name for (name,) in rows_of(store, folder, "SELECT table_name FROM duckdb_tables()")]
    views = [name for (name,) in rows_of(store, folder, "SELECT view_name FROM duckdb_views() WHERE NOT internal")]
    held = {name: rows_of(store, folder, f"SELECT * FROM {name}") for name in tables}
    held |= {name: sorted(map(str, rows_of(store, folder, f"SELECT * FROM {name}"))) for name in views}
    assert {"turns", "sessions", "messages"} < held.keys()
    about = "SELECT table_name, column_name, data_type, comment FROM duckdb_columns() WHERE database_name = 'cuebook'"
    return held | {"": sorted(map(str, rows_of(store, folder, about)))}


@pytest.mark.gate
@pytest.mark.database_file
async def test_turns_during_a_compaction_wait_and_are_committed(store: Store) -> None:
    talks = [Conversation(user_id=f"user {number}") for number in range(8)]
    for each in talks:
        await each.create(store)

    async def talk(conversation: Any) -> None:
        for _ in range(25):
            await conversation.say(store, state={"text": "x" * 2_000})
            head = await store.sessions.head(TENANT, conversation.session_id)
            assert head is not None
            assert head.turn == conversation.turns - 1

    talking = asyncio.gather(*map(talk, talks))
    for _ in range(3):
        await store.maintenance.compact()
    await talking
    for each in talks:
        head = await store.sessions.head(TENANT, each.session_id)
        assert head is not None
        assert (head.turn, head.message_count, head.event_count) == (25, 52, 78)
    assert store.ready() is None


@pytest.mark.database_file
async def test_one_compaction_at_a_time(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    first = asyncio.ensure_future(store.maintenance.compact())
    await asyncio.sleep(0)
    with pytest.raises(CompactionRunning):
        await store.maintenance.compact()
    assert (await first).bytes_after > 0
    assert (await store.maintenance.compact()).bytes_after > 0


@pytest.mark.database_file
async def test_a_full_disk_is_reported_before_anything_is_written(
    store: Store, conversation: Conversation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await conversation.create(store)
    with monkeypatch.context() as small:
        small.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9 - 1_000_000, 1_000_000))
        with pytest.raises(DiskTooSmall, match="1000000") as refused:
            await store.maintenance.compact()
    assert refused.value.free_bytes == 1_000_000
    assert not (tmp_path / (FILE_NAME + database.FRESH)).exists()
    await conversation.say(store)
    await store.maintenance.compact()


@pytest.mark.database_file
async def test_a_compaction_is_abandoned_when_the_store_is_closed(
    store: Store, conversation: Conversation, tmp_path: Path
) -> None:
    await conversation.create(store)
    begun, closing = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def begin(_: str) -> None:
        loop.call_soon_threadsafe(begun.set)
        closing.wait(60)

    compacting = asyncio.ensure_future(store.maintenance.compact(begin))
    await begun.wait()
    waiting = asyncio.ensure_future(conversation.say(store))
    await asyncio.sleep(0)
    closed = asyncio.ensure_future(store.close())
    await asyncio.sleep(0)
    closing.set()
    await closed
    await waiting
    with pytest.raises(StoreUnavailable, match="stopped"):
        await compacting
    assert files(tmp_path) == [FILE_NAME, FILE_NAME + MARK]
    again = open_store(tmp_path)
    head = await again.sessions.head(TENANT, conversation.session_id)
    assert head is not None
    assert head.turn == 1
    await again.close()


async def test_leftovers_of_a_killed_compaction_go_at_the_next_start(tmp_path: Path) -> None:
    Database.open(tmp_path).close()
    spilled = tmp_path / (FILE_NAME + database_file.SPILLED)
    spilled.mkdir()
    left = [tmp_path / f"{FILE_NAME}{database.FRESH}{end}" for end in ("", ".wal")]
    for path in [*left, spilled / "duckdb_temp_storage-0.tmp"]:
        path.write_bytes(b"somebody's words")
    Database.open(tmp_path, read_only=True).close()
    assert left[0].exists()
    Database.open(tmp_path).close()
    assert files(tmp_path) == [FILE_NAME, FILE_NAME + MARK]
