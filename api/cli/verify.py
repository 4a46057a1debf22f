"""``cuebook verify``: whether a record, or a file of analysts, is sound."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from msgspec import to_builtins

from api.cli.memory.doctor import PATH as MEMORY_PATH
from api.cli.memory.doctor import TIMEOUT_S as MEMORY_TIMEOUT_S
from api.cli.options import settings_of, with_settings
from api.cli.output import errors, fail, print_json, print_table
from api.cli.progress import counted_progress
from api.cli.reach import Reach, reach, run
from api.schemas.verification import flaw_view
from api.settings import Settings
from store.analytics.checks import check
from store.errors import AnalyticsUnreadable, DatabaseLocked

PATH = "/api/operations/verify"
TIMEOUT_S = 600.0  # of one stretch: a single long session may be run again in it
COLUMNS = ("code", "table", "tenant", "sessionId", "userId", "turn", "what", "remedy")


@click.command(
    epilog="Examples:\n\n  cuebook verify\n\n  cuebook verify --replay --json\n\n  cuebook verify june.duckdb"
)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--quick", is_flag=True, help="Compare the log with the latest state of each session alone.")
@click.option("--replay", is_flag=True, help="Also run every session again, as `cuebook replay --all` does.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_settings("data", "host", "port", "embedder")
def verify(file: Path | None, quick: bool, replay: bool, as_json: bool, config: Path | None, **flags: Any) -> None:
    """Checks the record: replays the log of each session against its states, and tables and indexes against each other.

    With FILE it checks a snapshot instead, or another file of analysts: its tables against each other, and what is
    masked in it. Works also while a server runs, and while turns are taken. Nothing is changed. Exits with 1 where
    there is damage.
    """
    if file is not None and (quick or replay):
        fail("--quick and --replay are about the record; a file has no states")
    found = (
        _of_file(file) if file is not None else run(_verified(settings_of(config, **flags), quick=quick, replay=replay))
    )
    damages = sum(each["isDamage"] for each in found["findings"])
    if as_json:
        print_json(found | {"damages": damages})
    elif found["findings"]:
        print_table(COLUMNS, [[each[column] for column in COLUMNS] for each in found["findings"]])
    looked_at = f"{found['sessions']:,} sessions and {found['turns']:,} turns"
    errors.print(f"{looked_at}: {damages:,} damage{'s' * (damages != 1)} found")
    sys.exit(1 if damages else 0)


def _of_file(file: Path) -> dict[str, Any]:
    """What is wrong with an analytics file, told as of a record."""
    try:
        with counted_progress("checking rules") as tell:
            checked = check(file, tell)
    except (AnalyticsUnreadable, DatabaseLocked) as error:
        fail(str(error))
    about, findings = checked.about, [flaw_view(finding) for finding in checked.findings]
    return {
        "about": to_builtins(about),
        "sessions": about.sessions,
        "turns": about.turns,
        "findings": to_builtins(findings),
    }


async def _verified(settings: Settings, *, quick: bool, replay: bool) -> dict[str, Any]:
    async with reach(settings) as api:
        with counted_progress("checking sessions") as tell:
            found = await _stretches(api, tell, quick=quick, replay=replay)
        with counted_progress("checking memories"):
            memory = await api.send("GET", MEMORY_PATH, timeout_s=MEMORY_TIMEOUT_S)
    return found | {"findings": [*found["findings"], *map(_of_memory, memory["findings"])]}


async def _stretches(api: Reach, tell: Callable[[int, int], None], *, quick: bool, replay: bool) -> dict[str, Any]:
    """One stretch after the other, up to the end."""
    findings: list[Any] = []
    sessions = turns = 0
    after: str | None = None
    asked = {"quick": str(quick).lower(), "replay": str(replay).lower()}
    while True:
        answer = await api.send("GET", PATH, timeout_s=TIMEOUT_S, after=after, **asked)
        findings += answer["findings"]
        sessions, turns = sessions + answer["sessions"], turns + answer["turns"]
        tell(sessions, max(answer["sessionsTotal"], sessions))
        after = answer["next"]
        if after is None:
            return {"sessions": sessions, "turns": turns, "findings": findings}


def _of_memory(finding: Any) -> dict[str, Any]:
    """What the doctor of memories found, as everything else is told."""
    mended = f"`cuebook memory doctor --repair`: {finding['mended']}" if finding["mended"] else "a server sees to it"
    return {
        "code": finding["code"],
        "table": "memory",
        "tenant": finding["tenant"],
        "sessionId": None,
        "userId": finding["userId"],
        "turn": None,
        "what": f"{finding['means']} ({finding['subject']})",
        "remedy": mended,
        "isDamage": bool(finding["mended"]),
    }
