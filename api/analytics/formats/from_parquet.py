"""A table that was written as Parquet, read again with all its types."""

import tempfile
from contextlib import closing
from pathlib import Path

import duckdb

from store.analytics.table import Column, Table


def from_parquet(content: bytes, *, truncated: bool = False) -> Table:
    """The table. Blocks."""
    with tempfile.TemporaryDirectory(prefix="cuebook-") as folder, closing(duckdb.connect(":memory:")) as connection:
        file = Path(folder) / "table.parquet"
        file.write_bytes(content)
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("FROM read_parquet(?)", [str(file)])
        columns = tuple(Column(name, str(kind)) for name, kind, *_ in connection.description or ())
        return Table(columns, connection.fetchall(), truncated)
