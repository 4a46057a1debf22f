"""Opens the one database file of a data folder, and says in the record's own words why it could not."""

import os
import re
import shutil
from collections.abc import Callable
from os.path import samestat
from pathlib import Path
from typing import NamedTuple, Self

import duckdb

from store.errors import DatabaseFileLost, DatabaseLocked, DatabaseUnreadable, StoreUnavailable
from store.private import make_folder, restrict
from store.schema import migrate, require_current
from store.syncing import sync

FILE_NAME = "cuebook.duckdb"
FRESH = ".compacting"  # ends the name of a file that is to take the place of the database's
SPILLED = ".tmp"  # ends the name of the folder for what does not fit into memory

# A commit that fills the log waits for the checkpoint of everything in it: 4 MB are about 1,000 turns, 6-60 ms.
CHECKPOINT_THRESHOLD = "4MB"
# A checkpoint rewrites a table's unfilled row groups, so their size bounds it; 2,048 is the least there is.
ROW_GROUP_ROWS = 2048
THREADS = 2


class Size(NamedTuple):
    """How many bytes a database takes."""

    file: int
    log: int
    unused: int
    """Of the file: blocks that nothing is in any more."""
    disk_free: int


class Database:
    """One open database file. `cursor()` gives each thread its own way in; a cursor is used by one thread at a time."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, path: Path) -> None:
        self._connection = connection
        self.path = path
        self.fresh = path.with_name(path.name + FRESH)
        self._wal = _log_of(path)
        self._wal_inode: int | None = None
        self._is_closed = False
        opened = path.stat()
        self._files = [opened]  # that may be at the path: two of them, while one takes the place of the other
        self._written_ns = opened.st_mtime_ns

    @classmethod
    def open(cls, folder: Path, *, read_only: bool = False) -> Self:
        """Open the file in `folder`, made and migrated where needed.

        Read-only, nothing is made or migrated. Raises DatabaseLocked, DatabaseUnreadable, DatabaseTooNew,
        MigrationChanged, or, read-only, DatabaseTooOld.
        """
        path = folder / FILE_NAME
        if not read_only:
            _make_folder(folder)
        database = cls(_attach(path, read_only=read_only), path)
        try:
            (require_current if read_only else migrate)(database._connection, path)
        except BaseException:
            database._connection.close()
            raise
        if not read_only:
            database.remove_fresh()
            shutil.rmtree(path.with_name(path.name + SPILLED), ignore_errors=True)
            sync(folder)
        return database

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A new way in, for one thread at a time. Raises StoreUnavailable where the file could not be opened again."""
        try:
            cursor = self._connection.cursor()
        except duckdb.ConnectionException as error:
            raise StoreUnavailable("the database is closed") from error
        cursor.execute("USE cuebook")
        return cursor

    def size(self, cursor: duckdb.DuckDBPyConnection) -> Size:
        """How many bytes it takes, and how many its disk has left."""
        blocks = cursor.execute(
            "SELECT block_size * free_blocks FROM pragma_database_size() WHERE database_name = 'cuebook'"
        ).fetchall()
        log = self._wal.stat().st_size if self._wal.exists() else 0
        return Size(self.path.stat().st_size, log, blocks[0][0], shutil.disk_usage(self.path.parent).free)

    def make_fresh(self) -> None:
        """A database beside this one, with its tables and nothing in them."""
        self.remove_fresh()
        connection = _attach(self.fresh, read_only=False)
        try:
            migrate(connection, self.fresh)
        finally:
            connection.close()

    def take_fresh(self, tell: Callable[[str], None]) -> None:
        """Go on with the file beside this one, in its place. Nobody may have a cursor meanwhile.

        A process that dies before the renaming leaves the old file, one that dies after it the new one; either is
        whole. Raises StoreUnavailable, DatabaseFileLost, DatabaseLocked.
        """
        self.require_file()  # else the fresh one would take the place of another database
        try:
            self._connection.execute("CHECKPOINT cuebook")
        except duckdb.Error as error:
            raise StoreUnavailable(f"the log could not be emptied: {error}") from error
        if self._wal.exists():  # it would be taken for the log of the new file
            raise StoreUnavailable("the log could not be emptied")
        sync(self.fresh)
        tell("replacing the file")
        self._files = [*self._files, self.fresh.stat()]
        self.fresh.replace(self.path)
        self._files = self._files[-1:]
        sync(self.path.parent)
        tell("opening the new file")
        self._connection.close()  # not before: the lock of the old file keeps other processes away until now
        self._connection = _attach(self.path, read_only=False)
        self._wal_inode = None

    def remove_fresh(self) -> None:
        """Remove the file beside this one, which nobody has open, and what a killed process has left of one."""
        for leftover in (self.fresh, _log_of(self.fresh)):
            leftover.unlink(missing_ok=True)

    def require_file(self) -> None:
        """Raise DatabaseFileLost where another file than the one that is open, or none, is at the path.

        Takes a few microseconds. Raises StoreUnavailable where the path cannot be looked at.
        """
        try:
            found = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            raise DatabaseFileLost(
                f"{self.path} was deleted or moved while the server had it open; stop the server, put the file back "
                "or restore a backup, and start again"
            ) from None
        except OSError as error:
            raise StoreUnavailable(f"{self.path} cannot be looked at: {error.strerror}") from error
        if not any(samestat(found, each) for each in self._files):
            raise DatabaseFileLost(
                f"{self.path} was replaced while the server had it open; restart the server to use the file that is "
                "there now"
            )

    def sync_log(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Make what was committed durable where a sync of the open log file does not.

        DuckDB syncs a new log file, but not the folder that names it. A log file that was deleted stays open, and its
        commits would be gone with the process: then all is written to the database file instead. A checkpoint deletes
        the log file too, but writes to the database file. Raises OSError, duckdb.Error.
        """
        written_ns = self.path.stat().st_mtime_ns
        inode = _inode(self._wal)
        if inode != self._wal_inode and self._wal_inode is not None and written_ns == self._written_ns:
            cursor.execute("CHECKPOINT cuebook")
            written_ns, inode = self.path.stat().st_mtime_ns, _inode(self._wal)
        if inode is not None and inode != self._wal_inode:
            sync(self.path.parent)
        self._wal_inode, self._written_ns = inode, written_ns

    def close(self) -> None:
        """Close the file; what is still in the log stays there and is read at the next open.

        DuckDB empties the log where it can, and deletes it by its name. That is not done where another database may be
        at the path by now.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self.require_file()
        except StoreUnavailable:
            self._connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        self._connection.close()


def _make_folder(folder: Path) -> None:
    try:
        make_folder(folder)
        restrict(folder)
    except OSError as error:
        raise DatabaseUnreadable(f"the data folder {folder} cannot be made: {error.strerror}") from error


def _attach(path: Path, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    """A connection whose default database is the file: attached, since only so can row groups be made small."""
    while True:
        inode = _inode(path)
        connection = _connect(path, read_only=read_only)
        if inode in {None, _inode(path)}:
            return connection
        connection.close()  # another process has just put a new file in its place


def _connect(path: Path, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
        ":memory:",
        config={
            "threads": THREADS,
            "checkpoint_threshold": CHECKPOINT_THRESHOLD,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )
    try:
        connection.execute("SET GLOBAL TimeZone = 'UTC'")
        if not read_only:  # not where the command runs: what is spilled are users' words
            connection.execute(f"SET GLOBAL temp_directory = {quoted(path.with_name(path.name + SPILLED))}")
        connection.execute(f"ATTACH {quoted(path)} AS cuebook ({options(read_only=read_only)})")
        connection.execute("USE cuebook")
    except duckdb.Error as error:
        connection.close()
        raise why_not_open(path, error) from error
    return connection


def options(*, read_only: bool = False) -> str:
    """How a database file is attached."""
    return f"ROW_GROUP_SIZE {ROW_GROUP_ROWS}" + (", READ_ONLY" if read_only else "")


def quoted(path: Path) -> str:
    """A path as a text of SQL."""
    return "'" + str(path).replace("'", "''") + "'"


def _log_of(path: Path) -> Path:
    return path.with_name(path.name + ".wal")


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def why_not_open(path: Path, error: duckdb.Error) -> DatabaseLocked | DatabaseUnreadable | StoreUnavailable:
    """What DuckDB's error at opening a file means."""
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
