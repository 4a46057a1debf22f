"""``cuebook compact``, ``cuebook retention`` and ``cuebook verify``: operations on the whole database."""

from pathlib import Path
from typing import Any

import click
from msgspec import to_builtins
from rich.progress import DownloadColumn, MofNCompleteColumn

from api.cli.backend import Backend, backend, run
from api.cli.operation import PATH, Operation, copy_progress, megabytes
from api.cli.options import ANY_PATH, in_json, with_settings
from api.cli.output import end, errors, fail, failing, print_json, print_rows
from api.cli.progress import OnProgress, counted_progress
from api.settings import Settings

COMPACT_TIMEOUT_S = 3_600.0
RETENTION_TIMEOUT_S = 86_400.0
VERIFY_TIMEOUT_S = 600.0  # of one batch: a batch may contain a single long session
FIX_TIMEOUT_S = 3_600.0
SPACE_COLUMNS = ("bytes", "reclaimableBytes", "neededBytes", "diskFreeBytes")
POLICY_COLUMNS = (
    "action", "afterDays", "script", "tenant", "status", "sessions", "turns", "messages", "bytes", "oldest",
)  # fmt: skip
FINDING_COLUMNS = ("code", "table", "tenant", "sessionId", "userId", "turn", "what", "remedy")


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
    them now, also while a server runs. `cuebook compact` then removes the deleted bytes from the file.
    """
    found = await _RETENTION.run(settings, dry_run=dry_run)
    if as_json:
        print_json(found)
    elif dry_run:
        print_rows(POLICY_COLUMNS, found["policies"])
    else:
        passed = f"; {found['passed']} left for the next run" if found["passed"] else ""
        errors.print(f"{found['redacted']} sessions redacted, {found['deleted']} deleted{passed}")
        if found["redacted"] or found["deleted"]:
            errors.print("run `cuebook compact` to remove their bytes from the file")
    if dry_run and not found["policies"]:
        errors.print("cuebook.toml has no `retention` policy, so every session is stored without limit")


def _retention_progress(running: Any) -> tuple[str, int, int]:
    return "sessions", running["redacted"] + running["deleted"] + running["passed"], running["sessionsDue"]


_RETENTION = Operation("retention", RETENTION_TIMEOUT_S, "sessions", MofNCompleteColumn(), _retention_progress)


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
    and tables and indexes with each other. With FILE it checks a snapshot or another analytics file instead: its rows
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
    scope = f"{found['sessions']:,} sessions and {found['turns']:,} turns"
    fixed = f"{len(found['fixed']):,} damages fixed, " if fix else ""
    errors.print(f"{scope}: {fixed}{damages:,} damage{'s' * (damages != 1)} {'left' if fix else 'found'}")
    end(1 if damages else 0)


def _verify_file(file: Path) -> dict[str, Any]:
    """Return the findings in an analytics file, in the shape of those in a database."""
    from api.schemas.operations import FlawView
    from store.analytics.snapshots import check  # not needed for a database
    from store.interface.errors import AnalyticsUnreadable, DatabaseLocked

    with failing(AnalyticsUnreadable, DatabaseLocked), counted_progress("checking tables") as on_progress:
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
        with counted_progress("checking sessions") as on_progress:
            return await _verify_batches(api, on_progress, quick=quick) | fixed


async def _verify_batches(api: Backend, on_progress: OnProgress, *, quick: bool) -> dict[str, Any]:
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
