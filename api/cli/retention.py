"""``cuebook retention``: what is due by the policies of the settings, dropped."""

import asyncio
from pathlib import Path
from typing import Any

import click
from rich.progress import MofNCompleteColumn

from api.cli.options import settings_of, with_settings
from api.cli.output import errors, print_json, print_table
from api.cli.progress import follow
from api.cli.reach import reach, run
from api.settings import Settings

RETENTION_TIMEOUT_S = 86_400.0
PATH = "/api/operations/retention"
COLUMNS = ("drop", "afterDays", "script", "tenant", "status", "sessions", "turns", "messages", "bytes", "oldest")


@click.command(epilog="Example: cuebook retention --dry-run")
@click.option("--dry-run", is_flag=True, help="Change nothing, only say what each policy would drop now.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_settings("data", "host", "port")
def retention(dry_run: bool, as_json: bool, config: Path | None, **flags: Any) -> None:
    """Drops what is due by the `[[retention]]` policies of cuebook.toml: the text of sessions, or all of them.

    What is counted stays where text is dropped. A server does so by itself, once a day; works also while it runs.
    The bytes leave the file with `cuebook compact`.
    """
    settings = settings_of(config, **flags)
    found = run(_look(settings) if dry_run else _apply(settings))
    if as_json:
        print_json(found)
    elif dry_run:
        rows = [["" if each[column] is None else each[column] for column in COLUMNS] for each in found["policies"]]
        print_table(COLUMNS, rows)
    else:
        passed = f"; {found['passed']} left for the next time" if found["passed"] else ""
        errors.print(f"dropped: the text of {found['texts']} sessions, and {found['sessions']} sessions{passed}")
        if found["texts"] or found["sessions"]:
            errors.print("their bytes leave the file with `cuebook compact`")
    if dry_run and not found["policies"]:
        errors.print("cuebook.toml has no `retention` policy, so nothing is ever dropped")


async def _look(settings: Settings) -> Any:
    async with reach(settings) as api:
        return await api.get(PATH)


async def _apply(settings: Settings) -> Any:
    async with reach(settings, writing=True) as api:
        dropping = asyncio.create_task(api.send("POST", PATH, timeout_s=RETENTION_TIMEOUT_S))
        await follow(api, PATH, dropping, "sessions", MofNCompleteColumn(), _stand)
        return await dropping


def _stand(running: Any) -> tuple[str, int, int]:
    done = running["texts"] + running["sessions"] + running["passed"]
    return "sessions", done, running["sessionsDue"]
