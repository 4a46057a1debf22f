"""Rows of the database of a store, read past the store."""

from pathlib import Path
from typing import Any

import psycopg

from store.duckdb.database import Database
from store.postgres_store import PostgresStore
from store.store import Store

OWNED = """SELECT table_name, column_name FROM information_schema.columns JOIN information_schema.tables
    USING (table_schema, table_name)
    WHERE table_type = 'BASE TABLE' AND column_name IN ('session_id', 'user_id')
        AND table_schema IN ('main', 'public')"""


def rows_of(store: Store, folder: Path, sql: str) -> list[Any]:
    """Return the rows of a SELECT. A store over a database file must be closed."""
    if isinstance(store, PostgresStore):
        with psycopg.connect(str(store._engine.pool.conninfo)) as connection:
            return connection.execute(sql.encode()).fetchall()
    database = Database.open(folder)
    cursor = database.cursor()
    found = cursor.execute(sql).fetchall()
    cursor.close()
    database.close()
    return found


def owned_columns(store: Store, folder: Path) -> set[tuple[str, str]]:
    """Return every column of a table that names a session or a user."""
    return {(table, column) for table, column in rows_of(store, folder, OWNED)}
