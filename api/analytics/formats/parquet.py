"""Encodes a table as Parquet with native types, and decodes one."""

import re
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb

from api.analytics.formats.json_and_csv import encode
from store.analytics.query import Column, Table
from store.interface.errors import QueryRefused

_LONG_MAX = 2**63
_MEMORY = "512MB"
_TEXT = re.compile(r"\b(UUID|JSON)\b(?!\"? )")
"""Matches the types, also within lists and records; a field named UUID is followed by a type and does not match."""


def as_parquet(table: Table) -> bytes:
    """Encode a table as the bytes of a Parquet file. Blocks.

    Parquet has no integers above 64 bits: sums (HUGEINT) become BIGINT if all of them fit, else DOUBLE, as DuckDB does.
    Types that Parquet lacks (TUPLE) become JSON text. Ids (UUID) and JSON become text: Spark refuses UUIDs, and polars
    reads both as bytes. Raises QueryRefused for values without a form in Parquet, such as intervals below zero.
    """
    with tempfile.TemporaryDirectory(prefix="cuebook-") as folder, closing(_connect()) as connection:
        path = Path(folder) / "table.parquet"
        columns = [_column(column, [row[place] for row in table.rows]) for place, column in enumerate(table.columns)]
        parts = ", ".join(
            f"unnest(${place}::{kind}[]::{_TEXT.sub('VARCHAR', kind)}[]) AS {_quote(name)}"
            for place, (name, (kind, _)) in enumerate(zip(table.names(), columns, strict=True), 1)
        )
        try:
            connection.execute(
                f"COPY (SELECT {parts}) TO '{path}' (FORMAT parquet, COMPRESSION zstd)",
                [values for _, values in columns],
            )
        except duckdb.Error as error:
            raise _why_not_written(error) from error
        return path.read_bytes()


def _why_not_written(error: duckdb.Error) -> Exception:
    """Return QueryRefused for a value that Parquet cannot contain, otherwise the error itself."""
    cause = str(error).partition("\n")[0].partition("Error: ")[2]
    if not isinstance(error, duckdb.ConversionException) and "Parquet" not in cause:
        return error
    return QueryRefused(f"Parquet cannot contain this result: {cause}; change the query, or choose another format")


def _connect() -> duckdb.DuckDBPyConnection:
    bounds = {"threads": "1", "memory_limit": _MEMORY}
    connection = duckdb.connect(config={**bounds, "autoinstall_known_extensions": "false"})
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _column(column: Column, values: list[Any]) -> tuple[str, list[Any]]:
    """Return the column's type in the file, and its values."""
    if "TUPLE(" in column.type:
        return "JSON", [None if value is None else encode(value).decode() for value in values]
    if column.type in {"HUGEINT", "UHUGEINT"} and all(
        value is None or -_LONG_MAX <= value < _LONG_MAX for value in values
    ):
        return "BIGINT", values
    return column.type, values


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def from_parquet(content: bytes) -> Table:
    """Return the table of a Parquet file's bytes. Blocks."""
    with tempfile.TemporaryDirectory(prefix="cuebook-") as folder, closing(duckdb.connect(":memory:")) as connection:
        file = Path(folder) / "table.parquet"
        file.write_bytes(content)
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("FROM read_parquet(?)", [str(file)])
        columns = tuple(Column(name, str(kind)) for name, kind, *_ in connection.description or ())
        return Table(columns, connection.fetchall())
