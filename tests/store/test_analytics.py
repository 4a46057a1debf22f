"""An analyst's SELECT reads everything in the record, and nothing else."""

from pathlib import Path

import pytest

from store.analytics.query import QueryLimits, query
from store.errors import DatabaseLocked, QueryRefused, ReadTimedOut
from store.record import Record


@pytest.fixture
async def folder(tmp_path: Path, conversation, rows) -> Path:
    record = Record.open(tmp_path)
    await conversation.create(record)
    for mood in ("low", "fine"):
        await conversation.say(record, [rows.write_of("心情", mood)], state={"mood": mood})
    await record.close()
    return tmp_path


@pytest.mark.parametrize(
    ("sql", "answer"),
    [
        ("SELECT count(*), max(seq) FROM messages WHERE role = 'assistant'", (3, 6)),
        ("SELECT turn, new->>'$' FROM variable_history WHERE name = '心情' ORDER BY turn DESC LIMIT 1", (2, "fine")),
        ("SELECT status, turn, message_count, completed_at FROM sessions", ("active", 2, 6, None)),
        ("SELECT sum(data.step::INT), count(DISTINCT kind) FROM events", (18, 1)),
        ("SELECT state->>'mood' FROM snapshots ORDER BY turn DESC", ("fine",)),
        ("WITH a AS (SELECT 1 AS one) FROM a;", (1,)),
        ("SELECT typeof(created_at), typeof(seq), typeof(session_id) FROM messages",
         ("TIMESTAMP WITH TIME ZONE", "INTEGER", "UUID")),
    ],
)  # fmt: skip
def test_a_select_is_answered(folder: Path, sql: str, answer: tuple) -> None:
    assert query(folder, sql).rows[0] == answer


@pytest.mark.parametrize(
    "sql",
    [
        "", "SELEC", "SELECT nothing", "SELECT 1; SELECT 2", "DELETE FROM turns", "DROP VIEW messages", "CHECKPOINT",
        "SET threads = 1", "ATTACH 'other.duckdb'", "COPY turns TO 'x.csv'", "INSTALL httpfs", "BEGIN",
        "SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM read_text('/etc/passwd')", "FROM '/etc/passwd'",
        "SELECT * FROM glob('/*')", "SELECT * FROM query('DROP TABLE turns')", "EXPLAIN ANALYZE DELETE FROM turns",
    ],
)  # fmt: skip
def test_anything_else_is_refused(folder: Path, sql: str) -> None:
    with pytest.raises(QueryRefused):
        query(folder, sql)
    assert query(folder, "SELECT count(*) FROM turns").rows == [(3,)]


def test_the_answer_and_its_time_are_bounded(folder: Path) -> None:
    result = query(folder, "SELECT range AS n FROM range(50)", QueryLimits(rows_max=10))
    assert (result.columns, len(result.rows), result.truncated) == (["n"], 10, True)
    assert not query(folder, "SELECT 1 FROM range(10)", QueryLimits(rows_max=10)).truncated
    with pytest.raises(ReadTimedOut):
        query(folder, "SELECT count(*) FROM range(1000000000000)", QueryLimits(timeout_s=0.2))


async def test_a_folder_in_use_is_named(folder: Path) -> None:
    record = Record.open(folder)
    with pytest.raises(DatabaseLocked):
        query(folder, "SELECT 1")
    await record.close()
