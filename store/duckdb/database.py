"""The database file of a data folder: open, checked for lost commits, replaced by a compaction."""

import shutil
import time
from collections.abc import Callable
from os.path import samestat
from pathlib import Path
from typing import Self

import duckdb
import structlog

from store.duckdb.checkpointer import SAVED, Checkpointer
from store.duckdb.commit_mark import (
    CommitMark,
    LostCommits,
    describe_loss,
    find_loss,
    identify,
    is_accepted,
    last_commit,
    report_loss,
)
from store.duckdb.connection import DuckDBConnection
from store.duckdb.database_file import CHECKPOINT_BYTES, SPILLED, attach, inode_of, log_of, size_of
from store.duckdb.schema import migrate, require_current
from store.duckdb.session_heads import SessionHeads
from store.interface.errors import DatabaseFileLost, RestartNeeded, StoreUnavailable, describe_error
from store.interface.maintenance_rows import Size
from store.interface.private_files import FILE_NAME, beside, make_data_folder, sync
from store.sql import copy_progress

FRESH = ".compacting"  # suffix of the file that a compaction writes
EMPTY_LOG_TRIES = 10
EMPTY_LOG_PAUSE_S = 0.1
WAIT_BYTES = 8 * CHECKPOINT_BYTES
"""Size of the log from which on writes wait for reads that prevent a checkpoint: EMPTY_LOG_TRIES times WAIT_PAUSE_S."""
WAIT_PAUSE_S = 0.02

_LOG_SIZE = "SELECT wal_size FROM pragma_database_size() WHERE database_name = 'cuebook'"

log = structlog.get_logger()


class Database:
    """An open database file. Each thread uses a cursor of its own; a cursor is not safe for concurrent use."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, path: Path) -> None:
        self._connection = connection
        self._checkpointer = Checkpointer(path)
        self.path = path
        self.fresh = beside(path, FRESH)
        self._wal = log_of(path)
        self._wal_inode: int | None = None
        self._is_closed = False
        self._mark: CommitMark | None = None
        self._lost_commits: LostCommits | None = None
        self.last_commit = 0
        self.heads = SessionHeads()
        self._files = [path.stat()]  # the files that may be at the path: two while a compaction replaces the file

    @classmethod
    def open(cls, folder: Path, *, read_only: bool = False, is_target: bool = False) -> Self:
        """Open the database file in `folder`; create or migrate it if necessary.

        With `read_only`, nothing is created or migrated. Raises DatabaseLocked, DatabaseUnreadable, DatabaseTooNew,
        MigrationChanged, with `read_only` also DatabaseTooOld, and unless it is the target of a copy CopyUnfinished.
        """
        path = folder / FILE_NAME
        if not read_only:
            make_data_folder(folder)
            _report_loss(path)
        database = cls(attach(path, read_only=read_only), path)
        try:
            if read_only:
                require_current(database._connection, path)
            elif migrate(database._connection, path):  # a database whose log is lost is still the same database
                database.empty_log(database._connection)
            if not is_target:
                copy_progress.require_finished(database._connection.execute(copy_progress.EXISTS).fetchall(), path)
            database._check_commits(read_only=read_only)
        except BaseException:
            database._release()
            raise
        if not read_only:
            remove_database(database.fresh)
            shutil.rmtree(beside(path, SPILLED), ignore_errors=True)
            sync(folder)
        return database

    def connection(self) -> DuckDBConnection:
        """Return a new connection with the heads of the sessions, for one thread at a time. Raises StoreUnavailable."""
        return DuckDBConnection(self.cursor(), self.heads)

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a new cursor, for one thread at a time. Raises StoreUnavailable if the database is closed."""
        try:
            cursor = self._connection.cursor()
        except duckdb.ConnectionException as error:
            raise StoreUnavailable("the database is closed") from error
        cursor.execute("USE cuebook")
        return cursor

    def mark(self, number: int) -> None:
        """Write the number of a commit that is on disk and is acknowledged next. Raises OSError."""
        if self._mark is not None:
            self._mark.write(number)

    def lost_commits(self) -> str | None:
        """Return an error message if acknowledged commits are missing in the database, else None."""
        if self._lost_commits is None or (self._mark is not None and is_accepted(self.path)):
            return None
        return describe_loss(self.path, self._lost_commits)

    def _check_commits(self, *, read_only: bool) -> None:
        """Compare the number of the last commit with the acknowledged number."""
        database_id, self.last_commit = identify(self._connection), last_commit(self._connection)
        self._lost_commits = find_loss(self.path, database_id, self.last_commit)
        if read_only:
            return
        try:
            if self._lost_commits is not None:
                self._lost_commits = report_loss(self.path, self._lost_commits)
                log.critical("acknowledged commits are missing", problem=self.lost_commits())
            self._mark = CommitMark.open(self.path, database_id)
            self._mark.write(self.last_commit)
        except OSError as error:
            raise StoreUnavailable(f"{self.path} cannot be opened: {error.strerror}") from error

    def size(self, cursor: duckdb.DuckDBPyConnection) -> Size:
        """Return the size of the database and the free space of its disk, in bytes."""
        blocks = cursor.execute(
            "SELECT block_size * free_blocks FROM pragma_database_size() WHERE database_name = 'cuebook'"
        ).fetchall()
        return Size(
            self.path.stat().st_size, size_of(self._wal), blocks[0][0], shutil.disk_usage(self.path.parent).free
        )

    def take_fresh(self, on_step: Callable[[str], None]) -> None:
        """Replace the file with the new file and open that. No cursor may be open meanwhile.

        If the process dies before the rename, the old file remains; if it dies after it, the new one. Either is
        complete. Raises StoreUnavailable, DatabaseFileLost, DatabaseLocked, OSError.
        """
        self.empty_log(self._connection)  # DuckDB would apply it to the new file
        sync(self.fresh)
        on_step("replacing the file")
        self._files = [*self._files, self.fresh.stat()]
        self.fresh.replace(self.path)
        self._files = self._files[-1:]
        on_step("opening the new file")
        self._release()  # not earlier: until now the lock of the old file keeps other processes out
        self._connection = attach(self.path, read_only=False)
        self._checkpointer = Checkpointer(self.path)
        self.heads.forget()
        self._wal_inode = None  # if the sync fails, the next commit syncs the folder, or is refused
        sync(self.path.parent)

    def checkpoint(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Write the log to the database file, and delete it. No other thread may write meanwhile.

        Raises DatabaseFileLost, StoreUnavailable, duckdb.Error.
        """
        self.require_file()  # DuckDB deletes the log by its name, even another database's
        try:
            self._checkpointer.run(cursor)
        except OSError as error:
            raise StoreUnavailable(f"a checkpoint of {self.path} cannot begin: {error.strerror}") from error
        self._wal_inode = None

    def empty_log(self, cursor: duckdb.DuckDBPyConnection, pause_s: float = EMPTY_LOG_PAUSE_S) -> None:
        """Make a checkpoint until the log is gone, for at most EMPTY_LOG_TRIES pauses.

        Raises DatabaseFileLost, StoreUnavailable.
        """
        for _ in range(EMPTY_LOG_TRIES):
            try:
                self.checkpoint(cursor)
                if cursor.execute(_LOG_SIZE).fetchall() == [("0 bytes",)]:
                    # DuckDB leaves a log in which a killed process had written only a part of a commit
                    self._wal.unlink(missing_ok=True)
            except duckdb.TransactionException:  # a read is in progress
                pass
            except duckdb.Error as error:
                raise StoreUnavailable(f"the log could not be emptied: {describe_error(error)}") from error
            if not self._wal.exists():
                return
            time.sleep(pause_s)  # it can be in use for a moment
        size = size_of(self._wal) // 1_000_000
        raise StoreUnavailable(f"reads in progress prevent that the log, {size} MB, is emptied; try again")

    def checkpoint_if_due(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Make a checkpoint if the log is large. Raises OSError, and as `checkpoint`.

        If reads prevent it and the log is very large, wait a moment for those in progress; later ones prevent nothing,
        since the caller commits nothing meanwhile.
        """
        size = size_of(self._wal)
        if size < CHECKPOINT_BYTES:
            return
        try:
            self.checkpoint(cursor)
        except duckdb.TransactionException:
            if size < WAIT_BYTES:
                raise
            self.empty_log(cursor, WAIT_PAUSE_S)

    def require_file(self) -> None:
        """Raise DatabaseFileLost unless the file at the path is the one that is open.

        Takes a few microseconds. Raises StoreUnavailable if the path cannot be accessed.
        """
        try:
            found = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            raise DatabaseFileLost(
                f"{self.path} was deleted or moved while the server had it open; put the file back, or stop the server "
                "and restore a backup"
            ) from None
        except OSError as error:
            raise StoreUnavailable(f"{self.path} cannot be accessed: {error.strerror}") from error
        if not any(samestat(found, each) for each in self._files):
            raise DatabaseFileLost(
                f"{self.path} was replaced while the server had it open; restart the server to use the new file"
            )

    def sync_log(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Make commits durable in the cases that DuckDB's sync of the log file does not cover.

        DuckDB syncs a new log file, but not its folder. If the log file was deleted, DuckDB continues to write to the
        open file, and its commits would be lost when the process ends; in that case a checkpoint writes them to the
        database file. Raises OSError, duckdb.Error, StoreUnavailable, RestartNeeded.
        """
        inode = inode_of(self._wal)
        if inode != self._wal_inode and self._wal_inode is not None:
            self.checkpoint(cursor)
        elif inode is not None and inode != self._wal_inode:
            try:
                sync(self.path.parent)
            except OSError as error:
                raise RestartNeeded(f"{self.path.parent} could not be synced: {error.strerror}") from error
            self._wal_inode = inode

    def close(self) -> None:
        """Close the file; commits that are still in the log stay there and are read at the next open."""
        if self._is_closed:
            return
        self._is_closed = True
        self._release()
        if self._mark is not None:
            self._mark.close()

    def _release(self) -> None:
        self._connection.close()
        self._checkpointer.close()


def make_empty(path: Path) -> None:
    """Create an empty database with all tables, in the place of what a killed process left there."""
    remove_database(path)
    connection = attach(path, read_only=False)
    try:
        migrate(connection, path)
    finally:
        connection.close()


def remove_database(path: Path) -> None:
    """Delete a database file and what belongs to it, if there is any. It must be closed."""
    for leftover in (path, log_of(path), beside(path, SAVED)):
        leftover.unlink(missing_ok=True)


def _report_loss(path: Path) -> None:
    """Report missing commits, if any, before the log is applied and deleted."""
    if not log_of(path).exists() or not path.exists():
        return
    connection = attach(path, read_only=True)
    try:
        loss = find_loss(path, identify(connection), last_commit(connection))
        if loss is not None:
            report_loss(path, loss)
    except (duckdb.CatalogException, duckdb.BinderException):  # written before commits had numbers, or no table yet
        return
    except OSError as error:
        raise StoreUnavailable(f"the log of {path} cannot be copied: {error.strerror}") from error
    finally:
        connection.close()
