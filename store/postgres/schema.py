"""Migrate a PostgreSQL database to the schema of this version: each migration once, in order, one server at a time."""

from typing import Any

import psycopg

from store.interface.errors import DatabaseTooOld, DatabaseUnreadable
from store.postgres.connection import IDLE_TIMEOUT_S, LOCK_TIMEOUT_S, PsycopgConnection, Tables
from store.sql.migrations import APPLIED, known_migrations, pending_migrations

_LEDGER = """
CREATE TABLE IF NOT EXISTS migrations (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied_at TIMESTAMPTZ NOT NULL DEFAULT now()
)
"""
_LOCK = 0x637565626F6F6B
"""The key of the advisory lock that servers hold while they migrate: the bytes of `cuebook`."""
VERSION_MIN = 150_000
_RESTORED = """
UPDATE {table} SET changed_in = '0' WHERE changed_in >= pg_snapshot_xmax(pg_current_snapshot())
"""
"""Rows of a copy that was restored have transactions of another server, which would be ahead of all that follow."""


def migrate(connection: PsycopgConnection, name: str, *, read_only: bool) -> None:
    """Apply the pending migrations in one transaction; with `read_only`, require that there are none.

    Raises DatabaseTooNew, DatabaseTooOld, MigrationChanged, DatabaseUnreadable.
    """
    if connection.info.server_version < VERSION_MIN:
        raise DatabaseUnreadable(
            f"{name} is PostgreSQL {connection.info.server_version // 10_000}; it must be 15 or later"
        )
    try:
        with connection.transaction():
            if not read_only:
                connection.execute("SELECT pg_advisory_xact_lock($1)", [_LOCK])  # another server may migrate for long
                connection.execute(  # all that uses a table waits behind a migration that waits for it
                    f"""SET LOCAL lock_timeout = '{LOCK_TIMEOUT_S}s';
                    SET LOCAL idle_in_transaction_session_timeout = '{IDLE_TIMEOUT_S}s'""".encode()
                )
                connection.execute(_LEDGER)
            _migrate(connection, name, read_only=read_only)
            if not read_only:
                for table in ("turns", "changed_sessions"):
                    connection.execute(_RESTORED.format(table=table).encode())
    except psycopg.errors.UndefinedTable as error:
        raise DatabaseUnreadable(f"{name} has no tables of this program; start a server on it first") from error
    except psycopg.errors.LockNotAvailable as error:
        raise DatabaseUnreadable(
            f"{name} cannot be migrated: another transaction has used a table for more than {LOCK_TIMEOUT_S:g} s; "
            "end it (pg_stat_activity lists it), and start again"
        ) from error
    except psycopg.Error as error:
        raise DatabaseUnreadable(f"{name} cannot be migrated: {error}") from error


def _migrate(connection: PsycopgConnection, name: str, *, read_only: bool) -> None:
    found = connection.execute(APPLIED).fetchall()
    pending = pending_migrations(found, known_migrations("store.postgres"), name)
    if pending and read_only:
        raise DatabaseTooOld(f"{name} needs {len(pending)} migration(s); start the server on it once to apply them")
    for migration in pending:
        psycopg.ClientCursor(connection).execute(migration.sql.encode())
        connection.execute(
            "INSERT INTO migrations (number, name, checksum) VALUES ($1, $2, $3)",
            [migration.number, migration.name, migration.checksum],
        )


def column_types(connection: PsycopgConnection) -> Tables:
    """Return the types of the columns of all tables."""
    found: list[tuple[Any, ...]] = connection.execute(
        """SELECT t.relname, a.attname, format_type(a.atttypid, NULL)
        FROM pg_attribute AS a JOIN pg_class AS t ON t.oid = a.attrelid
        WHERE t.relnamespace = current_schema()::regnamespace AND t.relkind IN ('r', 'p')
            AND a.attnum > 0 AND NOT a.attisdropped ORDER BY t.relname, a.attnum"""
    ).fetchall()
    tables: dict[str, dict[str, str]] = {}
    for table, column, kind in found:
        tables.setdefault(table, {})[column] = kind
    return tables
