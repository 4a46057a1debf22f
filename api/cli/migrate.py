"""``cuebook migrate``: running sessions moved to another version of their script, and back."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import click
from msgspec import Struct
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from api.cli.options import settings_of, with_settings
from api.cli.output import errors, fail, print_json, print_table
from api.cli.reach import Answered, Reach, reach, run
from api.settings import Settings
from runtime.migration import MOVING, VERDICTS
from scripts.folder import read_path
from scripts.parse import Source

PAGE = 200
COLUMNS = ("sessionId", "place", "verdict", "newPlace", "why")
_QUIET = {"ended", "current"}  # verdicts of sessions that nobody has to look at
_STAYS = {"blocked", "failed"}

Row: TypeAlias = dict[str, Any]


class _Wanted(Struct, frozen=True):
    """What to move where: a script by its id, or a file that is to become its next version."""

    script_id: str
    version: int | None
    source: Source | None
    sessions: tuple[str, ...]


@click.command(epilog="Example: cuebook migrate intake.yaml --dry-run")
@click.argument("script", required=False)
@click.option("--to", "version", type=click.IntRange(1), help="Number of the version [the latest published].")
@click.option("--session", "sessions", multiple=True, help="Only this session; may be given several times.")
@click.option("--only", help="Only sessions with these verdicts [safe,mapped,restart_topic].")
@click.option("--dry-run", is_flag=True, help="Change nothing, only say what would become of each session.")
@click.option("--undo", metavar="SESSION", help="Take the last move of a session back.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_settings("data", "host", "port", "model")
def migrate(
    script: str | None,
    version: int | None,
    sessions: Sequence[str],
    only: str | None,
    dry_run: bool,
    undo: str | None,
    yes: bool,
    as_json: bool,
    config: Path | None,
    **flags: Any,
) -> None:
    """Moves running sessions to another version of their script, by ids.

    SCRIPT is the id of a script, or a file, which is published first. Each session moves whole or not at all; its
    verdict is `safe` (it stays where it is), `mapped` (renames were followed), `restart_topic` (its topic begins again)
    or `blocked`. Works also while a server runs. Exits with 1 where a session cannot move.
    """
    settings = settings_of(config, **flags)
    if undo is not None:
        _undo(settings, undo, as_json)
        return
    if script is None:
        fail("name a script by its id or its file, or a session with --undo")
    wanted = _wanted(script, version, tuple(sessions))
    verdicts = _verdicts(only)
    looked = run(_look(settings, wanted))
    if dry_run:
        _finish(looked, as_json, "")
    chosen = [row for row in looked if row["verdict"] in verdicts]
    if sys.stdin.isatty() and not yes and chosen:
        _table(looked)
        if not click.confirm(f"Move {len(chosen)} of {len(looked)} sessions?", err=True):
            sys.exit(1)
    moved = run(_move(settings, wanted, chosen))
    _finish([moved.get(row["sessionId"], row) for row in looked], as_json, f"; {_count(moved.values())} moved")


def _wanted(script: str, version: int | None, sessions: tuple[str, ...]) -> _Wanted:
    if not Path(script).is_file():
        return _Wanted(script, version, None, sessions)
    if version is not None:
        fail("--to names a version that is published; a file becomes a version of its own")
    reading = read_path(Path(script))
    if reading.script is None:
        fail(f"{script} cannot be run: {reading.errors[0]}. See `cuebook check {script}`")
    return _Wanted(reading.script.id, None, reading.source, sessions)


def _verdicts(only: str | None) -> set[str]:
    chosen: set[str] = {each.strip() for each in only.split(",")} if only is not None else set(MOVING)
    if unknown := chosen - set(MOVING):
        fail(f"--only takes {', '.join(MOVING)}; {', '.join(sorted(unknown))} is none of them")
    return chosen


# -- through the API --------------------------------------------------------------------------------------------------


async def _look(settings: Settings, wanted: _Wanted) -> list[Row]:
    """What would become of each session."""
    body = _target(wanted) | {"dryRun": True}
    if wanted.source is not None:
        body = {"yamlContent": wanted.source.text, "files": dict(wanted.source.side_files), "dryRun": True}
    async with reach(settings, writing=True) as api:
        listed = await _sessions(api, wanted)
        return [await _tried(api, session, body) for session in _tracked("looking", listed)]


async def _sessions(api: Reach, wanted: _Wanted) -> list[Row]:
    """The sessions of the script, or those of them that were named."""
    found: list[Row] = []
    try:
        script: Any = await api.get(f"/api/scripts/{quote(wanted.script_id, '')}")
    except Answered:
        if wanted.source is None or wanted.sessions:
            raise
        return found  # a file that nothing was published of yet
    cursor: str | None = None
    while True:
        page: Any = await api.get("/api/sessions", limit=PAGE, cursor=cursor)
        found += [row for row in page["data"] if row["scriptId"] == script["scriptId"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    missing = set(wanted.sessions) - {row["sessionId"] for row in found}
    if missing:
        raise Answered(f"{', '.join(sorted(missing))} is no session of {wanted.script_id}")
    return [row for row in found if not wanted.sessions or row["sessionId"] in wanted.sessions]


async def _tried(api: Reach, session: Row, body: Mapping[str, object]) -> Row:
    """What comes of a session; a topic that cannot begin again leaves it where it is."""
    session_id = session["sessionId"]
    if session["status"] == "completed":
        return {"sessionId": session_id, "verdict": "ended", "place": "", "newPlace": "", "why": [], "moved": False}
    try:
        row: Any = await api.send("POST", f"/api/sessions/{quote(session_id, '')}/migrate", body)
    except Answered as refused:
        row = {"sessionId": session_id, "verdict": "failed", "place": "", "newPlace": "", "why": [str(refused)]}
        row["moved"] = False
    return dict(row)


async def _move(settings: Settings, wanted: _Wanted, chosen: list[Row]) -> dict[str, Row]:
    async with reach(settings, writing=True) as api:
        body = _target(wanted)
        if wanted.source is not None:
            kept = {"yamlContent": wanted.source.text, "files": dict(wanted.source.side_files)}
            saved: Any = await api.send("POST", "/api/scripts/import", kept)
            body["version"] = saved["version"]
        sessions = [row | {"status": "active"} for row in chosen]
        return {row["sessionId"]: await _tried(api, row, body) for row in _tracked("moving", sessions)}


def _target(wanted: _Wanted) -> dict[str, object]:
    return {"scriptId": wanted.script_id} | ({"version": wanted.version} if wanted.version is not None else {})


def _tracked(what: str, rows: list[Row]) -> Any:
    """The rows, with a bar that shows how far it is."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        yield from progress.track(rows, description=what)


def _undo(settings: Settings, session_id: str, as_json: bool) -> None:
    async def work() -> Any:
        async with reach(settings, writing=True) as api:
            return await api.send("POST", f"/api/sessions/{quote(session_id, '')}/migrate/undo", {})

    row = run(work())
    if as_json:
        print_json(row)
        return
    errors.print(f"back from version {row['fromVersion']} to version {row['version']}, at {row['newPlace']}")


# -- printing -----------------------------------------------------------------------------------------------------


def _finish(rows: list[Row], as_json: bool, moved: str) -> None:
    """Prints what came of it, and ends the command."""
    counts = Counter(row["verdict"] for row in rows)
    if as_json:
        print_json({"sessions": rows, "summary": counts, "moved": _count(rows)})
    else:
        _table(rows)
    parts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in (*VERDICTS, "failed") if counts[verdict])
    errors.print(f"{len(rows)} session{'s' * (len(rows) != 1)}{': ' * bool(parts)}{parts}{moved}")
    sys.exit(1 if _STAYS & counts.keys() else 0)


def _table(rows: list[Row]) -> None:
    shown = [row for row in rows if row["verdict"] not in _QUIET]
    print_table(COLUMNS, [[row["sessionId"], *_cells(row)] for row in shown])


def _cells(row: Row) -> list[str]:
    place = row["newPlace"] if row["newPlace"] != row["place"] else ""
    return [row["place"], row["verdict"], place, "; ".join(row["why"])]


def _count(rows: Any) -> int:
    return sum(row["moved"] for row in rows)
