"""Opening the file: one process, readable, of this version."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from store.duckdb import schema
from store.duckdb.database import Database
from store.interface.errors import (
    DatabaseLocked,
    DatabaseTooNew,
    DatabaseTooOld,
    DatabaseUnreadable,
    MigrationChanged,
    StoreReadOnly,
)
from store.interface.private_files import FILE_NAME
from store.open_store import open_store
from store.sql.migrations import Migration
from tests.support.paths import ROOT
from tests.support.store_rows import Conversation

HOLD = """
import sys, time
from pathlib import Path
from store.duckdb.database import Database
database = Database.open(Path(sys.argv[1]))
print("open", flush=True)
time.sleep(60)
"""


def hold(folder: Path) -> subprocess.Popen[str]:
    """Keep the file open in another process."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "open\n"
    return holder


@pytest.mark.gate
@pytest.mark.parametrize("read_only", [False, True])
def test_a_second_process_learns_which_one_has_the_file(tmp_path: Path, read_only: bool) -> None:
    with hold(tmp_path) as holder:
        with pytest.raises(DatabaseLocked) as locked:
            Database.open(tmp_path, read_only=read_only)
        holder.send_signal(signal.SIGKILL)
    assert locked.value.pid == holder.pid
    assert str(tmp_path / FILE_NAME) in str(locked.value)
    assert f"process {holder.pid}" in str(locked.value)
    Database.open(tmp_path, read_only=read_only).close()


def test_the_same_process_cannot_open_it_twice(tmp_path: Path) -> None:
    database = Database.open(tmp_path)
    with pytest.raises(DatabaseLocked):
        Database.open(tmp_path)
    database.close()
    Database.open(tmp_path).close()


@pytest.mark.parametrize("content", [b"hello", b"\0" * 20_000, os.urandom(20_000)], ids=["text", "zeros", "noise"])
def test_a_file_that_is_no_database_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(DatabaseUnreadable, match=FILE_NAME):
        Database.open(tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == content


def test_a_damaged_or_cut_database_is_named(tmp_path: Path) -> None:
    Database.open(tmp_path).close()
    path = tmp_path / FILE_NAME
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:4096] + os.urandom(8192) + whole[12288:]):
        path.write_bytes(damaged)
        with pytest.raises(DatabaseUnreadable):
            Database.open(tmp_path)


def test_a_folder_with_an_odd_name_will_do(tmp_path: Path) -> None:
    folder = tmp_path / "it's 数据; DROP"
    Database.open(folder).close()
    assert (folder / FILE_NAME).exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DatabaseUnreadable, match="cannot be created"):
        Database.open(tmp_path / "file" / "data")


def test_read_only_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnreadable, match="no database"):
        Database.open(tmp_path, read_only=True)
    assert list(tmp_path.iterdir()) == []


async def test_read_only_reads_and_does_not_write(tmp_path: Path, conversation: Conversation) -> None:
    store = open_store(tmp_path)
    await conversation.create(store)
    await store.close()
    reader = open_store(tmp_path, read_only=True)
    assert await reader.sessions.head("clinic", conversation.session_id) is not None
    assert reader.ready() == "the database is open read-only"
    with pytest.raises(StoreReadOnly):
        await conversation.say(reader)
    await reader.close()


def open_with(folder: Path, migrations: list[Migration], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "known_migrations", lambda: migrations)
    Database.open(folder).close()


def applied(folder: Path) -> list[tuple[int, str]]:
    database = Database.open(folder)
    rows = database.cursor().execute("SELECT number, name FROM migrations ORDER BY number").fetchall()
    database.close()
    return rows


def test_migrations_apply_once_and_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = schema.known_migrations()
    assert [migration.number for migration in known] == list(range(1, len(known) + 1))
    open_with(tmp_path, known, monkeypatch)
    more = [
        *known,
        Migration(len(known) + 1, "more", "CREATE TABLE more (x INTEGER); INSERT INTO more VALUES (1)"),
    ]
    open_with(tmp_path, more, monkeypatch)
    open_with(tmp_path, more, monkeypatch)
    assert applied(tmp_path) == [(migration.number, migration.name) for migration in more]


UNIT = """INSERT INTO memory_unit_rows BY NAME SELECT 'clinic' AS tenant, 'ana' AS user_id, $trust AS unit_id,
    1 AS sequence, 'diary' AS group_id, 0 AS rank, 0 AS level, 'A note.' AS content, 'ana' AS source,
    now() AS creation_time, now() AS end_time, '{}' AS metadata, 0 AS visit_count, 1 AS last_visit,
    false AS never_delete, $trust AS trust, false AS is_extract, false AS is_stale, 0 AS tells_from,
    now() AS valid_from"""
TURN = """INSERT INTO turns BY NAME SELECT 'clinic' AS tenant, uuid() AS session_id, 'ana' AS user_id, $turn AS turn,
    now() AS started_at, now() AS finished_at, 'active' AS status, 'waiting' AS execution_status, '{}' AS state,
    '[]' AS messages, '[]' AS variables, $events AS events, 0 AS message_count, 0 AS event_count"""

COLUMNS = """SELECT column_name, data_type, is_nullable, comment FROM duckdb_columns()
    WHERE table_name = 'turns' ORDER BY column_index"""


def test_migration_12_renames_a_trust_level(tmp_path: Path) -> None:
    quoted = '\u00e9 "trust":"told"'
    note = {"text": quoted, "trust": "told", "metadata": {"trust": "told", "none": None}}
    other = {"seq": 2, "kind": "emitted", "data": {"trust": "told", "number": 1.0}}
    events = [{"seq": 1, "kind": "remembered", "data": note}, other]
    path = tmp_path / FILE_NAME
    with duckdb.connect(path) as earlier:
        schema.migrate(earlier, path, schema.known_migrations()[:11])
        for trust in ("own", "told", "foreign"):
            earlier.execute(UNIT, {"trust": trust})
        for turn, each in enumerate((events, [])):
            earlier.execute(TURN, {"turn": turn, "events": json.dumps(each, separators=(",", ":"))})
    database = Database.open(tmp_path)
    cursor = database.cursor()
    units = cursor.execute("SELECT unit_id, trust FROM memory_unit_rows").fetchall()
    found = cursor.execute("SELECT events FROM turns ORDER BY turn").fetchall()
    database.close()
    assert dict(units) == {"own": "own", "told": "conversation", "foreign": "foreign"}
    renamed = {"seq": 1, "kind": "remembered", "data": note | {"trust": "conversation"}}
    assert [json.loads(text) for (text,) in found] == [[renamed, other], []]


def test_migration_14_compresses_the_turns_and_keeps_their_rows(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    with duckdb.connect(path) as earlier:
        schema.migrate(earlier, path, schema.known_migrations()[:13])
        for turn in range(3):
            earlier.execute(TURN, {"turn": turn, "events": "[]"})
        before = earlier.execute("FROM turns").fetchall()
        described = earlier.execute(COLUMNS).fetchall()
        schema.migrate(earlier, path, schema.known_migrations()[:14])
        assert earlier.execute(COLUMNS).fetchall() == described
    database = Database.open(tmp_path)
    cursor = database.cursor()
    assert cursor.execute("FROM turns").fetchall() == before
    compressions = cursor.execute(
        """SELECT DISTINCT column_name, compression FROM pragma_storage_info('turns')
        WHERE column_name IN ('state', 'messages', 'variables', 'events') AND segment_type IN ('VARCHAR', 'JSON')"""
    ).fetchall()
    database.close()
    small = "DICT_FSST"
    assert dict(compressions) == {"state": small, "messages": "Uncompressed", "variables": small, "events": small}


def test_a_failing_migration_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = schema.known_migrations()
    broken = [*known, Migration(len(known) + 1, "broken", "CREATE TABLE half (x INTEGER); SELECT nonsense")]
    with pytest.raises(DatabaseUnreadable, match="cannot be migrated"):
        open_with(tmp_path, broken, monkeypatch)
    open_with(tmp_path, known, monkeypatch)
    database = Database.open(tmp_path)
    assert database.cursor().execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'half'").fetchall() == []
    database.close()


def test_a_changed_migration_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = schema.known_migrations()
    open_with(tmp_path, known, monkeypatch)
    changed = [known[0]._replace(sql=known[0].sql + "\n-- a word"), *known[1:]]
    with pytest.raises(MigrationChanged):
        open_with(tmp_path, changed, monkeypatch)


def test_a_newer_file_is_refused_and_an_older_one_only_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = schema.known_migrations()
    newer = [*known, Migration(len(known) + 1, "newer", "SELECT 1")]
    open_with(tmp_path, known, monkeypatch)
    monkeypatch.setattr(schema, "known_migrations", lambda: newer)
    with pytest.raises(DatabaseTooOld):
        Database.open(tmp_path, read_only=True)
    open_with(tmp_path, newer, monkeypatch)
    with pytest.raises(DatabaseTooNew, match="upgrade"):
        open_with(tmp_path, known, monkeypatch)


def test_every_table_and_every_column_of_it_is_documented(tmp_path: Path) -> None:
    database = Database.open(tmp_path)
    cursor = database.cursor()
    undocumented = cursor.execute(
        """SELECT table_name, column_name FROM duckdb_columns()
        WHERE database_name = 'cuebook' AND NOT internal AND comment IS NULL AND table_name <> 'migrations'"""
    ).fetchall()
    untitled = cursor.execute(
        """SELECT view_name FROM duckdb_views() WHERE database_name = 'cuebook' AND NOT internal AND comment IS NULL
        UNION ALL SELECT table_name FROM duckdb_tables()
        WHERE database_name = 'cuebook' AND comment IS NULL AND table_name <> 'migrations'"""
    ).fetchall()
    database.close()
    assert undocumented == []
    assert untitled == []
