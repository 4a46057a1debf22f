"""The tables of an analytics file as Parquet, cut by day: the UTC day of each row's own time."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
from msgspec import Struct

from store.analytics.file import connect
from store.errors import AnalyticsUnreadable

DAY_OF: Mapping[str, str | None] = {
    "scripts": None,
    "script_actions": None,
    "script_variables": None,
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
    "memory_units": "creation_time",
}
"""By table the column whose day a row belongs to; None: the table is one file. All of the model but `about`, which is
told beside them.
"""


_SPILL = "spill"


class Part(Struct, frozen=True, rename="camel"):
    """One file: a table, or a day of it."""

    table: str
    day: str | None
    """As `2026-03-01`; None where the table is not cut."""
    rows: int
    fingerprint: str
    """Another one once any row of it is another, in whatever order they are."""

    @property
    def place(self) -> tuple[str, str]:
        """Table and day, empty where there is none."""
        return self.table, self.day or ""


class Parts(Struct, frozen=True, rename="camel"):
    """All files that a file of analysts comes to."""

    parts: Sequence[Part]


def parts(path: Path, folder: Path, since: str | None = None) -> Parts:
    """What a file comes to; days before `since` are left out. What does not fit into memory goes into the folder.

    Blocks. Raises AnalyticsUnreadable.
    """
    connection = connect(path, folder / _SPILL, read_only=True)
    try:
        found = [part for table in DAY_OF for part in _parts(connection, table, since)]
    except duckdb.Error as error:
        raise AnalyticsUnreadable(f"the analytics file cannot be read: {error}") from error
    finally:
        connection.close()
    return Parts(found)


def cut(path: Path, table: str, days: Sequence[str], folder: Path) -> Parts:
    """Write these days of a table, or the whole of one that is not cut, into a folder, each as `DAY.parquet` or
    `all.parquet`; a day without rows is written too. Blocks. Raises AnalyticsUnreadable.
    """
    connection = connect(path, folder / _SPILL, read_only=True)
    try:
        return Parts([_write(connection, table, day, folder) for day in (days if DAY_OF[table] else [None])])
    except duckdb.Error as error:
        raise AnalyticsUnreadable(f"the analytics file cannot be written as Parquet: {error}") from error
    finally:
        connection.close()


def name_of(day: str | None) -> str:
    """What `cut` calls a file."""
    return f"{day or 'all'}.parquet"


_PRINT = "count(*), coalesce(sum(hash(t)::HUGEINT), 0) || '-' || coalesce(bit_xor(hash(t, 7)), 0)"


def _parts(connection: duckdb.DuckDBPyConnection, table: str, since: str | None) -> list[Part]:
    column = DAY_OF[table]
    if column is None:
        return [_fingerprint(connection, table, None)]
    found = connection.execute(
        f"""SELECT t.{column}::DATE::VARCHAR AS day, {_PRINT} FROM {table} AS t
        WHERE $since IS NULL OR t.{column} >= $since::DATE::TIMESTAMPTZ GROUP BY day ORDER BY day""",  # noqa: S608
        {"since": since},
    ).fetchall()
    return [Part(table, day, rows, fingerprint) for day, rows, fingerprint in found]


def _fingerprint(connection: duckdb.DuckDBPyConnection, table: str, day: str | None) -> Part:
    found = connection.execute(f"SELECT {_PRINT} FROM ({_rows(table, day)}) AS t", _given(day)).fetchall()  # noqa: S608
    return Part(table, day, *found[0])


def _write(connection: duckdb.DuckDBPyConnection, table: str, day: str | None, folder: Path) -> Part:
    target = str(folder / name_of(day)).replace("'", "''")
    connection.execute(f"COPY ({_rows(table, day)}) TO '{target}' (FORMAT parquet, COMPRESSION zstd)", _given(day))
    return _fingerprint(connection, table, day)


def _rows(table: str, day: str | None) -> str:
    if day is None:
        return f"SELECT * FROM {table}"  # noqa: S608
    column = DAY_OF[table]
    return f"""SELECT * FROM {table} WHERE {column} >= $day::DATE::TIMESTAMPTZ
        AND {column} < ($day::DATE + 1)::TIMESTAMPTZ"""  # noqa: S608


def _given(day: str | None) -> dict[str, str]:
    return {} if day is None else {"day": day}
