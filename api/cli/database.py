"""``cuebook compact|retention|verify|backups|copy``: operations on the whole database."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from msgspec import Struct, convert, to_builtins
from rich.progress import DownloadColumn, MofNCompleteColumn, ProgressColumn, TimeElapsedColumn

from api.cli.backend import Backend, RequestRefused, backend, read_answer, run
from api.cli.options import ANY_PATH, in_json, json_option, page_options, skip_confirmation, with_settings
from api.cli.output import confirm, end, errors, fail, failing, print_json, print_page, print_rows
from api.cli.progress import ProgressBar, progress_bar
from api.schemas.ids import in_path
from api.schemas.operations import PolicyView
from api.settings import Settings
from scripts.expressions.values import count_text
from store.interface.retention_rows import Policy

LOOK_S = 0.2  # between two requests for the progress of work on the server
PATH = "/api/operations"
COMPACT_TIMEOUT_S = 3_600.0
RETENTION_TIMEOUT_S = 86_400.0
BACKUP_TIMEOUT_S = 86_400.0
VERIFY_TIMEOUT_S = 600.0  # of one batch: a batch may contain a single long session
FIX_TIMEOUT_S = 3_600.0
SPACE_COLUMNS = ("bytes", "reclaimableBytes", "neededBytes", "diskFreeBytes")
POLICY_COLUMNS = (
    "action", "afterDays", "script", "tenant", "status", "sessions", "turns", "messages", "bytes", "oldest",
)  # fmt: skip
FINDING_COLUMNS = ("code", "table", "tenant", "sessionId", "userId", "turn", "what", "remedy")
BACKUP_COLUMNS = ("backupId", "createdAt", "bytes", "version")


class Operation(Struct, frozen=True):
    """A route whose POST request does the work; GET returns a preview, and reports the running work as `running`.

    `progress_of` turns that report into the name of the step, the units done, and the least number of units in all.
    """

    name: str
    timeout_s: float
    what: str
    counted: ProgressColumn
    progress_of: Callable[[Any], tuple[str, int, int]]
    check: Callable[[Settings, Any], None] | None = None
    """Ends the command if it must not run on a server with this preview."""

    async def run(self, settings: Settings, *, dry_run: bool) -> Any:
        """Return the JSON answer, or with `dry_run` the preview; show a bar on a terminal."""
        path = f"{PATH}/{self.name}"
        async with backend(settings, writing=not dry_run) as api:
            if self.check is not None and api.is_served:
                self.check(settings, await api.get(path))
            if dry_run:
                return await api.get(path)
            work = asyncio.create_task(api.send("POST", path, timeout_s=self.timeout_s))
            with progress_bar(self.what, self.counted) as bar:
                while errors.is_terminal and not (await asyncio.wait({work}, timeout=LOOK_S))[0]:
                    with suppress(RequestRefused):  # a failed request for progress does not matter: the work continues
                        running = (await api.get(path))["running"]
                        if running is not None:
                            step, done, total = self.progress_of(running)
                            bar.update(description=step, completed=done, total=max(done, total))
                return await work


def copy_progress(running: Any) -> tuple[str, int, int]:
    """Return step, bytes written and bytes expected of a compaction or backup."""
    return running["step"], running["bytesWritten"], running["bytesExpected"]


def megabytes(count: int) -> str:
    """Return a number of bytes as a text."""
    return f"{count / 1e6:.1f} MB"


# -- compact ----------------------------------------------------------------------------------------------------------


@click.command(epilog="Example: cuebook compact --dry-run")
@click.option("--dry-run", is_flag=True, help="Change nothing; print the space it needs and the least it frees.")
@in_json
@with_settings("data")
async def compact(settings: Settings, dry_run: bool, as_json: bool) -> None:
    """Rewrite the database file so that deleted data is physically gone.

    Use it after deleting sessions or erasing users: until then bytes of their data remain in the file. It works while
    a server runs: reads continue, turns wait until it is done, a few seconds per gigabyte. The disk needs space for a
    second copy. If it is interrupted, either the old or the new file is there, complete.
    """
    found = await _COMPACTION.run(settings, dry_run=dry_run)
    if as_json:
        print_json(found)
    elif dry_run:
        print_rows(SPACE_COLUMNS, [found])
    else:
        errors.print(f"compacted: {megabytes(found['bytesBefore'])} before, {megabytes(found['bytesAfter'])} now")
    if dry_run and found["diskFreeBytes"] < found["neededBytes"]:
        errors.print("the disk has no space for a second copy")
        end(1)


_COMPACTION = Operation("compact", COMPACT_TIMEOUT_S, "compacting", DownloadColumn(), copy_progress)


# -- retention --------------------------------------------------------------------------------------------------------


@click.command(epilog="Example: cuebook retention --dry-run")
@click.option("--dry-run", is_flag=True, help="Change nothing; print what each policy would redact or delete now.")
@in_json
@with_settings("data")
async def retention(settings: Settings, dry_run: bool, as_json: bool) -> None:
    """Redact or delete the sessions that are due by the `[[retention]]` policies of cuebook.toml.

    Redaction removes texts and preserves counts. A server applies the policies once a day; use this command to apply
    them now, also while a server runs; restart it first if the policies have changed. `cuebook compact` then
    removes the deleted bytes from the file.
    """
    found = await _RETENTION.run(settings, dry_run=dry_run)
    if as_json:
        print_json(found)
    elif dry_run:
        print_rows(POLICY_COLUMNS, found["policies"])
    elif found["policyCount"]:
        passed = f"; {found['passed']} left for the next run" if found["passed"] else ""
        errors.print(f"{found['redacted']} sessions redacted, {found['deleted']} deleted{passed}")
        if found["redacted"] or found["deleted"]:
            errors.print("run `cuebook compact` to remove their bytes from the file")
    if not (found["policies"] if dry_run else found["policyCount"]):
        errors.print(
            "there is no policy in the settings, so every session is stored without limit; define one in cuebook.toml, "
            "such as `[[retention]]` with the line `after_days = 90`",
            markup=False,
        )


def _retention_progress(running: Any) -> tuple[str, int, int]:
    return "sessions", running["redacted"] + running["deleted"] + running["passed"], running["sessionsDue"]


def _check_policies(settings: Settings, served: Any) -> None:
    """End the command if the server would apply other policies than those that this command has read."""
    views = convert(served["policies"], list[PolicyView])
    if settings.retention and settings.retention != [convert(each, Policy, from_attributes=True) for each in views]:
        fail("the server has other `retention` policies than these settings; restart it, so that it applies these")


_RETENTION = Operation(
    "retention", RETENTION_TIMEOUT_S, "sessions", MofNCompleteColumn(), _retention_progress, _check_policies
)


# -- verify -----------------------------------------------------------------------------------------------------------


@click.command(epilog="Examples:\n\n  cuebook verify\n\n  cuebook verify june.duckdb\n\n  cuebook verify --fix")
@click.argument("file", type=ANY_PATH, required=False)
@click.option("--quick", is_flag=True, help="Only compare the log of each session with its latest state.")
@click.option(
    "--fix", is_flag=True, help="First rebuild rows of memories that are derived from others and are damaged."
)
@in_json
@with_settings("data")
def verify(settings: Settings, file: Path | None, quick: bool, fix: bool, as_json: bool) -> None:
    """Verify that the database is complete and consistent.

    Use it after a crash, a restored backup or a disk error. It compares the log of each session with its stored states,
    and the tables with each other. With FILE it checks a snapshot or another analytics file instead: its rows
    against the digests that the snapshot was taken with, and its masking. It works while a server runs, and without
    --fix it changes nothing. Exits with 1 if there is damage.
    """
    if file is not None and (quick or fix):
        fail("--quick and --fix are for the database; an analytics file is rebuilt from it")
    found = _verify_file(file) if file is not None else run(_verify_database(settings, quick=quick, fix=fix))
    damages = sum(each["isDamage"] for each in found["findings"])
    if as_json:
        print_json(found | {"damages": damages})
    elif found["findings"]:
        print_rows(FINDING_COLUMNS, found["findings"])
    scope = f"{count_text(found['sessions'], 'session')} and {count_text(found['turns'], 'turn')}"
    fixed = f"{len(found['fixed']):,} damages fixed, " if fix else ""
    errors.print(f"{scope}: {fixed}{count_text(damages, 'damage')} {'left' if fix else 'found'}")
    end(1 if damages else 0)


def _verify_file(file: Path) -> dict[str, Any]:
    """Return the findings in an analytics file, in the shape of those in a database."""
    from api.schemas.operations import FlawView
    from store.analytics.snapshots import check  # not needed for a database
    from store.interface.errors import AnalyticsUnreadable, DatabaseLocked

    with failing(AnalyticsUnreadable, DatabaseLocked), progress_bar("checking tables") as on_progress:
        checked = check(file, on_progress)
    about, findings = checked.about, [FlawView.of(finding) for finding in checked.findings]
    return {
        "about": to_builtins(about),
        "sessions": about.sessions,
        "turns": about.turns,
        "findings": to_builtins(findings),
    }


async def _verify_database(settings: Settings, *, quick: bool, fix: bool) -> dict[str, Any]:
    async with backend(settings, writing=fix) as api:
        fixed = await api.send("POST", f"{PATH}/verify/fix", timeout_s=FIX_TIMEOUT_S) if fix else {}
        with progress_bar("checking sessions") as on_progress:
            return await _verify_batches(api, on_progress, quick=quick) | fixed


async def _verify_batches(api: Backend, on_progress: ProgressBar, *, quick: bool) -> dict[str, Any]:
    """Verify the database batch by batch."""
    found: dict[str, Any] = {"sessions": 0, "turns": 0, "findings": []}
    after: str | None = None
    while True:
        answer = await api.send("GET", f"{PATH}/verify", timeout_s=VERIFY_TIMEOUT_S, after=after, quick=quick)
        for name in found:
            found[name] += answer[name]
        on_progress(found["sessions"], max(answer["sessionsTotal"], found["sessions"]))
        after = answer["next"]
        if after is None:
            return found


# -- backups ----------------------------------------------------------------------------------------------------------


_BACKUP = Operation("backups", BACKUP_TIMEOUT_S, "backing up", DownloadColumn(), copy_progress)


@click.group()
def backups() -> None:
    """Create, list, delete and restore backups of the database."""


@backups.command("create", epilog="Example: cuebook backups create --json")
@json_option(lambda backup: errors.print(f"backup {backup['backupId']} written: {megabytes(backup['bytes'])}"))
@with_settings("data")
async def create(settings: Settings) -> Any:
    """Write a backup, also while a server runs: reads and turns continue.

    A backup is a folder with a copy of the database and the secrets that belong to it. It is written to `backup_folder`
    of the settings, by default `backups` in the data folder; the oldest beyond `backup_keep` are deleted.
    """
    return await _BACKUP.run(settings, dry_run=False)


@backups.command("list", epilog="Example: cuebook backups list --json")
@page_options("backups")
@json_option(lambda page: print_page(page, BACKUP_COLUMNS))
@with_settings("data")
async def list_backups(settings: Settings, **query: Any) -> Any:
    """List the complete backups, the newest first."""
    return await read_answer(settings, f"{PATH}/backups", **query)


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
    from store.interface.errors import StoreError
    from store.interface.private_files import FILE_NAME
    from store.open_store import restore_database

    if settings.database is not None:
        fail("the database is PostgreSQL: restore it with its own tools, such as pg_restore or a base backup")
    folder = backup if backup.is_dir() else folder_of(settings) / backup
    if not (folder / FILE_NAME).is_file():
        fail(f"{folder} is no backup: it contains no {FILE_NAME}; `cuebook backups list` shows the backups")
    confirm(f"Replace the database in {settings.data} by the backup {folder}?", yes=yes)
    with failing(StoreError, OSError):
        replaced = restore_database(
            folder, settings.data, [settings.keys_in / name for name in SECRETS], datetime.now(UTC)
        )
    if replaced is not None:
        errors.print(f"the replaced files are in {replaced}; delete them when you do not need them")
    errors.print(
        "restored. Run `cuebook verify`, and start the server with `cuebook serve --hold-late-timers` if sessions must "
        "not continue by themselves"
    )


# -- copy -------------------------------------------------------------------------------------------------------------


@click.command("copy", epilog="Example: cuebook copy --from cuebook-data --to postgresql://me@db.example.com/cuebook")
@click.option("--from", "source", required=True, help="Data folder, or `postgresql://…`, to read.")
@click.option("--to", "target", required=True, help="New data folder, or empty PostgreSQL database, to write.")
def copy_database(source: str, target: str) -> None:
    """Copy a whole database: from a data folder to PostgreSQL, or back.

    Stop the servers on both before. A copy that was interrupted goes on where it stopped when the same command runs
    again; at the end all rows of both are compared. The key files of the data folder are not copied: give them to the
    servers on the new database.
    """
    from store.interface.addresses import without_password  # not needed by the other commands
    from store.interface.errors import StoreError
    from store.open_store import postgres_driver

    with failing(StoreError), postgres_driver():
        from store.copy_database import copy_database as copy_rows

    with failing(StoreError), progress_bar("copying", MofNCompleteColumn(), TimeElapsedColumn()) as bar:
        counts = copy_rows(
            source, target, lambda what, done, total: bar.update(description=what, completed=done, total=total)
        )
    shown = without_password(target) if "://" in target else target
    errors.print(f"Copied {sum(counts.values()):,} rows to {shown}; both have the same rows.")
