"""The errors of the store, each named for its condition. No other exception leaves the package `store`."""

import errno
import os
from pathlib import Path

_SYSTEM_ERRORS = frozenset({"OSError", "OperationalError", "FatalException"})
"""Names of the classes of errors of files, memory and the database itself, as PEP 249 and DuckDB name them."""


def describe_error(error: Exception) -> str:
    """Return a description of an error that contains no personal data.

    The message of an error of files or memory is returned unchanged. Other messages may quote a user's text or the
    value of a variable, so only the name of their type is returned.
    """
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return type(error).__name__ if kinds.isdisjoint(_SYSTEM_ERRORS) else str(error)


class StoreError(Exception):
    """Base class of all errors that the store raises."""


class DatabaseLocked(StoreError):
    """Another process has the database file open; a DuckDB file has one writer process at a time."""

    def __init__(self, path: Path, pid: int | None) -> None:
        self.pid = pid
        holder = f"process {pid}" if pid is not None else "another process"
        super().__init__(
            f"{path} is in use by {holder}. One process at a time can open it: "
            "stop that process, or point this one at another data folder."
        )


class DatabaseUnreadable(StoreError):
    """The file is missing or damaged, is not a DuckDB database, or this account may not read it."""


class DatabaseTooNew(StoreError):
    """The file was migrated by a newer version of the program than this one."""


class DatabaseTooOld(StoreError):
    """The file needs migrations, and it was opened read-only."""


class MigrationChanged(StoreError):
    """The text of a migration has changed since it was applied to the file."""


class StoreUnavailable(StoreError):
    """The disk or the database failed, or the store is closed. A write in progress may or may not be committed."""


class FolderUnwritable(StoreUnavailable):
    """A folder in the data folder cannot be written, such as on a disk that is mounted for reading only."""

    def __init__(self, folder: Path, error: OSError) -> None:
        super().__init__(f"the folder `{folder.name}` in the data folder cannot be written: {error.strerror}")


class DatabaseUnreachable(StoreUnavailable):
    """The server of the database cannot be reached, or cannot answer now; the caller can retry later."""


class DatabaseFileLost(StoreUnavailable):
    """The open database file was deleted, moved or replaced, so it is no longer at its path. Nothing is written."""


class WriteFailed(StoreUnavailable):
    """A write failed, for example because the disk is full. Nothing was written; the caller can retry later."""


class KeyUnwritable(WriteFailed):
    """The file of a key could not be written, for example because the disk is full."""


class RestartNeeded(StoreUnavailable):
    """A sync failed, so the disk may lack what was written before. Nothing is written until the server is restarted."""


class StoreBusy(StoreError):
    """A queue of the store is full. Nothing was written; the caller can retry later."""


class StoreReadOnly(StoreError):
    """A write was requested from a database that is open read-only."""


class ReadTimedOut(StoreError):
    """A read took longer than its limit and was stopped."""


class RowRefused(StoreError):
    """A row is invalid: a wrong type, or numbers with a gap. The other rows of its group were committed."""


class IdTaken(StoreError):
    """The id of a new row is used already."""


class TurnConflict(StoreError):
    """A turn was computed from a turn that is no longer the session's latest: another turn was committed first."""

    def __init__(self, session_id: str, expected: int, actual: int) -> None:
        self.expected = expected
        self.actual = actual
        super().__init__(f"session {session_id} is at turn {actual}, this turn was computed from turn {expected}")


class TurnClaimed(StoreError):
    """Another server runs the session's next turn, and has called a model or a tool for it."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"another server runs the next turn of session {session_id}")


class UserErased(StoreError):
    """The user of a new session was erased after the session began; nothing of it was written."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"the user of session {session_id} was erased after it began")


class RowConflict(StoreError):
    """A row was changed from a revision that is no longer its latest. A revision of 0 is that of no row."""

    def __init__(self, expected: int, actual: int) -> None:
        self.actual = actual
        super().__init__(f"it is at revision {actual}, this change began from {expected}")


class KeyTaken(StoreError):
    """A new session's key, or its idempotency key, belongs to another session of the tenant."""

    def __init__(self, field: str, key: str, session_id: str) -> None:
        self.field = field
        self.key = key
        self.session_id = session_id
        super().__init__(f"{field} {key!r} belongs to session {session_id}")


class VariablesFull(StoreError):
    """A user would exceed the maximum number of global variables; no variable was set."""


class DiskTooSmall(StoreError):
    """The disk has no room for a copy of the database, which a compaction or backup needs."""

    def __init__(self, needed_bytes: int, free_bytes: int) -> None:
        self.free_bytes = free_bytes
        super().__init__(
            f"a copy of the database needs {needed_bytes} free bytes on the disk; only {free_bytes} are free"
        )


class CompactionRunning(StoreError):
    """A compaction of the database is already running."""


class BackupRunning(StoreError):
    """A backup of the database is being written."""


class DiskFull(StoreUnavailable):
    """The disk has no space for what is being written, which the message names; the database is not affected."""


def write_failure(error: Exception, written: str, otherwise: StoreError) -> StoreError:
    """Return the error for what could not be written: DiskFull if the system had no space for it, as its own error or
    that of DuckDB says, else `otherwise`.
    """
    is_full = any(os.strerror(code) in str(error) for code in (errno.ENOSPC, errno.EDQUOT))
    return DiskFull(f"the disk has no space for {written}") if is_full else otherwise


class BackupFailed(StoreError):
    """A backup could not be written; the database is not affected. The message says why."""


class NotWithPostgres(StoreError):
    """The operation is about a database file; with PostgreSQL, its own tools do it. The message says which."""


class CopyRefused(StoreError):
    """A database cannot be copied: the target is not empty, or the copy differs at the end."""


class CopyUnfinished(StoreError):
    """The database is the target of a copy that was interrupted, so it lacks rows."""


class SessionTaken(StoreError):
    """An imported session has the id of an existing session, and replacing was not requested."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"session {session_id} already exists in the database")


class QueryRefused(StoreError):
    """An analyst's query is not a valid SELECT, or reads something it may not read. The analyst sees the message."""


class QueryStopped(StoreError):
    """An analyst's query exceeded a limit of time, memory or disk space. The analyst sees the message."""


class AnalyticsUnreadable(StoreError):
    """A file is damaged, or is not an analytics file of this version."""


class ReportRefused(StoreError):
    """A report does not exist, or does not accept a parameter. The analyst sees the message."""

    def __init__(self, message: str, parameter: str = "") -> None:
        self.parameter = parameter
        super().__init__(message)


class CursorInvalid(StoreError):
    """A page cursor does not belong to this list."""


class FilterInvalid(StoreError):
    """A memory filter is malformed, or names a field that does not exist; nothing was read."""


class VectorRefused(StoreError):
    """A vector cannot be indexed: it has the wrong dimension, is zero or not finite, or its label already exists."""


class SnapshotInvalid(StoreError):
    """The stored snapshot of a vector index is invalid; the index is rebuilt from the rows."""


class MemoryMoved(StoreError):
    """A memory has changed since the write was computed from it; nothing was written."""
