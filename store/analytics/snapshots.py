"""Snapshots: copies of analytics files with digests of their tables, also for tools that embed an older DuckDB.

The check of a snapshot compares its tables, their numbers of rows and digests, and its masking. Nothing is derived
again: an analytics file is generated from the database, and is rebuilt if it is damaged. A snapshot is opened read-only
and without access to anything outside it, because it may come from an untrusted source.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Literal, TypeAlias

import duckdb
from msgspec import Struct

from store.analytics.file import About, about, connect, described_tables, run_sql
from store.analytics.parquet import DAY_OF, DIGEST
from store.duckdb.database_file import quote
from store.duckdb.event_fields_sql import remaining_event
from store.interface.errors import AnalyticsUnreadable, write_failure
from store.interface.findings import Finding
from store.interface.masking import HIDDEN, MASKED, Treatment

StorageVersion: TypeAlias = Literal["v1.0.0", "v1.2.0", "v1.3.0", "v1.4.0", "v1.5.0", "v2.0.0"]
"""The first version of DuckDB that reads a format; versions in between read the format of the previous one."""
OWN: StorageVersion = "v2.0.0"
"""The format of the analytics files."""
# Another version of DuckDB may hash differently, so that its digests cannot be compared.
_STORED = "SELECT name, (rows, digest) FROM internal.digests WHERE written_by = version()"
ENCLOSURE = "SET enable_external_access = false; SET lock_configuration = true"
TEXTS: dict[str, tuple[str, ...]] = {"variable_history": ("old", "new"), "variables_current": ("value",)}
"""Columns that contain no lists or records in a masked file, and no texts except of choices and dates."""
PSEUDONYM = "^u_[0-9a-f]{16}$"
_COUNTED = ("sessions", "turns", "messages", "events")  # tables whose rows the table `about` counts


def finish_snapshot(path: Path, version: StorageVersion, spill: Path) -> None:
    """Give a copy of an analytics file a storage format, and add the digests of its tables. Blocks.

    Raises AnalyticsUnreadable, DiskFull.
    """
    try:
        _copy_rows(path, version, spill)
        with closing(connect(path, spill)) as connection:
            connection.execute(
                "CREATE TABLE internal.digests (name VARCHAR, rows BIGINT, digest VARCHAR, written_by VARCHAR)"
            )
            for table in DAY_OF:
                row = [table, *table_digest(connection, table)]
                connection.execute("INSERT INTO internal.digests VALUES (?, ?, ?, version())", row)
            connection.execute("CHECKPOINT analytics")
    except duckdb.Error as error:
        failed = AnalyticsUnreadable(f"the analytics file cannot be written for DuckDB {version}: {error}")
        raise write_failure(error, "the snapshot", failed) from error


def _copy_rows(path: Path, version: StorageVersion, spill: Path) -> None:
    """Replace a file by one with the same rows: free blocks of an analytics file may contain bytes of deleted ones."""
    copied = path.with_name(f"{path.name}.copied")
    with closing(connect(path, spill, read_only=True)) as connection:
        connection.execute(f"ATTACH {quote(copied)} AS target (STORAGE_VERSION '{version}')")
        connection.execute("COPY FROM DATABASE analytics TO target")
        connection.execute("DETACH target")
    copied.replace(path)


def table_digest(connection: duckdb.DuckDBPyConnection, table: str) -> tuple[int, str]:
    """Return the number of rows of a table, and a digest of them. Raises duckdb.Error."""
    [(rows, digest)] = connection.execute(f"SELECT {DIGEST} FROM {table} AS t").fetchall()  # noqa: S608
    return rows, digest


def stored_digests(connection: duckdb.DuckDBPyConnection) -> Mapping[str, tuple[int, str]]:
    """Return the digests of the tables of a snapshot; none for another file, or if they cannot be compared."""
    present = "SELECT 1 FROM duckdb_tables() WHERE schema_name = 'internal' AND table_name = 'digests'"
    return dict(connection.execute(_STORED).fetchall()) if connection.execute(present).fetchall() else {}


# -- the check --------------------------------------------------------------------------------------------------------


class SnapshotCheck(Struct, frozen=True):
    """The description of a file, and the findings."""

    about: About
    findings: list[Finding]


def check(path: Path, on_progress: Callable[[int, int], None] = lambda done, total: None) -> SnapshotCheck:
    """Check a file; `on_progress` is called with the number of checked tables and of all tables. Blocks.

    Raises AnalyticsUnreadable if it is not a file of this version of the model.
    """
    if not path.is_file():
        raise AnalyticsUnreadable(f"there is no file {path}")
    with (
        tempfile.TemporaryDirectory(prefix="cuebook-verify-") as spill,
        closing(connect(path, Path(spill), read_only=True)) as connection,
    ):
        try:
            run_sql(connection, ENCLOSURE)
            found = about(connection)
            findings = [
                Finding(code=code, table=table, tenant=found.tenant, what=what)
                for code, table, what in _problems(connection, found, on_progress)
            ]
        except duckdb.Error as error:
            raise AnalyticsUnreadable(f"{path} cannot be read: {error}") from error
    return SnapshotCheck(found, findings)


_Problem = tuple[str, str, str]
"""Code, table, and what is wrong."""


def _problems(
    connection: duckdb.DuckDBPyConnection, found: About, on_progress: Callable[[int, int], None]
) -> Iterator[_Problem]:
    if problems := list(_schema(connection)):  # the other checks need these tables
        yield from problems
        return
    digests, tables = stored_digests(connection), model_columns()
    for number, (table, columns) in enumerate(tables.items(), start=1):
        rows, digest = table_digest(connection, table)
        if table in _COUNTED and rows != getattr(found, table):
            yield "file_counts_differ", table, f"there are {rows} rows, but the database had {getattr(found, table)}"
        if table in digests and digests[table] != (rows, digest):
            yield "file_differs", table, "its rows differ from those that the snapshot was taken with"
        for what, where in _find_unmasked(table, columns) if found.is_masked else ():
            ((hits,),) = connection.execute(f"SELECT count(*) FROM {table} WHERE {where}").fetchall()  # noqa: S608
            if hits:
                yield "file_unmasked", table, f"{hits} rows contain {what}"
        on_progress(number, len(tables))


_COLUMNS = """SELECT table_name, column_name, data_type FROM duckdb_columns()
    WHERE database_name = current_database() AND schema_name = 'main' AND NOT internal"""


def model_columns() -> dict[str, dict[str, str]]:
    """Return the columns of all tables of the model, with their types."""
    return {table.name: {column.name: column.type for column in table.columns} for table in described_tables()}


def _schema(connection: duckdb.DuckDBPyConnection) -> Iterator[_Problem]:
    actual = {(table, column): kind for table, column, kind in connection.execute(_COLUMNS).fetchall()}
    tables = {table for table, _ in actual}
    for table, columns in model_columns().items():
        if table not in tables:
            yield "model_differs", table, "the table is missing"
            continue
        for column, kind in columns.items():
            now = actual.get((table, column))
            if now != kind:
                what = "is missing" if now is None else f"has the type {now}, not {kind}"
                yield "model_differs", table, f"the column {column} {what}"


def _find_unmasked(table: str, columns: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the content that a table of a masked file must not have, and the condition of its rows."""
    for column in columns.keys() & _columns_treated(table, "words", "digest"):
        yield column, f"{column} IS NOT NULL"
    for column in columns.keys() & _columns_treated(table, "flag"):
        yield column, f"{column} NOT IN ('', '{HIDDEN}')"
    if values := _columns_treated(table, "value"):
        filled = " OR ".join(f'"{column}" IS NOT NULL' for column in sorted(values))
        yield "a value of a personal variable", f"is_pii AND ({filled})"
    for column in TEXTS.get(table, ()):
        kind = f'json_type("{column}")'
        texts = f"{kind} = 'VARCHAR' AND type NOT IN ('choice', 'date', 'time', 'datetime')"
        yield "a text, a list or a record", f"{kind} IN ('ARRAY', 'OBJECT') OR ({texts})"
    if table == "sessions":
        unwritten = "end_reason IS NOT NULL AND end_reason NOT IN (SELECT reason FROM internal.end_reasons)"
        yield "an end reason that is in no script", unwritten
    if table == "events":
        yield "unmasked data", f"data::VARCHAR IS DISTINCT FROM ({remaining_event()})::VARCHAR"
    if "user_id" in columns:
        yield "an unmasked user id", f"NOT regexp_matches(user_id, '{PSEUDONYM}')"


def _columns_treated(table: str, *treatments: Treatment) -> set[str]:
    """Return the columns of a table that are masked in one of these ways."""
    return {column for column, treatment in MASKED.get(table, {}).items() if treatment in treatments}
