"""A database of MemForest becomes a memory: its units, sessions, order and tree."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from api.memory.transfers.import_memory import ImportTarget, import_memory
from api.memory.transfers.memory_document import DocumentInvalid
from store.open_store import open_store
from store.store import Store
from tests.support.memory_findings import memory_findings

NOW = datetime(2026, 5, 1, tzinfo=UTC)
TARGET = ImportTarget(tenant="default", user_id="ana", memory_id="memory", now=NOW)
TABLES = """
CREATE TABLE memory_units (id TEXT PRIMARY KEY, content TEXT NOT NULL, creation_time TEXT, end_time TEXT, source TEXT,
    metadata TEXT, last_visit INTEGER, visit_count INTEGER, never_delete INTEGER, rank INTEGER);
CREATE TABLE session_memories (id TEXT PRIMARY KEY, creation_time TEXT, end_time TEXT);
CREATE TABLE long_term_memories (id TEXT PRIMARY KEY, chatbot_id TEXT NOT NULL, visit_count INTEGER,
    last_session_id TEXT, creation_time TEXT, end_time TEXT);
CREATE TABLE mu_hierarchy_edges (child_unit_id TEXT PRIMARY KEY, parent_unit_id TEXT NOT NULL);
CREATE TABLE session_unit_membership (session_id TEXT NOT NULL, unit_id TEXT NOT NULL);
"""


@pytest.fixture
async def store(tmp_path: Path) -> Any:
    store = open_store(tmp_path / "data")
    yield store
    await store.close()


@pytest.fixture
def database(tmp_path: Path) -> Callable[..., Path]:
    """Write a database: units as (id, rank, session, content, parent), in any order."""

    def write(*units: tuple[str, int, str, str, str | None], **columns: Any) -> Path:
        path = tmp_path / "bot.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(TABLES)
            connection.execute("INSERT INTO long_term_memories VALUES ('ltm', 'bot', 0, NULL, NULL, NULL)")
            sessions = dict.fromkeys(session for _, _, session, _, _ in units if session)
            for number, session in enumerate(sessions):
                connection.execute(
                    "INSERT INTO session_memories VALUES (?, ?, NULL)", [session, f"2026-01-0{number + 1}"]
                )
            for number, (unit, rank, session, content, parent) in enumerate(units):
                row = {
                    "time": f"2026-01-02T10:{number:02}:00",
                    "source": "user",
                    "metadata": '{"mood": 3}',
                    "visit": 4,
                    **columns,
                }
                connection.execute(
                    "INSERT INTO memory_units VALUES (?, ?, ?, NULL, ?, ?, ?, 2, 1, ?)",
                    [unit, content, row["time"], row["source"], row["metadata"], row["visit"], rank],
                )
                if session:
                    connection.execute("INSERT INTO session_unit_membership VALUES (?, ?)", [session, unit])
                if parent:
                    connection.execute("INSERT INTO mu_hierarchy_edges VALUES (?, ?)", [unit, parent])
            connection.commit()
        return path

    return write


FOREST = (
    ("m1", 0, "monday", "The code name is Phoenix.", "s1"),
    ("m2", 0, "monday", "It is on hold.", "s1"),
    ("m3", 0, "monday", "Until May.", "s2"),
    ("t1", 0, "tuesday", "We go on.", "tuesday"),
    ("s1", 1, "monday", "About Phoenix.", "monday"),
    ("s2", 1, "monday", "About May.", "monday"),
    ("monday", 1, "monday", "Phoenix waits for May.", "ltm"),
    ("tuesday", 1, "tuesday", "They go on.", "ltm"),
    ("ltm", 2, "", "A project.", None),
)


async def test_units_sessions_and_tree_are_imported(store: Store, database: Callable[..., Path]) -> None:
    done = await import_memory(store.memory, TARGET, database(*FOREST), "sqlite")
    assert (done.units, done.groups, done.vectors) == (9, 2, 0)
    owner = await store.memory.owner("default", "ana")
    assert owner is not None
    rows = {row.content: row for row in await store.memory.units("default", "ana")}
    assert {group.group_id for group in await store.memory.groups("default", "ana")} == {"monday", "tuesday"}
    contents = [content for content, row in rows.items() if row.rank == 0]
    assert contents == ["The code name is Phoenix.", "It is on hold.", "Until May.", "We go on."]
    by_id = {row.unit_id: row for row in rows.values()}
    above = {content: by_id[row.parent_id].content for content, row in rows.items() if row.parent_id}
    assert above == {
        "The code name is Phoenix.": "About Phoenix.",
        "It is on hold.": "About Phoenix.",
        "Until May.": "About May.",
        "We go on.": "They go on.",
        "About Phoenix.": "Phoenix waits for May.",
        "About May.": "Phoenix waits for May.",
        "Phoenix waits for May.": "A project.",
        "They go on.": "A project.",
    }
    assert {row.level for row in rows.values() if row.content.startswith("About")} == {1}
    first = rows["The code name is Phoenix."]
    assert first.creation_time == datetime(2026, 1, 2, 10, tzinfo=UTC)
    assert (first.source, first.metadata, first.visit_count, first.never_delete) == ("user", {"mood": 3}, 2, True)
    assert await memory_findings(store) == []


async def test_missing_edges_and_impossible_ones_are_left_out(store: Store, database: Callable[..., Path]) -> None:
    path = database(
        ("m1", 0, "monday", "one", "tuesday"),
        ("m2", 0, "monday", "two", "gone"),
        ("m3", 0, "", "of no session", None),
        ("tuesday", 1, "tuesday", "a summary", None),
    )
    await import_memory(store.memory, TARGET, path, "sqlite")
    rows = await store.memory.units("default", "ana")
    assert [(row.content, row.group_id, row.parent_id) for row in rows] == [
        ("one", "monday", None),
        ("two", "monday", None),
        ("of no session", "memforest", None),
        ("a summary", "tuesday", None),
    ]
    assert await memory_findings(store) == []


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"time": "yesterday"}, "'yesterday' is not a time in ISO 8601"),
        ({"metadata": "{"}, "unit 'm1'"),
        ({"visit": -1}, "unit 'm1'.*last_visit"),
    ],
)
async def test_damaged_unit_is_named(
    store: Store, database: Callable[..., Path], columns: dict[str, Any], words: str
) -> None:
    with pytest.raises(DocumentInvalid, match=words):
        await import_memory(store.memory, TARGET, database(FOREST[0], **columns), "sqlite")
    assert await store.memory.owner("default", "ana") is None


async def test_a_circle_of_parents_is_refused(store: Store, database: Callable[..., Path]) -> None:
    path = database(("a", 1, "monday", "a", "b"), ("b", 1, "monday", "b", "a"))
    with pytest.raises(DocumentInvalid, match="is its own ancestor"):
        await import_memory(store.memory, TARGET, path, "sqlite")


async def test_times_as_seconds_and_missing_times_are_read(store: Store, database: Callable[..., Path]) -> None:
    await import_memory(store.memory, TARGET, database(FOREST[0], time=1_767_348_000.0), "sqlite")
    (row,) = await store.memory.units("default", "ana")
    assert row.creation_time == datetime(2026, 1, 2, 10, tzinfo=UTC)
