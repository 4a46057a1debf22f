"""Notice lost commits: the number of the last acknowledged commit is also in a small file beside the database.

DuckDB applies a truncated or damaged log up to the first invalid entry, and reports nothing about the rest. The tables
contain the number of their last commit; if it is lower than the acknowledged number, commits are missing.
"""

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import duckdb
import msgspec
import structlog

from store.interface.errors import DatabaseUnreadable
from store.interface.private_files import beside

MARK = ".last-commit"  # suffix of the file with the acknowledged number
LOST = ".lost-commits"  # suffix of the file that reports a loss until it is deleted
_DIGITS = 20

log = structlog.get_logger()


class LostCommits(msgspec.Struct, frozen=True):
    """Acknowledged commits that a database does not contain."""

    acknowledged: int
    found: int
    noticed_at: datetime
    log_copy: str | None
    """The name of the copy of the damaged log, in the data folder."""

    @property
    def count(self) -> int:
        """The number of missing commits. A commit has one turn or more, or one other write."""
        return self.acknowledged - self.found


class CommitMark:
    """The open file with the number of the last acknowledged commit. For one thread at a time."""

    def __init__(self, descriptor: int, database_id: int) -> None:
        self._descriptor = descriptor
        self._database_id = database_id

    @classmethod
    def open(cls, path: Path, database_id: int) -> Self:
        """Open or create the mark of the database at `path`. Raises OSError."""
        return cls(os.open(beside(path, MARK), os.O_RDWR | os.O_CREAT, 0o600), database_id)

    def write(self, number: int) -> None:
        """Write the number of an acknowledged commit. Raises OSError.

        The file is not synced: if it is older than the database after a power failure, nothing is reported in error.
        """
        os.pwrite(self._descriptor, f"{self._database_id} {number:0{_DIGITS}}\n".encode(), 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def last_commit(connection: duckdb.DuckDBPyConnection) -> int:
    """Return the number of the last commit that the tables contain; 0 for none."""
    rows = connection.execute(
        "SELECT greatest((SELECT max(commit_number) FROM turns), (SELECT number FROM commits))"
    ).fetchall()
    return int(rows[0][0])


def identify(connection: duckdb.DuckDBPyConnection) -> int:
    """Return the time in microseconds at which the database was created: it distinguishes it from other databases.

    0 if no migration was applied, because the process was killed while it created the database.
    """
    rows = connection.execute("SELECT coalesce(min(epoch_us(applied_at)), 0) FROM migrations").fetchall()
    return int(rows[0][0])


def find_loss(path: Path, database_id: int, found: int) -> LostCommits | None:
    """Return the commits that are missing, if any, or None. Changes nothing.

    Raises DatabaseUnreadable if a loss was reported, but the report is damaged.
    """
    reported = beside(path, LOST)
    if reported.exists():
        try:
            return msgspec.json.decode(reported.read_bytes(), type=LostCommits)
        except msgspec.DecodeError as error:
            raise DatabaseUnreadable(
                f"{path} lost acknowledged writes, and the report {reported} is damaged: {error}. Restore a backup if "
                "it has more, then delete the report to accept what is missing"
            ) from error
    acknowledged = _read_acknowledged(path, database_id)
    if acknowledged is None or acknowledged <= found:
        return None
    return LostCommits(acknowledged, found, datetime.now(UTC), None)


def report_loss(path: Path, loss: LostCommits) -> LostCommits:
    """Write the report of a new loss with a copy of the log. Return what is reported.

    DuckDB deletes a log after it has applied it, so the log is copied before the database is opened for writing.
    """
    reported, wal = beside(path, LOST), beside(path, ".wal")
    if reported.exists():
        return loss
    if wal.exists():
        copy = beside(path, f".wal.damaged-{loss.noticed_at:%Y%m%dT%H%M%SZ}")
        shutil.copyfile(wal, copy)
        loss = msgspec.structs.replace(loss, log_copy=copy.name)
    fresh = beside(path, LOST + ".tmp")
    fresh.write_bytes(msgspec.json.encode(loss))
    fresh.replace(reported)
    return loss


def is_accepted(path: Path) -> bool:
    """Whether the report of a loss was deleted."""
    return not beside(path, LOST).exists()


def describe_loss(path: Path, loss: LostCommits) -> str:
    """Return what is missing and what to do about it."""
    copy = f" The damaged log is at {path.with_name(loss.log_copy)}." if loss.log_copy else ""
    return (
        f"{path} lost acknowledged writes: commits {loss.found + 1} to {loss.acknowledged} ({loss.count}) are missing, "
        f"which was noticed on {loss.noticed_at:%Y-%m-%d at %H:%M:%S} UTC.{copy} Restore a backup if it has more, then "
        f"delete {beside(path, LOST)}, which the server writes when it starts, to accept what is missing"
    )


def _read_acknowledged(path: Path, database_id: int) -> int | None:
    """Return the acknowledged number, or None if the file is missing, unreadable, or of another database."""
    try:
        words = beside(path, MARK).read_text(encoding="ascii").split()
        owner, number = (int(word) for word in words)
    except FileNotFoundError:
        return None
    except ValueError:
        log.warning("the number of the last commit cannot be read, and is written again", path=beside(path, MARK))
        return None
    return number if owner == database_id else None
