"""A table as Parquet, its columns of their own types."""

import re
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb

from api.analytics.formats.as_json import encoded
from store.analytics.table import Column, Table

_LONG_MAX = 2**63
_MEMORY = "512MB"
_UUID = re.compile(r"\bUUID\b(?!\"? )")
"""The type, also within lists and records; a field of this name has a type after it."""


def as_parquet(table: Table) -> bytes:
    """The bytes of a Parquet file. Blocks.

    Parquet has no integers beyond 64 bits: sums (HUGEINT) are BIGINT where all of them fit, else DOUBLE, which is
    DuckDB's choice. What has no type there (TUPLE) is JSON text. Ids (UUID) are text: Spark refuses the type, and
    polars reads bytes.
    """
    with tempfile.TemporaryDirectory(prefix="cuebook-") as folder, closing(_connect()) as connection:
        path = Path(folder) / "table.parquet"
        columns = [_column(column, [row[place] for row in table.rows]) for place, column in enumerate(table.columns)]
        parts = ", ".join(
            f"unnest(${place}::{kind}[]::{_UUID.sub('VARCHAR', kind)}[]) AS {_quoted(name)}"
            for place, (name, (kind, _)) in enumerate(zip(table.names(), columns, strict=True), 1)
        )
        connection.execute(
            f"COPY (SELECT {parts}) TO '{path}' (FORMAT parquet, COMPRESSION zstd)",
            [values for _, values in columns],
        )
        return path.read_bytes()


def _connect() -> duckdb.DuckDBPyConnection:
    bounds = {"threads": "1", "memory_limit": _MEMORY}
    connection = duckdb.connect(config={**bounds, "autoinstall_known_extensions": "false"})
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _column(column: Column, values: list[Any]) -> tuple[str, list[Any]]:
    """The type in the file, and the values for it."""
    if "TUPLE(" in column.type:
        return "JSON", [None if value is None else encoded(value).decode() for value in values]
    if column.type in {"HUGEINT", "UHUGEINT"} and all(
        value is None or -_LONG_MAX <= value < _LONG_MAX for value in values
    ):
        return "BIGINT", values
    return column.type, values


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
