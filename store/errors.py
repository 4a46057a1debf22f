"""What can go wrong in the record, each error named for its condition. No other exception leaves this package."""

from pathlib import Path

import duckdb

_OF_THE_MACHINE = (OSError, duckdb.OperationalError, duckdb.FatalException)


def told(error: Exception) -> str:
    """What may be told of a failure: its own words where they are of files and memory. Others quote what somebody said
    or a variable holds, and only their kind is told.
    """
    return str(error) if isinstance(error, _OF_THE_MACHINE) else type(error).__name__


class StoreError(Exception):
    """Base of every error the record raises."""


class DatabaseLocked(StoreError):
    """Another process has the database file open; a DuckDB file has one writer process at a time."""

    def __init__(self, path: Path, pid: int | None) -> None:
        self.path = path
        self.pid = pid
        holder = f"process {pid}" if pid is not None else "another process"
        super().__init__(
            f"{path} is in use by {holder}. One process at a time can open it: "
            "stop that process, or point this one at another data folder."
        )


class DatabaseUnreadable(StoreError):
    """The file is missing, damaged, not a DuckDB database, or closed to this user."""


class DatabaseTooNew(StoreError):
    """The file was migrated by a newer version of the program than this one."""


class DatabaseTooOld(StoreError):
    """The file needs migrations, and it was opened read-only."""


class MigrationChanged(StoreError):
    """A migration that was applied to the file no longer has the text it was applied with."""


class StoreUnavailable(StoreError):
    """The disk or the database failed, or the record is closed. Whether a write under way was kept is unknown."""


class DatabaseFileLost(StoreUnavailable):
    """The database file is open, but no longer at its path: it was deleted, moved or replaced. Nothing is written."""


class StoreBusy(StoreError):
    """A queue of the record is full; nothing was written, the call can be repeated later."""


class StoreReadOnly(StoreError):
    """A write was asked of a record opened read-only."""


class ReadTimedOut(StoreError):
    """A read took longer than its limit and was stopped."""


class RowRefused(StoreError):
    """A row the record cannot hold: a wrong type, or numbers that leave a gap. The rest of its group was committed."""


class TurnConflict(StoreError):
    """A turn was computed from a turn that is not the session's latest: another one was committed before it."""

    def __init__(self, session_id: str, expected: int, actual: int) -> None:
        self.session_id = session_id
        self.expected = expected
        self.actual = actual
        super().__init__(f"session {session_id} is at turn {actual}, this turn was computed from turn {expected}")


class KeyTaken(StoreError):
    """A new session's key, or its idempotency key, belongs to another session of the tenant."""

    def __init__(self, field: str, key: str, session_id: str) -> None:
        self.field = field
        self.key = key
        self.session_id = session_id
        super().__init__(f"{field} {key!r} belongs to session {session_id}")


class VariablesFull(StoreError):
    """A user would have more global variables than there may be; none of them was set."""


class DiskTooSmall(StoreError):
    """There is no room on the disk for a second copy of the record while it is compacted."""

    def __init__(self, needed_bytes: int, free_bytes: int) -> None:
        self.needed_bytes = needed_bytes
        self.free_bytes = free_bytes
        super().__init__(f"compacting needs {needed_bytes} bytes free on the disk, there are {free_bytes}")


class CompactionRunning(StoreError):
    """The record is being compacted already."""


class SessionTaken(StoreError):
    """A session that is brought in whole has the id of one that is there, and was not to replace it."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"session {session_id} is in the record already")


class QueryRefused(StoreError):
    """An analyst's query that is no valid SELECT, or one that reads what may not be read; the message is for them."""


class QueryStopped(StoreError):
    """An analyst's query that took more time, memory or room than it may; the message is for them."""


class AnalyticsUnreadable(StoreError):
    """A file that is no analytics file of this version, or a damaged one."""


class ReportRefused(StoreError):
    """A report that there is not, or that cannot be asked this; the message is for the analyst."""


class CursorInvalid(StoreError):
    """A page cursor that did not come from this list."""


class FilterInvalid(StoreError):
    """A filter of memory that is malformed, or asks about what there is not; nothing was read."""


class VectorRefused(StoreError):
    """A vector that cannot be compared: of the wrong dimension, zero or not finite, or under a label that is taken."""


class SnapshotUnsound(StoreError):
    """What is on disk of an index of vectors is not to be trusted; it is made anew from the rows."""


class MemoryMoved(StoreError):
    """A memory has changed since what was to be written was made for it; nothing was written."""
