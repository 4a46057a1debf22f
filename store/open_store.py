"""Open the store of a data folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from store.duckdb.engine import READ_TIMEOUT_S
from store.duckdb.restore import restore_database as restore_database
from store.duckdb_store import DuckDBStore
from store.interface.errors import DatabaseUnreadable
from store.store import Store


@contextmanager
def postgres_driver() -> Iterator[None]:
    """Raise DatabaseUnreadable if what the block imports needs the driver of PostgreSQL, and that is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise DatabaseUnreadable(
            f"PostgreSQL needs the package {error.name}; install it with: pip install 'cuebook[postgres]'"
        ) from error


def open_store(
    folder: Path, url: str | None = None, *, read_only: bool = False, read_timeout_s: float = READ_TIMEOUT_S
) -> Store:
    """Open the database of a data folder, or the PostgreSQL database at `url`; create or migrate it if necessary.

    Blocks. Raises DatabaseLocked, DatabaseUnreadable, DatabaseTooNew, MigrationChanged, and with `read_only` also
    DatabaseTooOld.
    """
    if url is not None:
        with postgres_driver():
            from store.postgres_store import PostgresStore
        return PostgresStore.open(url, folder, read_only=read_only, read_timeout_s=read_timeout_s)
    return DuckDBStore.open(folder, read_only=read_only, read_timeout_s=read_timeout_s)
