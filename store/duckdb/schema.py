"""Migrate a database file to the schema of this version: each migration once, in order, in a transaction of its own."""

import hashlib
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import duckdb

from store.duckdb.insert import roll_back
from store.interface.errors import DatabaseTooNew, DatabaseTooOld, DatabaseUnreadable, MigrationChanged

_LEDGER = """
CREATE TABLE IF NOT EXISTS migrations (
    number INTEGER NOT NULL,
    name VARCHAR NOT NULL,
    checksum VARCHAR NOT NULL,
    applied_at TIMESTAMPTZ NOT NULL DEFAULT now()
)
"""


class Migration(NamedTuple):
    """One file of `store/migrations`, named `NNNN_name.sql`."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the text, as stored in the database that it was applied to."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


def known_migrations() -> list[Migration]:
    """Return the migrations of this version of the program, ordered by number."""
    files = [
        file for file in resources.files("store.duckdb").joinpath("migrations").iterdir() if file.name.endswith(".sql")
    ]
    return sorted(
        Migration(int(number), name, file.read_text(encoding="utf-8"))
        for file in files
        for number, _, name in [file.name.removesuffix(".sql").partition("_")]
    )


def migrate(connection: duckdb.DuckDBPyConnection, path: Path, known: list[Migration] | None = None) -> None:
    """Apply the pending migrations. Raises DatabaseTooNew, MigrationChanged, or DatabaseUnreadable if one fails.

    They are written to the database file at once: a database whose log is lost is still the same database.
    """
    try:
        connection.execute(_LEDGER)
        pending = _pending(connection, path, known_migrations() if known is None else known)
        for migration in pending:
            _apply(connection, migration)
        if pending:
            connection.execute("CHECKPOINT")
    except duckdb.Error as error:
        raise DatabaseUnreadable(f"{path} cannot be migrated: {error}") from error


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
    applied: dict[int, tuple[str, str]] = {
        number: (name, checksum)
        for number, name, checksum in connection.execute("SELECT number, name, checksum FROM migrations").fetchall()
    }
    newest = max((migration.number for migration in known), default=0)
    if applied and max(applied) > newest:
        name, _ = applied[max(applied)]
        raise DatabaseTooNew(
            f"{path} was written by a newer version (migration {max(applied)}, {name}); upgrade this one"
        )
    for migration in known:
        if migration.number in applied and applied[migration.number][1] != migration.checksum:
            raise MigrationChanged(
                f"migration {migration.number} ({migration.name}) has changed since it was applied to {path}"
            )
    return [migration for migration in known if migration.number not in applied]


def _apply(connection: duckdb.DuckDBPyConnection, migration: Migration) -> None:
    connection.execute("BEGIN")
    try:
        connection.execute(migration.sql)
        connection.execute(
            "INSERT INTO migrations (number, name, checksum) VALUES (?, ?, ?)",
            [migration.number, migration.name, migration.checksum],
        )
        connection.execute("COMMIT")
    except duckdb.Error:
        roll_back(connection)
        raise
