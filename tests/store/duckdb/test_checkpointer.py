"""A checkpoint that is interrupted anywhere leaves a file that opens with all commits."""

import asyncio
import random
import shutil
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import duckdb
import pytest

from store.duckdb import database as database_module
from store.duckdb.checkpointer import SAVED
from store.duckdb.connection import DuckDBConnection
from store.duckdb.database import Database
from store.duckdb.database_file import CHECKPOINT_BYTES, log_of
from store.interface.errors import DatabaseLocked, DatabaseUnreadable, StoreError, StoreUnavailable
from store.interface.private_files import FILE_NAME, beside
from store.open_store import open_store
from tests.support.duckdb_engine import engine_of
from tests.support.effort import repeats

PAGE = 4096
HEADERS = 3 * PAGE
TABLES = range(4)
COLUMNS = 12
_HOLD = """
import sys
from pathlib import Path
from store.duckdb.database import Database
database = Database.open(Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.read()
"""


class Tables:
    """A database with some tables of random rows."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.path = folder / FILE_NAME
        self._chance = random.Random(seed)
        self._database = Database.open(folder)
        self._cursor = self._database.cursor()
        columns = ", ".join(f"c{number} VARCHAR" for number in range(COLUMNS))
        for table in TABLES:
            self._cursor.execute(f"CREATE TABLE numbers{table} (n INTEGER, {columns})")

    def write(self) -> None:
        """Insert, delete and change rows of some tables."""
        values = ", ".join(f"md5((r + {number})::VARCHAR)" for number in range(COLUMNS))
        for table in self._chance.sample(TABLES, 2):
            first, count = self._chance.randrange(10**6), self._chance.choice([1, 40, 3000])
            rows = f"SELECT r, {values} FROM range({first}, {first + count}) t(r)"
            self._cursor.execute(f"INSERT INTO numbers{table} {rows}")
            self._cursor.execute(f"DELETE FROM numbers{table} WHERE n % 9 = {self._chance.randrange(9)}")
            self._cursor.execute(f"UPDATE numbers{table} SET c0 = 'changed' WHERE n % 50 = 0")

    def checkpoint(self) -> None:
        self._database.checkpoint(self._cursor)

    def interrupted_checkpoint(self, folder: Path) -> Path:
        """Return a copy of the file as a process leaves it that dies in a checkpoint before it writes the header.

        Any of the pages that the checkpoint writes are written, and the others are not.
        """
        folder.mkdir()
        path, before = folder / FILE_NAME, self.path.read_bytes()
        shutil.copyfile(log_of(self.path), log_of(path))
        copy_saved = partial(shutil.copyfile, beside(self.path, SAVED), beside(path, SAVED))
        self._database.checkpoint(_Copying(self._cursor, copy_saved))
        after = self.path.read_bytes()
        pages = [
            (before[at : at + PAGE] if self._chance.random() < 0.5 else b"") or after[at : at + PAGE]
            for at in range(HEADERS, len(after), PAGE)
        ]
        path.write_bytes(before[:HEADERS] + b"".join(pages))
        return path

    def contents(self) -> list[list[tuple[object, ...]]]:
        return contents(self._cursor)

    def close(self) -> None:
        self._cursor.close()
        self._database.close()


class _Copying:
    """A cursor that copies a file before a checkpoint."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, copy: partial[object]) -> None:
        self._cursor = cursor
        self._copy = copy

    def execute(self, statement: str) -> duckdb.DuckDBPyConnection:
        if statement.startswith("CHECKPOINT"):
            self._copy()
        return self._cursor.execute(statement)


def contents(cursor: duckdb.DuckDBPyConnection) -> list[list[tuple[object, ...]]]:
    return [cursor.execute(f"SELECT * FROM numbers{table} ORDER BY ALL").fetchall() for table in TABLES]


def opened(path: Path) -> list[list[tuple[object, ...]]]:
    """Open the database of a folder, and return its rows."""
    database = Database.open(path.parent)
    try:
        return contents(database.cursor())
    finally:
        database.close()


@pytest.mark.parametrize("seed", range(repeats(12)))
def test_a_checkpoint_that_ends_anywhere_loses_nothing(tmp_path: Path, seed: int) -> None:
    tables = Tables(tmp_path / "data", seed)
    for number in range(4):
        tables.write()
        expected = tables.contents()
        path = tables.interrupted_checkpoint(tmp_path / f"copy{number}")
        for _ in range(2):
            assert opened(path) == expected
            assert not beside(path, SAVED).exists()
    assert not beside(tables.path, SAVED).exists()
    tables.close()


def test_saved_blocks_are_not_used_after_a_finished_checkpoint(tmp_path: Path) -> None:
    """A damaged block is an error, and is not replaced by an older one."""
    tables = Tables(tmp_path / "data", 1)
    tables.write()
    saved = beside(tables.interrupted_checkpoint(tmp_path / "copy"), SAVED)
    tables.close()
    content = bytearray(tables.path.read_bytes())
    content[HEADERS + 9] ^= 1
    tables.path.write_bytes(content)
    shutil.copyfile(saved, beside(tables.path, SAVED))
    with pytest.raises(DatabaseUnreadable, match="checksum"):
        opened(tables.path)
    assert tables.path.read_bytes() == content


@pytest.mark.parametrize("part", [0.0, 0.5, 0.999])
def test_an_incomplete_file_of_saved_blocks_is_ignored(tmp_path: Path, part: float) -> None:
    """The process died while it wrote that file, so the checkpoint had not begun."""
    tables = Tables(tmp_path / "data", 2)
    tables.write()
    expected = tables.contents()
    saved = beside(tables.interrupted_checkpoint(tmp_path / "copy"), SAVED).read_bytes()
    tables.close()
    beside(tables.path, SAVED).write_bytes(saved[: int(len(saved) * part)])
    assert opened(tables.path) == expected
    assert not beside(tables.path, SAVED).exists()


def test_checkpoint_in_progress_is_not_undone_by_another_process(tmp_path: Path) -> None:
    tables = Tables(tmp_path / "data", 3)
    tables.write()
    saved = beside(tables.interrupted_checkpoint(tmp_path / "copy"), SAVED).read_bytes()
    tables.close()
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tables.path.parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"open\n"
        beside(tables.path, SAVED).write_bytes(saved)
        before = tables.path.read_bytes()
        for read_only in (True, False):
            with pytest.raises(DatabaseLocked):
                Database.open(tables.path.parent, read_only=read_only)
        assert tables.path.read_bytes() == before
        assert beside(tables.path, SAVED).read_bytes() == saved
        server.communicate(b"", timeout=30)


def test_checkpoint_that_a_read_prevents_leaves_nothing_to_undo(tmp_path: Path) -> None:
    database = Database.open(tmp_path)
    reader, writer = database.cursor(), database.cursor()
    reader.execute("BEGIN; SELECT number FROM commits")
    writer.execute("UPDATE commits SET number = 7")
    with pytest.raises(duckdb.TransactionException):
        database.checkpoint(writer)
    assert not beside(database.path, SAVED).exists()
    reader.execute("COMMIT")
    database.checkpoint(writer)
    assert not log_of(database.path).exists()
    database.close()


def test_very_large_log_waits_for_reads_begun_before_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "CHECKPOINT_BYTES", 1)
    database = Database.open(tmp_path)
    reader, later, writer = database.cursor(), database.cursor(), database.cursor()
    reader.execute("BEGIN; SELECT number FROM commits")
    writer.execute("UPDATE commits SET number = 7")
    later.execute("BEGIN; SELECT number FROM commits")
    with pytest.raises(duckdb.TransactionException):
        database.checkpoint_if_due(writer)
    monkeypatch.setattr(database_module, "WAIT_BYTES", 1)
    with pytest.raises(StoreUnavailable, match="reads in progress prevent that the log, 0 MB, is emptied"):
        database.checkpoint_if_due(writer)
    ending = threading.Timer(0.05, lambda: reader.execute("COMMIT"))
    ending.start()
    database.checkpoint_if_due(writer)
    assert not log_of(database.path).exists()
    ending.join()
    for cursor in (reader, later, writer):
        cursor.close()
    database.close()


async def test_log_is_emptied_at_the_end_despite_a_running_read(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    engine = engine_of(store)
    reader = engine.database.cursor()
    reader.execute("BEGIN; SELECT number FROM commits")
    await engine.write(lambda connection: connection.cursor.execute("UPDATE commits SET number = 7"))
    ending = asyncio.create_task(engine.writer.close())
    await asyncio.sleep(0.15)  # more than the pause between two checkpoints
    assert log_of(tmp_path / FILE_NAME).exists()
    reader.execute("COMMIT")
    await ending
    assert not log_of(tmp_path / FILE_NAME).exists()
    reader.close()
    await store.close()


def _insert(connection: DuckDBConnection) -> None:
    """Commit more than half of the log's limit."""
    connection.execute("CREATE TABLE IF NOT EXISTS texts (text VARCHAR)")
    rows = CHECKPOINT_BYTES // 4_000
    connection.execute(f"INSERT INTO texts SELECT repeat(md5(n::VARCHAR), 100) FROM range({rows}) t(n)")


async def test_a_large_log_is_written_to_the_database_file(tmp_path: Path) -> None:
    store, log = open_store(tmp_path), log_of(tmp_path / FILE_NAME)
    await engine_of(store).write(_insert)
    assert log.stat().st_size > CHECKPOINT_BYTES / 2
    await engine_of(store).write(_insert)
    async with engine_of(store).writer.pause():
        assert not log.exists()
    await store.close()


async def test_a_checkpoint_that_cannot_begin_refuses_no_write(tmp_path: Path) -> None:
    path, saved = tmp_path / FILE_NAME, beside(tmp_path / FILE_NAME, SAVED)
    store = open_store(tmp_path)
    saved.mkdir()  # so that no blocks can be saved
    headers = path.read_bytes()[:HEADERS]
    for _ in range(3):
        await engine_of(store).write(_insert)
    assert store.ready() is None
    with pytest.raises(StoreError, match=r"checkpoint of .* cannot begin"):
        engine_of(store).database.take_fresh(lambda _: None)
    await store.close()
    assert path.read_bytes()[:HEADERS] == headers  # DuckDB makes no checkpoint of its own
    saved.rmdir()
    store = open_store(tmp_path)
    found = await engine_of(store).read(lambda connection: connection.rows("SELECT count(*) FROM texts"))
    assert found == [(3 * (CHECKPOINT_BYTES // 4_000),)]
    await store.close()
    assert path.read_bytes()[:HEADERS] != headers
