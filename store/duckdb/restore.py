"""Put a backup in the place of the database of a data folder, which no server uses meanwhile."""

import contextlib
import os
import shutil
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import duckdb

from store.duckdb.checkpointer import SAVED
from store.duckdb.commit_mark import LOST, MARK
from store.duckdb.database import Database, remove_database
from store.duckdb.database_file import attach, log_of, why_not_open
from store.interface.errors import DatabaseTooOld, DatabaseUnreadable
from store.interface.private_files import FILE_NAME, beside, make_folder, sync

RESTORED = ".restoring"  # suffix of the copy of the backup
DERIVED = ("analytics", "memory")
"""Folders that are derived from the database: they are rebuilt."""


def restore_database(backup: Path, data: Path, secrets: Iterable[Path], now: datetime) -> Path | None:
    """Replace the database of a data folder, and the key files `secrets`, with those of a backup.

    Returns the folder to which the replaced files were moved; None if there was no database. If the process dies, the
    folder has the old database or the new one; a server that starts with an old one without its log reports the missing
    commits. Raises DatabaseLocked if a server uses the folder; DatabaseUnreadable or DatabaseTooNew if the backup
    cannot be used; and OSError.
    """
    with contextlib.suppress(DatabaseTooOld):  # the server migrates it when it starts
        Database.open(backup, read_only=True).close()
    path = data / FILE_NAME
    _require_unused(path)
    make_folder(data)
    fresh = beside(path, RESTORED)
    _copy(backup / FILE_NAME, fresh)
    replaced = _retain(data, secrets, now) if path.exists() else None
    for of_replaced in (log_of(path), beside(path, SAVED)):
        of_replaced.unlink(missing_ok=True)
    fresh.replace(path)
    for suffix in (MARK, LOST):  # last, so that a loss would be reported
        beside(path, suffix).unlink(missing_ok=True)
    for secret in secrets:
        if (backup / secret.name).exists():
            make_folder(secret.parent)
            shutil.copyfile(backup / secret.name, secret)
            secret.chmod(0o600)
            sync(secret)
    for name in DERIVED:
        shutil.rmtree(data / name, ignore_errors=True)
    sync(data)
    return replaced


def _copy(backup: Path, fresh: Path) -> None:
    """Copy the file of a database, with the commits of its log: a server that was killed leaves one."""
    remove_database(fresh)
    shutil.copyfile(backup, fresh)
    fresh.chmod(0o600)
    if log_of(backup).exists():
        shutil.copyfile(log_of(backup), log_of(fresh))
        connection = attach(fresh, read_only=False)
        try:
            connection.execute("CHECKPOINT cuebook")
        except duckdb.Error as error:
            raise why_not_open(fresh, error) from error
        finally:
            connection.close()
    sync(fresh)


def _require_unused(path: Path) -> None:
    """Raise DatabaseLocked if a process has the database open; a damaged one may be replaced."""
    if path.exists():
        try:
            attach(path, read_only=True).close()
        except DatabaseUnreadable:
            return


def _link(path: Path, target: Path) -> None:
    """Link a file, or copy it where the disk has no links."""
    try:
        os.link(path, target)
    except OSError:
        shutil.copyfile(path, target)


def _retain(data: Path, secrets: Iterable[Path], now: datetime) -> Path:
    """Link the files of the database into a folder of their own, and copy the secrets there."""
    folder = data / f"replaced-{now:%Y-%m-%dT%H%M%SZ}"
    make_folder(folder)
    for path in data.glob(f"{FILE_NAME}*"):
        if path.is_file() and not path.name.endswith(RESTORED):
            _link(path, folder / path.name)
    for secret in secrets:
        if secret.exists():
            shutil.copyfile(secret, folder / secret.name)
            (folder / secret.name).chmod(0o600)
    sync(folder)
    return folder
