"""``cuebook backups``: copies of the database, written while it is used."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.progress import DownloadColumn

from api.cli.backend import backend
from api.cli.operation import PATH, Operation, copy_progress, megabytes
from api.cli.options import ANY_PATH, shown_by, skip_confirmation, with_settings
from api.cli.output import confirm, errors, fail, failing, print_rows
from api.ids import in_path
from api.settings import Settings

COLUMNS = ("backupId", "createdAt", "bytes", "version")
TIMEOUT_S = 86_400.0
_CREATION = Operation("backups", TIMEOUT_S, "backing up", DownloadColumn(), copy_progress)


@click.group()
def backups() -> None:
    """Create, list, delete and restore backups of the database."""


@backups.command("create", epilog="Example: cuebook backups create --json")
@shown_by(lambda backup: errors.print(f"backup {backup['backupId']} written: {megabytes(backup['bytes'])}"))
@with_settings("data")
async def create(settings: Settings) -> Any:
    """Write a backup, also while a server runs: reads and turns continue.

    A backup is a folder with a copy of the database and the secrets that belong to it. It is written to `backup_folder`
    of the settings, by default `backups` in the data folder; the oldest beyond `backup_keep` are deleted.
    """
    return await _CREATION.run(settings, dry_run=False)


@backups.command("list", epilog="Example: cuebook backups list --json")
@shown_by(lambda found: print_rows(COLUMNS, found))
@with_settings("data")
async def list_backups(settings: Settings) -> Any:
    """List the complete backups, the newest first."""
    async with backend(settings) as api:
        return (await api.get(f"{PATH}/backups"))["data"]


@backups.command("delete", epilog="Example: cuebook backups delete 2026-11-26T060000Z")
@click.argument("backup")
@skip_confirmation
@with_settings("data")
async def delete(settings: Settings, backup: str, yes: bool) -> None:
    """Delete a backup."""
    confirm(f"Delete the backup {backup}?", yes=yes)
    async with backend(settings) as api:
        await api.send("DELETE", f"{PATH}/backups/{in_path(backup)}", None)
    errors.print(f"backup {backup} deleted")


@backups.command(
    "restore",
    epilog="Examples:\n\n  cuebook backups restore 2026-11-26T060000Z\n\n"
    "  cuebook backups restore /mnt/backups/2026-11-26T060000Z --data restored",
)
@click.argument("backup", type=ANY_PATH)
@skip_confirmation
@with_settings("data")
def restore(settings: Settings, backup: Path, yes: bool) -> None:
    """Put a backup in the place of the database. Stop the server first.

    BACKUP is the name of a backup or the path of its folder. The replaced files are moved to a folder `replaced-…` in
    the data folder. Sessions are then as they were when the backup was begun.
    """
    from api.integrity.backups import SECRETS, folder_of  # not needed for `--help`
    from store.interface.errors import DatabaseLocked, StoreError
    from store.interface.private_files import FILE_NAME
    from store.open_store import restore_database

    if settings.database is not None:
        fail("the database is PostgreSQL: restore it with its own tools, such as pg_restore or a base backup")
    folder = backup if backup.is_dir() else folder_of(settings) / backup
    if not (folder / FILE_NAME).is_file():
        fail(f"{folder} is no backup: it contains no {FILE_NAME}; `cuebook backups list` shows the backups")
    confirm(f"Replace the database in {settings.data} by the backup {folder}?", yes=yes)
    with failing(DatabaseLocked, StoreError, OSError):
        replaced = restore_database(
            folder, settings.data, [settings.keys_in / name for name in SECRETS], datetime.now(UTC)
        )
    if replaced is not None:
        errors.print(f"the replaced files are in {replaced}; delete them when you do not need them")
    errors.print(
        "restored. Run `cuebook verify`, and start the server with `cuebook serve --hold-late-timers` if sessions must "
        "not continue by themselves"
    )
