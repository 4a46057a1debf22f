"""Opens the one database file of a data folder, and says in the record's own words why it could not."""

import os
import re
from pathlib import Path
from typing import Self

import duckdb

from store.errors import DatabaseLocked, DatabaseUnreadable, StoreUnavailable
from store.schema import migrate, require_current

FILE_NAME = "cuebook.duckdb"

# A commit that fills the log waits for the checkpoint of everything in it: 4 MB are about 1,000 turns, 6-60 ms.
CHECKPOINT_THRESHOLD = "4MB"
# A checkpoint rewrites a table's unfilled row groups, so their size bounds it; 2,048 is the least there is.
ROW_GROUP_ROWS = 2048
THREADS = 2


class Database:
    """One open database file. `cursor()` gives each thread its own way in; a cursor is used by one thread at a time."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, path: Path) -> None:
        self._connection = connection
        self.path = path
        self._wal = path.with_name(path.name + ".wal")
        self._wal_inode: int | None = None

    @classmethod
    def open(cls, folder: Path, *, read_only: bool = False) -> Self:
        """Open the file in `folder`, made and migrated where needed.

        Read-only, nothing is made or migrated. Raises DatabaseLocked, DatabaseUnreadable, DatabaseTooNew,
        MigrationChanged, or, read-only, DatabaseTooOld.
        """
        path = folder / FILE_NAME
        if not read_only:
            _make_folder(folder)
        connection = _attach(path, read_only=read_only)
        try:
            (require_current if read_only else migrate)(connection, path)
        except BaseException:
            connection.close()
            raise
        database = cls(connection, path)
        _sync_folder(folder, read_only=read_only)
        return database

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A new way in, for one thread at a time."""
        cursor = self._connection.cursor()
        cursor.execute("USE cuebook")
        return cursor

    def sync_new_log(self) -> None:
        """Make the name of a new log file durable: DuckDB syncs the file, but not the folder that names it."""
        try:
            inode = self._wal.stat().st_ino
        except FileNotFoundError:  # a checkpoint has just emptied it
            return
        if inode != self._wal_inode:
            _sync_folder(self.path.parent, read_only=False)
            self._wal_inode = inode

    def close(self) -> None:
        """Close the file; what is still in the log stays there and is read at the next open."""
        self._connection.close()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseUnreadable(f"the data folder {folder} cannot be made: {error.strerror}") from error


def _attach(path: Path, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    """A connection whose default database is the file: attached, since only so can row groups be made small."""
    connection = duckdb.connect(
        ":memory:",
        config={
            "threads": THREADS,
            "checkpoint_threshold": CHECKPOINT_THRESHOLD,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )
    options = f"ROW_GROUP_SIZE {ROW_GROUP_ROWS}" + (", READ_ONLY" if read_only else "")
    quoted = str(path).replace("'", "''")
    try:
        connection.execute("SET GLOBAL TimeZone = 'UTC'")
        connection.execute(f"ATTACH '{quoted}' AS cuebook ({options})")
        connection.execute("USE cuebook")
    except duckdb.Error as error:
        connection.close()
        raise _why_not_open(path, error) from error
    return connection


def _why_not_open(path: Path, error: duckdb.Error) -> DatabaseLocked | DatabaseUnreadable | StoreUnavailable:
    message = str(error)
    if isinstance(error, duckdb.ResourceInUseException):
        return DatabaseLocked(path, os.getpid())
    if "Could not set lock on file" in message:
        holder = re.search(r"\(PID (\d+)\)", message)
        return DatabaseLocked(path, int(holder[1]) if holder else None)
    if not path.exists():
        return DatabaseUnreadable(f"there is no database at {path}; it is made when the server first starts")
    if isinstance(error, duckdb.OutOfMemoryException):
        return StoreUnavailable(f"{path} cannot be opened: out of memory or disk space")
    return DatabaseUnreadable(
        f"{path} is not a readable database: {message}. Restore it from a backup, or move it away."
    )


def _sync_folder(folder: Path, *, read_only: bool) -> None:
    """Make the names in a folder durable."""
    if read_only:
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
