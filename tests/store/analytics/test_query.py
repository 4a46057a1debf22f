"""An analyst's SELECT reads what is in a file, and nothing else, within bounds."""

from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from store.analytics.query import QueryLimits, query
from store.interface.errors import DatabaseLocked, DatabaseUnreadable, QueryRefused, QueryStopped

ROWS = 3_000


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("analytics") / "it's masked.duckdb"
    with closing(duckdb.connect(str(path))) as connection:
        connection.execute(f"""
            CREATE TABLE sessions AS SELECT i AS id, 'user ' || i AS user_id, TIMESTAMPTZ '2026-03-01 08:00:00+00'
                + i * INTERVAL 1 HOUR AS started_at, ['心情', NULL] AS tags FROM range({ROWS}) AS r(i);
            CREATE VIEW recent AS FROM sessions WHERE id > 2990;
            CREATE SCHEMA internal;
            CREATE TABLE internal.marks AS SELECT 1 AS mark;
            CREATE MACRO funnel(least := 0) AS TABLE
                SELECT count(*) AS sessions, any_value(mark) AS mark FROM sessions, internal.marks WHERE id >= least;
        """)
    return path


@pytest.mark.gate
@pytest.mark.parametrize(
    ("sql", "answer"),
    [
        ("SELECT count(*), min(user_id) FROM sessions", (ROWS, "user 0")),
        ("  select ID from \"Sessions\" where id = 7 -- the seventh", (7,)),
        ("FROM recent SELECT max(id)", (2999,)),
        ("SELECT n FROM analytics.main.sessions AS s(n) LIMIT 1", (0,)),
        ("FROM funnel(least := 2000)", (1000, 1)),
        ("WITH a AS (SELECT 1 AS n), b AS (SELECT n + 1 AS n FROM a) FROM b;", (2,)),
        ("WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT sum(n) FROM t", (15,)),
        ("SELECT count(*) FROM sessions AS s, LATERAL (SELECT s.id % 2 AS odd) WHERE odd = 1", (ROWS // 2,)),
        ("SELECT tags[1], list_transform([1, 2], lambda x: x * 2), {'a': 1}.a FROM sessions LIMIT 1",
         ("心情", [2, 4], 1)),
        ("SELECT user_id, row_number() OVER (ORDER BY id DESC) FROM sessions QUALIFY row_number() OVER () = 1",
         ("user 0", ROWS)),
        ("SELECT * FROM (PIVOT recent ON id IN (2998, 2999) USING count(*) GROUP BY tags)", (["心情", None], 1, 1)),
        ("SELECT typeof(started_at), typeof(id) FROM sessions", ("TIMESTAMP WITH TIME ZONE", "BIGINT")),
        ("SELECT date_trunc('day', started_at)::VARCHAR FROM sessions LIMIT 1", ("2026-03-01 00:00:00+00",)),
        ("VALUES (1, 'one'), (2, 'two')", (1, "one")),
        ("DESCRIBE sessions", ("id", "BIGINT", "YES", None, None, None)),
        ("SELECT column_name FROM (SUMMARIZE recent)", ("id",)),
        ("SHOW TABLES", ("recent",)),
        ("SELECT table_name FROM information_schema.tables WHERE table_schema = 'main' ORDER BY ALL", ("recent",)),
        ("SELECT comment FROM duckdb_tables() WHERE table_name = 'sessions'", (None,)),
        ("SELECT explain_key FROM (VALUES (1)) AS t(explain_key)", (1,)),
        ("FROM sessions TABLESAMPLE 100% SELECT count(*)", (ROWS,)),
        ("SELECT id FROM recent UNION ALL SELECT -1 ORDER BY 1 LIMIT 1", (-1,)),
        ("SELECT unnest([3, 4]), json('{\"a\": 5}')->>'a'", (3, "5")),
    ],
)  # fmt: skip
def test_a_query_is_answered(file: Path, sql: str, answer: tuple[Any, ...]) -> None:
    assert query(file, sql).rows[0] == answer


def test_the_columns_have_names_and_types(file: Path) -> None:
    table = query(file, "SELECT id, id, tags, 1.5 AS share, {'a': now()} AS s FROM sessions LIMIT 0")
    assert [(column.name, column.type) for column in table.columns] == [
        ("id", "BIGINT"),
        ("id", "BIGINT"),
        ("tags", "VARCHAR[]"),
        ("share", "DECIMAL(2,1)"),
        ("s", "STRUCT(a TIMESTAMP WITH TIME ZONE)"),
    ]
    assert (table.rows, table.truncated_by) == ([], None)


def test_a_plan_is_shown(file: Path) -> None:
    for sql in ("EXPLAIN FROM sessions", "explain analyze\nFROM recent"):
        ((kind, plan), *_) = query(file, sql).rows
        assert "plan" in kind
        assert "sessions" in plan.lower()


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("", "one statement, not 0"),
        ("SELEC 1", 'syntax error at or near "SELEC"\n\nLINE 1: SELEC 1\n        ^^^^^'),
        ("SELECT id,\n usr_id FROM sessions",
         'Candidate bindings: "user_id", "started_at"\n\nLINE 2:  usr_id FROM sessions\n         ^^^^^^'),
        ("SELECT 心 FROM sesions", "no table sesions here; did you mean sessions?\n\nLINE 1: SELECT 心 FROM sesions\n"
         "                      ^^^^^^^"),
        ("FROM funel()", "did you mean funnel?"),
        ("SELECT 1;\nSELECT 2", "one statement, not 2"),
        ("SELECT $1", "write the value itself\n\nLINE 1: SELECT $1\n               ^^"),
        ("PIVOT sessions ON tags USING count(*)", "ON column IN (value, …)"),
        ("SELECT\n getenv('HOME')", "getenv() cannot be used here\n\nLINE 2:  getenv('HOME')\n         ^^^^^^^^^^^^^^"),
        ("EXPLAIN FROM glob('*')",
         "read from glob()\n\nLINE 1: EXPLAIN FROM glob('*')\n                     ^^^^^^^^^"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(file: Path, sql: str, said: str) -> None:
    with pytest.raises(QueryRefused) as refused:
        query(file, sql)
    assert said in str(refused.value)


def test_the_answer_is_bounded(file: Path) -> None:
    table = query(file, "SELECT range AS n FROM range(1_000_000_000_000)", QueryLimits(rows_max=10))
    assert (table.names(), table.rows, table.truncated_by) == (["n"], [(n,) for n in range(10)], "rows")
    assert query(file, "SELECT 1 FROM range(10)", QueryLimits(rows_max=10)).truncated_by is None
    table = query(file, "SELECT repeat('x', 1000) FROM range(5000)", QueryLimits(bytes_max=100_000))
    assert 90 < len(table.rows) < 100
    assert table.truncated_by == "bytes"
    with pytest.raises(QueryStopped, match="first row alone is larger than 1 MB"):
        query(file, "SELECT [repeat('x', 2_000_000)]", QueryLimits(bytes_max=1_000_000))


def test_time_and_memory_are_bounded(file: Path) -> None:
    with pytest.raises(QueryStopped, match=r"longer than 0\.2 s"):
        query(file, "SELECT count(*) FROM range(1_000_000_000_000)", QueryLimits(timeout_s=0.2))
    with pytest.raises(QueryStopped, match="more than 50 MB of memory"):
        query(file, "SELECT i FROM range(100_000_000) t(i) ORDER BY hash(i)", QueryLimits(memory_bytes_max=50_000_000))


def test_a_file_that_is_not_to_be_had_is_named(file: Path, tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnreadable, match="there is no database at"):
        query(tmp_path / "none.duckdb", "SELECT 1")
    assert not (tmp_path / "none.duckdb").exists()
    with closing(duckdb.connect(str(tmp_path / "open.duckdb"))), pytest.raises(DatabaseLocked):
        query(tmp_path / "open.duckdb", "SELECT 1")
