"""``cuebook memory doctor``: whether memories are sound, and their repair."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from api.caller import TENANT
from api.cli.memory.asking import in_json
from api.cli.options import settings_of, with_settings
from api.cli.output import errors, print_json, print_table
from api.cli.progress import counted_progress
from api.cli.reach import Reach, reach, run

PATH = "/api/operations/memory"
TIMEOUT_S = 3_600.0
COLUMNS = ("code", "tenant", "userId", "subject", "sequence", "means", "repair")


@click.command(epilog="Example: cuebook memory doctor --user ana --repair")
@click.option("--user", "user_id", help="Only this user's memory [all].")
@click.option("--tenant", help=f"Of this tenant alone; with --user [{TENANT}], else [all].")
@click.option("--repair", is_flag=True, help="Mend what can be mended from other rows.")
@in_json
@with_settings("data", "host", "port", "embedder")
def doctor(
    user_id: str | None, tenant: str | None, repair: bool, as_json: bool, config: Path | None, **flags: Any
) -> None:
    """Checks memories: whether their rows agree with each other, and what is saved of their indexes with the rows.

    Repairing never removes words that stand nowhere else. What needs no repair, since a server sees to it by itself, is
    told as well. Exits with 1 where damage was found, or is left after --repair.
    """
    if user_id is not None and tenant is None:
        tenant = TENANT
    settings = settings_of(config, **flags)
    asked = {"tenant": tenant, "userId": user_id}

    async def work() -> Any:
        async with reach(settings, writing=repair) as api:
            with counted_progress("mending" if repair else "checking"):
                return await _asked(api, asked, repair=repair)

    found = run(work())
    left = found["left"] if repair else found["findings"]
    if as_json:
        print_json(found)
    else:
        _show(found.get("mended", []), left)
    damaged = sum(bool(finding["mended"]) for finding in left)
    done = f"{len(found['mended']):,} mended, " if repair else ""
    errors.print(f"{done}{damaged:,} damage{'s' * (damaged != 1)} {'left' if repair else 'found'}")
    if damaged and not repair:
        errors.print("`--repair` mends what the last column says", markup=False)
    sys.exit(1 if damaged else 0)


async def _asked(api: Reach, asked: dict[str, str | None], *, repair: bool) -> Any:
    method, path = ("POST", f"{PATH}/repair") if repair else ("GET", PATH)
    return await api.send(method, path, timeout_s=TIMEOUT_S, **asked)


def _show(mended: Sequence[Any], left: Sequence[Any]) -> None:
    lines = [_line(finding, "mended: ") for finding in mended] + [_line(finding, "") for finding in left]
    if lines:
        print_table(COLUMNS, lines)


def _line(finding: Any, done: str) -> list[Any]:
    remedy = f"{done}{finding['mended']}" if finding["mended"] else "a server sees to it"
    names = ("code", "tenant", "userId", "subject", "sequence", "means")
    return [*(finding[name] for name in names), remedy]


COMMANDS = (doctor,)
