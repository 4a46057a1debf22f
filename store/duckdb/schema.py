"""Migrate a database file to the schema of this version: each migration once, in order, in a transaction of its own."""

from pathlib import Path

import duckdb

from store.duckdb.statements import transaction
from store.interface.errors import DatabaseTooOld, DatabaseUnreadable
from store.sql.migrations import APPLIED, Migration, pending_migrations
from store.sql.migrations import known_migrations as migrations_of

_LEDGER = """
CREATE TABLE IF NOT EXISTS migrations (
    number INTEGER NOT NULL,
    name VARCHAR NOT NULL,
    checksum VARCHAR NOT NULL,
    applied_at TIMESTAMPTZ NOT NULL DEFAULT now()
)
"""


def known_migrations() -> list[Migration]:
    """Return the migrations of this version of the program, ordered by number."""
    return migrations_of("store.duckdb")


def migrate(connection: duckdb.DuckDBPyConnection, path: Path, known: list[Migration] | None = None) -> bool:
    """Apply the pending migrations; return whether there were any.

    Raises DatabaseTooNew, MigrationChanged, or DatabaseUnreadable if one fails.
    """
    try:
        connection.execute(_LEDGER)
        pending = _pending(connection, path, known_migrations() if known is None else known)
        for migration in pending:
            _apply(connection, migration)
    except duckdb.Error as error:
        raise DatabaseUnreadable(f"{path} cannot be migrated: {error}") from error
    return bool(pending)


def require_current(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Raise DatabaseTooOld, DatabaseTooNew or MigrationChanged unless exactly the known migrations were applied."""
    try:
        pending = _pending(connection, path, known_migrations())
    except duckdb.CatalogException as error:
        raise DatabaseUnreadable(f"{path} is a DuckDB database, but not one of this program") from error
    except duckdb.Error as error:
        raise DatabaseUnreadable(f"{path} cannot be read: {error}") from error
    if pending:
        raise DatabaseTooOld(f"{path} needs {len(pending)} migration(s); start the server on it once to apply them")


def _pending(connection: duckdb.DuckDBPyConnection, path: Path, known: list[Migration]) -> list[Migration]:
    return pending_migrations(connection.execute(APPLIED).fetchall(), known, path)


def _apply(connection: duckdb.DuckDBPyConnection, migration: Migration) -> None:
    with transaction(connection):
        connection.execute(migration.sql)
        connection.execute(
            "INSERT INTO migrations (number, name, checksum) VALUES (?, ?, ?)",
            [migration.number, migration.name, migration.checksum],
        )
