"""``cuebook compact``: the record rewritten without what was removed from it."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import click
from rich.progress import DownloadColumn

from api.cli.options import settings_of, with_settings
from api.cli.output import errors, print_json, print_table
from api.cli.progress import follow
from api.cli.reach import reach, run
from api.settings import Settings

COMPACT_TIMEOUT_S = 3_600.0
PATH = "/api/operations/compact"
COLUMNS = ("bytes", "reclaimableBytes", "neededBytes", "diskFreeBytes")


@click.command(epilog="Example: cuebook compact --dry-run")
@click.option("--dry-run", is_flag=True, help="Change nothing, only say what it needs and what it gives back at least.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_settings("data", "host", "port")
def compact(dry_run: bool, as_json: bool, config: Path | None, **flags: Any) -> None:
    """Rewrites the record, so that no byte is left in its file of deleted sessions and erased users.

    Works also while a server runs: reading goes on, turns wait until it is done, some seconds for a gigabyte. It
    needs room for a second copy on the disk. Whenever it is interrupted, the old file or the new one is there, whole.
    """
    settings = settings_of(config, **flags)
    found = run(_look(settings) if dry_run else _compact(settings))
    if as_json:
        print_json(found)
    elif dry_run:
        print_table(COLUMNS, [[found[column] for column in COLUMNS]])
    else:
        errors.print(f"compacted: {_size(found['bytesBefore'])} before, {_size(found['bytesAfter'])} now")
    if dry_run and found["diskFreeBytes"] < found["neededBytes"]:
        errors.print("there is no room for a second copy on its disk")
        sys.exit(1)


async def _look(settings: Settings) -> Any:
    async with reach(settings) as api:
        return await api.get(PATH)


async def _compact(settings: Settings) -> Any:
    async with reach(settings, writing=True) as api:
        compacting = asyncio.create_task(api.send("POST", PATH, timeout_s=COMPACT_TIMEOUT_S))
        await follow(api, PATH, compacting, "compacting", DownloadColumn(), _stand)
        return await compacting


def _stand(running: Any) -> tuple[str, int, int]:
    return running["step"], running["bytesWritten"], running["bytesExpected"]


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
