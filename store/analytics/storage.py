"""Snapshots: copies of analytics files with digests of their tables, also for tools that embed an older DuckDB."""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Literal, TypeAlias

import duckdb

from store.analytics.file import connect
from store.analytics.parquet import DAY_OF, DIGEST
from store.duckdb.database_file import quoted
from store.interface.errors import AnalyticsUnreadable

StorageVersion: TypeAlias = Literal["v1.0.0", "v1.2.0", "v1.3.0", "v1.4.0", "v1.5.0", "v2.0.0"]
"""The first version of DuckDB that reads a format; versions in between read the format of the previous one."""
OWN: StorageVersion = "v2.0.0"
"""The format of the analytics files."""
# Another version of DuckDB may hash differently, so that its digests cannot be compared.
_STORED = "SELECT name, (rows, digest) FROM internal.digests WHERE written_by = version()"


def finish_snapshot(path: Path, version: StorageVersion, spill: Path) -> None:
    """Give a copy of an analytics file a storage format, and add the digests of its tables. Blocks.

    Raises AnalyticsUnreadable.
    """
    try:
        if version != OWN:
            _convert(path, version, spill)
        with closing(connect(path, spill)) as connection:
            connection.execute(
                "CREATE TABLE internal.digests (name VARCHAR, rows BIGINT, digest VARCHAR, written_by VARCHAR)"
            )
            for table in DAY_OF:
                row = [table, *table_digest(connection, table)]
                connection.execute("INSERT INTO internal.digests VALUES (?, ?, ?, version())", row)
            connection.execute("CHECKPOINT analytics")
    except duckdb.Error as error:
        raise AnalyticsUnreadable(f"the analytics file cannot be written for DuckDB {version}: {error}") from error


def _convert(path: Path, version: StorageVersion, spill: Path) -> None:
    converted = path.with_name(f"{path.name}.converted")
    with closing(connect(path, spill, read_only=True)) as connection:
        connection.execute(f"ATTACH {quoted(converted)} AS target (STORAGE_VERSION '{version}')")
        connection.execute("COPY FROM DATABASE analytics TO target")
        connection.execute("DETACH target")
    converted.replace(path)


def table_digest(connection: duckdb.DuckDBPyConnection, table: str) -> tuple[int, str]:
    """Return the number of rows of a table, and a digest of them. Raises duckdb.Error."""
    [(rows, digest)] = connection.execute(f"SELECT {DIGEST} FROM {table} AS t").fetchall()  # noqa: S608
    return rows, digest


def stored_digests(connection: duckdb.DuckDBPyConnection) -> Mapping[str, tuple[int, str]]:
    """Return the digests of the tables of a snapshot; none for another file, or if they cannot be compared."""
    present = "SELECT 1 FROM duckdb_tables() WHERE schema_name = 'internal' AND table_name = 'digests'"
    return dict(connection.execute(_STORED).fetchall()) if connection.execute(present).fetchall() else {}
