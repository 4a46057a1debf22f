"""The tables of an analytics file as Parquet, cut by day: the UTC day of each row's own time."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import duckdb
from msgspec import Struct

from store.analytics.file import connect
from store.database import quoted
from store.errors import AnalyticsUnreadable

DAY_OF: Mapping[str, str | None] = {
    "scripts": None,
    "script_actions": None,
    "script_variables": None,
    "script_arms": None,
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


Place: TypeAlias = tuple[str, str | None]
"""A table, and a day of it as `2026-03-01`; None where the table is not cut."""
FILE = "part.parquet"
_SPILL = "spill"


class Part(Struct, frozen=True, rename="camel"):
    """One file: a table, or a day of it."""

    table: str
    day: str | None
    rows: int
    fingerprint: str
    """Another one once any row of it is another, in whatever order they are."""

    @property
    def place(self) -> Place:
        """Table and day."""
        return self.table, self.day


class Parts(Struct, frozen=True, rename="camel"):
    """Several files."""

    parts: Sequence[Part]


def path_of(place: Place) -> str:
    """Where the file of a part lies in a folder of them, as others look for the days of a table."""
    table, day = place
    return f"{table}/{FILE}" if day is None else f"{table}/day={day}/{FILE}"


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


def cut(path: Path, places: Sequence[Place], folder: Path) -> Parts:
    """Write days of tables, and tables that are not cut, into a folder; a day without rows is written too. Blocks.

    Raises AnalyticsUnreadable.
    """
    connection = connect(path, folder / _SPILL, read_only=True)
    try:
        return Parts([_write(connection, place, folder) for place in places])
    except duckdb.Error as error:
        raise AnalyticsUnreadable(f"the analytics file cannot be written as Parquet: {error}") from error
    finally:
        connection.close()


_PRINT = "count(*), coalesce(sum(hash(t)::HUGEINT), 0) || '-' || coalesce(bit_xor(hash(t, 7)), 0)"


def _parts(connection: duckdb.DuckDBPyConnection, table: str, since: str | None) -> list[Part]:
    column = DAY_OF[table]
    if column is None:
        return [_fingerprint(connection, (table, None))]
    found = connection.execute(
        f"""SELECT t.{column}::DATE::VARCHAR AS day, {_PRINT} FROM ({_texts(connection, table)}) AS t
        WHERE $since IS NULL OR t.{column} >= $since::DATE::TIMESTAMPTZ GROUP BY day ORDER BY day""",  # noqa: S608
        {"since": since},
    ).fetchall()
    return [Part(table, day, rows, fingerprint) for day, rows, fingerprint in found]


def _fingerprint(connection: duckdb.DuckDBPyConnection, place: Place) -> Part:
    found = connection.execute(f"SELECT {_PRINT} FROM ({_rows(connection, place)}) AS t", _given(place)).fetchall()  # noqa: S608
    return Part(*place, *found[0])


def _write(connection: duckdb.DuckDBPyConnection, place: Place, folder: Path) -> Part:
    target = folder / path_of(place)
    target.parent.mkdir(parents=True, exist_ok=True)
    rows = _rows(connection, place)
    connection.execute(f"COPY ({rows}) TO {quoted(target)} (FORMAT parquet, COMPRESSION zstd)", _given(place))
    return _fingerprint(connection, place)


def _texts(connection: duckdb.DuckDBPyConnection, table: str) -> str:
    """The rows of a table with ids as text: Spark refuses Parquet's UUIDs, and polars reads bytes."""
    columns = connection.execute(
        """SELECT column_name FROM duckdb_columns()
        WHERE database_name = current_database() AND schema_name = 'main' AND table_name = $table AND data_type = 'UUID'
        ORDER BY column_index""",
        {"table": table},
    ).fetchall()
    texts = ", ".join(f"{column}::VARCHAR AS {column}" for (column,) in columns)
    return f"SELECT *{f' REPLACE ({texts})' if texts else ''} FROM {table}"  # noqa: S608


def _rows(connection: duckdb.DuckDBPyConnection, place: Place) -> str:
    table, day = place
    if day is None:
        return _texts(connection, table)
    column = DAY_OF[table]
    return f"""{_texts(connection, table)} WHERE {column} >= $day::DATE::TIMESTAMPTZ
        AND {column} < ($day::DATE + 1)::TIMESTAMPTZ"""


def _given(place: Place) -> dict[str, str]:
    return {} if place[1] is None else {"day": place[1]}
