"""The reference of the model: its tables and columns with the comments from its SQL."""

from functools import cache

import duckdb
from msgspec import Struct

from store.analytics.file import run_sql, sql_of


class DescribedColumn(Struct, frozen=True):
    """A column of a table of the model."""

    name: str
    type: str
    nullable: bool
    means: str


class DescribedTable(Struct, frozen=True):
    """A table of the model."""

    name: str
    means: str
    columns: tuple[DescribedColumn, ...]


@cache
def described_tables() -> tuple[DescribedTable, ...]:
    """Return all tables of the model, in the order of its SQL."""
    connection = duckdb.connect(":memory:")
    try:
        connection.execute("BEGIN")  # one transaction instead of one for each of some 500 comments
        run_sql(connection, sql_of("tables"))
        columns = connection.execute(
            """SELECT table_name, column_name, data_type, is_nullable, comment FROM duckdb_columns()
            WHERE schema_name = 'main' AND NOT internal ORDER BY table_oid, column_index"""
        ).fetchall()
        tables = connection.execute(
            "SELECT table_name, comment FROM duckdb_tables() WHERE schema_name = 'main' ORDER BY table_oid"
        ).fetchall()
    finally:
        connection.close()
    return tuple(
        DescribedTable(name, means, tuple(DescribedColumn(*column) for table, *column in columns if table == name))
        for name, means in tables
    )
