"""Attach database files, and translate DuckDB's errors into those of the store."""

import os
import re
from pathlib import Path

import duckdb

from store.duckdb.checkpointer import undo_checkpoint
from store.interface.errors import DatabaseLocked, DatabaseUnreadable, StoreUnavailable
from store.interface.private_files import beside

SPILLED = ".tmp"  # suffix of the folder for temporary data that does not fit into memory

# Commits wait for the checkpoint of the whole log: 8 MB are about 2,000 turns, 40-50 ms.
CHECKPOINT_BYTES = 8_000_000
_NEVER = "1TB"  # DuckDB makes no checkpoint by itself, since it could not be interrupted
# 2,048 is DuckDB's minimum: about as many rows as a checkpoint writes.
ROW_GROUP_ROWS = 2048
# A checkpoint that also merges the small row groups of earlier ones takes three times as long. Turns do not wait for
# that: row groups are merged when the database is closed, at most this many groups of a table, and by a compaction.
MERGES_AT_CLOSE = 20
CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "threads": 2,
    "checkpoint_threshold": _NEVER,
    "max_vacuum_tasks": 0,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


def attach(path: Path, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    """Return a connection with the file as its default database. Only ATTACH can set the size of row groups.

    Raises DatabaseLocked, DatabaseUnreadable, StoreUnavailable.
    """
    try:
        undo_checkpoint(path)
    except OSError as error:
        raise StoreUnavailable(
            f"a checkpoint of {path} did not finish and cannot be undone: {error.strerror}"
        ) from error
    while True:
        inode = inode_of(path)
        connection = _connect(path, read_only=read_only)
        if inode in {None, inode_of(path)}:
            return connection
        connection.close()  # another process has just replaced the file


def _connect(path: Path, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    connection = _instance()
    try:
        connection.execute("SET GLOBAL TimeZone = 'UTC'")
        connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        if not read_only:  # not in the working directory: temporary data contains users' texts
            connection.execute(f"SET GLOBAL temp_directory = {quote(beside(path, SPILLED))}")
        connection.execute(f"ATTACH {quote(path)} AS cuebook ({options(read_only=read_only)})")
        connection.execute("USE cuebook")
    except duckdb.Error as error:
        connection.close()
        raise why_not_open(path, error) from error
    return connection


def _instance() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:", config=CONFIG)


def options(*, read_only: bool = False) -> str:
    """Return the options of ATTACH for a database file."""
    return f"ROW_GROUP_SIZE {ROW_GROUP_ROWS}" + (", READ_ONLY" if read_only else "")


def quote(path: Path) -> str:
    """Return a path as an SQL string literal."""
    return "'" + str(path).replace("'", "''") + "'"


def log_of(path: Path) -> Path:
    """Return the path of the log of a database file."""
    return beside(path, ".wal")


def inode_of(path: Path) -> int | None:
    """Return the number of the file at a path, or None if there is none."""
    try:
        return path.stat().st_ino
    except (FileNotFoundError, NotADirectoryError):
        return None


def size_of(path: Path) -> int:
    """Return the size of the file at a path in bytes, or 0 if there is none."""
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0


def why_not_open(path: Path, error: duckdb.Error) -> DatabaseLocked | DatabaseUnreadable | StoreUnavailable:
    """Return the error of the store for DuckDB's error when opening a file."""
    message = str(error).rstrip(".!")
    if isinstance(error, duckdb.ResourceInUseException):
        return DatabaseLocked(path, os.getpid())
    if "Could not set lock on file" in message:
        holder = re.search(r"\(PID (\d+)\)", message)
        return DatabaseLocked(path, int(holder[1]) if holder else None)
    if path.parent.is_file():
        return DatabaseUnreadable(f"{path.parent} is a file; name the data folder that contains the database")
    if not path.exists():
        return DatabaseUnreadable(f"there is no database at {path}; the server creates it when it first starts")
    if isinstance(error, duckdb.OutOfMemoryException):
        return StoreUnavailable(f"{path} cannot be opened: out of memory or disk space")
    if refused := re.search(r'Cannot open file ".*": (.*)', message):  # by the system, whatever is in the file
        return StoreUnavailable(f"{path} cannot be opened: {refused[1]}")
    if "WAL file" in message:
        return DatabaseUnreadable(
            f"the log of {path} is damaged: {message}. Restore a backup, or move {log_of(path)} away to open the "
            "database without the writes in it."
        )
    return DatabaseUnreadable(
        f"{path} is not a readable database: {message}. Restore it from a backup, or move it away."
    )
