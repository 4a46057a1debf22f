"""Write the tables of an analytics file as Parquet, partitioned by the UTC day of each row."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import duckdb
from msgspec import Struct

from store.duckdb.database_file import quote

DAY_OF: Mapping[str, str | None] = {
    "scripts": None,
    "script_actions": None,
    "script_variables": None,
    "script_arms": None,
    "script_milestones": None,
    "users": None,
    "sessions": "created_at",
    "turns": "finished_at",
    "failed_turns": "failed_at",
    "session_migrations": "migrated_at",
    "messages": "created_at",
    "events": "recorded_at",
    "action_visits": "entered_at",
    "scope_visits": "entered_at",
    "waits": "asked_at",
    "variable_history": "written_at",
    "variables_current": "written_at",
    "llm_calls": "started_at",
    "detections": "detected_at",
    "exposures": "exposed_at",
    "milestones": "reached_at",
    "ratings": "rated_at",
    "memory_units": "creation_time",
}
"""The column that determines the day of a row, by table; None: the table is not partitioned. It has all tables of the
model except `about`.
"""
DIGEST = "count(*), coalesce(sum(hash(t)::HUGEINT), 0) || '-' || coalesce(bit_xor(hash(t, 8)), 0)"
"""SQL for the number of rows of `t` and a digest of them that does not depend on their order. When columns get other
types in the files, another second argument of `hash` lets the next export write all files again.
"""
FILE = "part.parquet"
DAYS_MAX = 100
"""Days that one statement writes: DuckDB keeps as many files open, and would write further days in several files."""


class Part(Struct, frozen=True, rename="camel"):
    """One file: a table, or a day of it."""

    table: str
    day: str | None
    """Such as `2026-03-01`; None if the table is not partitioned."""
    rows: int
    fingerprint: str
    """A digest of the rows that does not depend on their order."""

    @property
    def path(self) -> Path:
        """The relative path, in the layout of Hive partitions."""
        return Path(self.table, FILE) if self.day is None else Path(self.table, f"day={self.day}", FILE)


def parts(connection: duckdb.DuckDBPyConnection, since: str | None = None) -> list[Part]:
    """Return the parts of a file without writing them; days before `since` are left out. Raises duckdb.Error."""
    return [part for table in DAY_OF for part in _parts(connection, table, since)]


def _parts(connection: duckdb.DuckDBPyConnection, table: str, since: str | None) -> list[Part]:
    rows = f"SELECT {_day(table)} AS day, t FROM ({_texts(connection, table)}) AS t"  # noqa: S608
    found = connection.execute(
        f"""SELECT any_value(day), {DIGEST} FROM ({rows})
        WHERE $since IS NULL OR day IS NULL OR day >= $since
        {"GROUP BY day ORDER BY day" if DAY_OF[table] else ""}""",  # noqa: S608
        {"since": since},
    ).fetchall()
    return [Part(table, *row) for row in found]


def write(connection: duckdb.DuckDBPyConnection, table: str, days: Iterable[str | None], folder: Path) -> None:
    """Write at most DAYS_MAX days of a table, or a whole table, into a folder at the paths of its parts.

    Raises duckdb.Error.
    """
    options = "FORMAT parquet, COMPRESSION zstd"
    (folder / table).mkdir(parents=True, exist_ok=True)
    rows = _texts(connection, table)
    if DAY_OF[table] is None:
        connection.execute(f"COPY ({rows}) TO {quote(folder / table / FILE)} ({options})")
        return
    select = f"SELECT *, {_day(table)} AS day FROM ({rows}) WHERE list_contains($days, {_day(table)})"  # noqa: S608
    connection.execute(f"COPY ({select}) TO {quote(folder / table)} ({options}, PARTITION_BY (day))", {"days": days})
    for day in (folder / table).iterdir():
        [file] = day.iterdir()
        file.rename(day / FILE)


def _day(table: str) -> str:
    column = DAY_OF[table]
    return "NULL" if column is None else f"{column}::DATE::VARCHAR"


def _texts(connection: duckdb.DuckDBPyConnection, table: str) -> str:
    """Return SQL for a table with UUIDs and JSON as text: Spark refuses UUIDs, and polars reads both as bytes."""
    columns = connection.execute(
        """SELECT column_name FROM duckdb_columns()
        WHERE database_name = current_database() AND schema_name = 'main' AND table_name = $table
            AND data_type IN ('UUID', 'JSON')
        ORDER BY column_index""",
        {"table": table},
    ).fetchall()
    texts = ", ".join(f"{column}::VARCHAR AS {column}" for (column,) in columns)
    return f"SELECT *{f' REPLACE ({texts})' if texts else ''} FROM {table}"  # noqa: S608
