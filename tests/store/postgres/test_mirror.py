"""The copy for analytics has the rows of PostgreSQL, whatever is in them and whatever happened since the last one."""

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from store.analytics import postgres_mirror
from store.analytics.postgres_mirror import ALL, PostgresMirror
from store.copy_database import _canonical
from store.duckdb.table_rows import read_documents
from store.interface.errors import StoreUnavailable
from store.interface.private_files import FILE_NAME
from store.interface.retention_rows import Policy
from store.interface.rows import NO_TURN
from store.postgres_store import PostgresStore
from store.store import Store
from tests.support.effort import repeats
from tests.support.store_rows import (
    MOMENT,
    Conversation,
    failure_of,
    key_of,
    memory_of,
    script_of,
    text_of,
    webhook_of,
    write_of,
)

TABLES = ("turns", "session_starts", "settled_calls", "script_texts", *ALL)
HOSTILE = [
    "", " ", "  a ", "a,b", '"', '""', 'q"q', "\n", "\r", "n\nn", "r\rn", "x\r\ny", "\\", "\\N", "\\.", "\\\"", "NULL",
    "null", "'", "\t", "#", "$since", "%s", "{", "𝄞 睡眠 é", "\ufeff", "\u2028", "\x01\x7f", "long " * 450_000,
]  # fmt: skip
JSON = [
    '"\\u0000"',
    '"\\\\u0000 \\ud834\\udd1e 𝄞"',
    '{ "a" :\n\t[1.0, 1e3, "\\"", ""] , "a": 12345678901234567890}',
    "null",
    '""',
]


@pytest.fixture
def server(stores: tuple[Store, Store]) -> PostgresStore:
    assert isinstance(stores[0], PostgresStore)
    return stores[0]


@pytest.fixture
def mirror(server: PostgresStore, tmp_path: Path) -> Iterator[PostgresMirror]:
    mirror = PostgresMirror(server._engine, tmp_path)
    yield mirror
    mirror.close()


def rows_of_mirror(mirror: PostgresMirror, *, is_fresh: bool = True) -> dict[str, Counter[bytes]]:
    with mirror.open(ALL if is_fresh else ()) as connection:
        return {
            table: Counter(_canonical(row) for rows in read_documents(connection.cursor, table) for row in rows)
            for table in TABLES
        }


def rows_of_postgres(url: str) -> dict[str, Counter[bytes]]:
    with psycopg.connect(url) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = {
            table: connection.execute(f"SELECT row_to_json(t)::text FROM {table} AS t").fetchall() for table in TABLES
        }
    return {
        table: Counter(_canonical(text.replace('"\\\\x', '"').encode()) for (text,) in rows)
        for table, rows in found.items()
    }


def rows_file(folder: Path) -> Path:
    """Return the file through which rows are copied."""
    return folder / "mirror" / f"{FILE_NAME}.rows"


def copies(folder: Path) -> list[Path]:
    """Return the folders of temporary mirrors."""
    return list(folder.glob("mirror-*"))


async def converse(store: Store) -> list[Conversation]:
    talks = [Conversation(user_id=f"user {number}") for number in range(3)]
    for talk in talks:
        await talk.create(store, key=talk.user_id)
        for turn in range(3):
            await talk.say(store, [write_of("mood", turn, scope="global"), write_of("note", "a\x00b '\\")])
    await talks[0].ask(store, "open")
    await talks[0].say(store, calls_used=("open",))
    await store.scripts.save(script_of(), text_of(text="phases: []  # 睡眠"))
    await store.keys.add(key_of())
    await store.delivery.add_webhook(webhook_of())
    await store.memory.change(memory_of("clinic", "user 2", talks[2].session_id, "pear", 7))
    await store.turns.save_failure(failure_of(talks[1]))
    return talks


async def test_it_has_all_tables(server: PostgresStore, mirror: PostgresMirror, postgres_url: str) -> None:
    await converse(server)
    found = rows_of_mirror(mirror)
    assert found == rows_of_postgres(postgres_url)
    assert all(found[table] for table in ("settled_calls", "turn_failures", "api_keys", "memory_vectors", "scripts"))


async def test_texts_come_unchanged(
    server: PostgresStore, mirror: PostgresMirror, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_mirror, "FILE_BYTES", 1_000)  # several files
    await converse(server)
    failure = "INSERT INTO turn_failures VALUES (%s, %s, 1, %s, %s, %s, NULL, %s, %s, %s)"
    talk = Conversation()
    with psycopg.connect(postgres_url) as connection:
        for text, other in zip(HOSTILE, [None, *HOSTILE[:-1]], strict=True):
            connection.execute(failure, [talk.tenant, talk.session_id, text, text, other, text, MOMENT, None])
        connection.execute("UPDATE scripts SET tags = %s, description = NULL, author = %s", [HOSTILE, HOSTILE[5]])
        for turn, text in enumerate(JSON):
            connection.execute("UPDATE turns SET state = %s, events = %s WHERE turn = %s", [text, text, turn])
        connection.execute("UPDATE turns SET topic_id = '', action_id = NULL WHERE turn = 1")
        states = connection.execute("SELECT session_id, turn, state::text, events::text FROM turns").fetchall()
    assert rows_of_mirror(mirror) == rows_of_postgres(postgres_url)
    with mirror.open() as copy:
        read = copy.cursor.execute("SELECT session_id, turn, state::VARCHAR, events::VARCHAR FROM turns").fetchall()
        places = copy.cursor.execute("SELECT session_id, turn FROM turns ORDER BY rowid").fetchall()
    assert sorted(read) == sorted(states)
    assert places == sorted(places)


async def test_it_follows_what_changes(server: PostgresStore, mirror: PostgresMirror, postgres_url: str) -> None:
    dice = random.Random(3)
    talks = await converse(server)
    other = Conversation("other", "ana", talks[0].session_id)
    await other.create(server)
    assert rows_of_mirror(mirror) == rows_of_postgres(postgres_url)
    await server.maintenance.delete_session("clinic", talks.pop(0).session_id)
    for _ in range(repeats(8)):
        for _ in range(dice.randrange(4)):
            talk = dice.choice(talks)
            match dice.randrange(4):
                case 0:
                    talks.append(Conversation(user_id=f"user {dice.randrange(3)}"))
                    await server.turns.commit(talks[-1].next_turn(), NO_TURN, talks[-1].session())
                case 1:
                    talks.remove(talk)
                    talks.append(Conversation())
                    await talks[-1].create(server)
                    await server.maintenance.delete_session("clinic", talk.session_id)
                case 2:
                    await talk.say(server)
                    await server.retention.apply("clinic", [talk.session_id], [Policy(after_days=0)], MOMENT)
                case _:
                    await talk.say(server)
        assert rows_of_mirror(mirror) == rows_of_postgres(postgres_url)


@pytest.mark.gate
async def test_a_failed_refresh_leaves_what_was_there(
    server: PostgresStore, mirror: PostgresMirror, postgres_url: str, tmp_path: Path
) -> None:
    talks = await converse(server)
    before = rows_of_mirror(mirror)
    await talks[0].say(server)
    with psycopg.connect(postgres_url) as connection:
        # later than the last time that DuckDB has
        connection.execute("UPDATE turn_failures SET message = 'Sehnsucht', failed_at = '294270-01-01'")
    with pytest.raises(StoreUnavailable) as raised:
        rows_of_mirror(mirror)
    assert "Sehnsucht" not in str(raised.value)
    assert rows_of_mirror(mirror, is_fresh=False) == before
    assert not rows_file(tmp_path).exists()
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE turn_failures SET failed_at = now()")
    assert rows_of_mirror(mirror) == rows_of_postgres(postgres_url)


async def test_rows_that_a_killed_server_left_are_removed(
    server: PostgresStore, mirror: PostgresMirror, tmp_path: Path
) -> None:
    await converse(server)
    left = rows_file(tmp_path)
    left.parent.mkdir()
    left.write_text("Sehnsucht")
    rows_of_mirror(mirror)
    assert not left.exists()
    left.write_text("Sehnsucht")
    mirror.remove()
    assert not left.exists()


async def test_a_command_beside_a_server_has_a_copy_of_its_own(
    server: PostgresStore, mirror: PostgresMirror, postgres_url: str, tmp_path: Path
) -> None:
    await converse(server)
    with mirror.open(ALL):
        command = PostgresMirror(server._engine, tmp_path)
        assert rows_of_mirror(command) == rows_of_postgres(postgres_url)
        (copy,) = copies(tmp_path)
        assert copy.stat().st_mode & 0o077 == 0
        other = PostgresMirror(server._engine, tmp_path)
        assert rows_of_mirror(other) == rows_of_mirror(command)
        command.close()
        other.close()
    assert copies(tmp_path) == []
    assert rows_of_mirror(mirror) == rows_of_postgres(postgres_url)


async def test_copies_that_killed_commands_left_are_removed(
    server: PostgresStore, mirror: PostgresMirror, tmp_path: Path
) -> None:
    await converse(server)
    rows_of_mirror(mirror)
    mirror.close()
    shutil.copytree(tmp_path / "mirror", tmp_path / "mirror-killed")
    (tmp_path / "mirror-torn").mkdir()
    (tmp_path / "mirror-torn" / FILE_NAME).write_bytes(b"DUCK")
    assert rows_of_mirror(mirror)
    assert copies(tmp_path) == []
