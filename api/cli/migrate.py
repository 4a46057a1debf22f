"""``cuebook migrate``: move running sessions to another version of their script, and back."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import click
from msgspec import Struct

from api.cli.backend import Backend, RequestRefused, backend
from api.cli.options import in_json, skip_confirmation, with_settings
from api.cli.output import confirm, end, errors, fail, print_json, print_rows
from api.cli.progress import track
from api.cli.script_arguments import runnable
from api.schemas.ids import in_path
from api.settings import Settings
from runtime.migration.migration import MOVING, VERDICTS
from scripts.expressions.values import count_text
from scripts.parse.read_script import Source

COLUMNS = ("sessionId", "place", "verdict", "newPlace", "why")
_QUIET = {"ended", "current"}  # verdicts that need no attention
_STAYS = {"blocked", "failed"}

Row: TypeAlias = dict[str, Any]


class _MigrationOptions(Struct, frozen=True):
    """The target of the migration: a published version, or a file (`source`) to publish as the next version."""

    script_id: str
    version: int | None
    source: Source | None
    sessions: tuple[str, ...]


@click.command(epilog="Example: cuebook migrate intake.yaml --dry-run")
@click.argument("script", required=False)
@click.option("--to", "version", type=click.IntRange(1), help="Number of the version [the latest published].")
@click.option("--session", "sessions", multiple=True, help="Only this session; may be repeated.")
@click.option("--only", help="Only sessions with these verdicts [safe,mapped,restart_topic].")
@click.option("--dry-run", is_flag=True, help="Change nothing; print the verdict of each session.")
@click.option("--undo", metavar="SESSION", help="Undo the last migration of a session.")
@skip_confirmation
@in_json
@with_settings("data", "model")
async def migrate(
    settings: Settings,
    script: str | None,
    version: int | None,
    sessions: Sequence[str],
    only: str | None,
    dry_run: bool,
    undo: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Migrate running sessions to another version of their script.

    Use it after publishing a script: running sessions stay on their version until they are migrated. SCRIPT is the id
    of a script, or a file, which is published first. Each session migrates completely or not at all. Verdicts: `safe`
    (the position is unchanged), `mapped` (the position was renamed), `restart_topic` (the topic starts again),
    `blocked` (it cannot migrate). It works while a server runs. Exits with 1 if a session cannot migrate.
    """
    if undo is not None:
        await _undo(settings, undo, as_json)
        return
    if script is None:
        fail("name a script by its id or its file, or a session with --undo")
    options = _options(script, version, tuple(sessions))
    verdicts = _verdicts(only)
    async with backend(settings, writing=True) as api:
        preview = await _preview(api, options)
        if dry_run:
            _finish(preview, as_json, "")
        chosen = [row for row in preview if row["verdict"] in verdicts]
        if sys.stdin.isatty() and not yes and chosen:
            _table(preview)
            confirm(f"Migrate {len(chosen)} of {len(preview)} sessions?", yes=False)
        moved = await _move(api, options, chosen)
    _finish([moved.get(row["sessionId"], row) for row in preview], as_json, f"; {_count(moved.values())} migrated")


def _options(script: str, version: int | None, sessions: tuple[str, ...]) -> _MigrationOptions:
    if not Path(script).is_file():
        return _MigrationOptions(script, version, None, sessions)
    if version is not None:
        fail("--to names a published version; a file is published as a new version")
    found, reading = runnable(Path(script))
    return _MigrationOptions(found.id, None, reading.source, sessions)


def _verdicts(only: str | None) -> set[str]:
    chosen: set[str] = {each.strip() for each in only.split(",")} if only is not None else set(MOVING)
    if unknown := chosen - set(MOVING):
        fail(f"--only takes {', '.join(MOVING)}, not {', '.join(sorted(unknown))}")
    return chosen


# -- through the API --------------------------------------------------------------------------------------------------


async def _preview(api: Backend, options: _MigrationOptions) -> list[Row]:
    """Return the verdict of each session without changing it."""
    body = _target(options) if options.source is None else _import_body(options.source)
    sessions = await _sessions(api, options)
    return [await _migrate_session(api, each, body | {"dryRun": True}) for each in track("checking", sessions)]


async def _sessions(api: Backend, options: _MigrationOptions) -> list[Row]:
    """Return the sessions of the script: all, or those named by `options`."""
    try:
        script: Any = await api.get(f"/api/scripts/{in_path(options.script_id)}")
    except RequestRefused:
        if options.source is None or options.sessions:
            raise
        return []  # the script of this file is not published yet
    found = [row for row in await api.sessions() if row["scriptId"] == script["scriptId"]]
    missing = set(options.sessions) - {row["sessionId"] for row in found}
    if missing:
        raise RequestRefused(f"{', '.join(sorted(missing))} is no session of {options.script_id}")
    return [row for row in found if not options.sessions or row["sessionId"] in options.sessions]


async def _migrate_session(api: Backend, session: Row, body: Mapping[str, object]) -> Row:
    """Migrate a session, or check it with `dryRun`; return its result, also if the API refuses."""
    row: Row = {"sessionId": session["sessionId"], "verdict": "ended", "place": "", "newPlace": "", "why": []}
    row["moved"] = False
    if session["status"] == "completed":
        return row
    try:
        return dict(await api.send("POST", f"/api/sessions/{in_path(session['sessionId'])}/migrate", body))
    except RequestRefused as refused:
        return row | {"verdict": "failed", "why": [str(refused)]}


async def _move(api: Backend, options: _MigrationOptions, chosen: list[Row]) -> dict[str, Row]:
    body = _target(options)
    if options.source is not None:
        body["version"] = (await api.send("POST", "/api/scripts/import", _import_body(options.source)))["version"]
    sessions = [row | {"status": "active"} for row in chosen]
    return {row["sessionId"]: await _migrate_session(api, row, body) for row in track("migrating", sessions)}


def _target(options: _MigrationOptions) -> dict[str, object]:
    return {"scriptId": options.script_id} | ({"version": options.version} if options.version is not None else {})


def _import_body(source: Source) -> dict[str, object]:
    return {"yamlContent": source.text, "files": dict(source.side_files)}


async def _undo(settings: Settings, session_id: str, as_json: bool) -> None:
    async with backend(settings, writing=True) as api:
        row: Row = await api.send("POST", f"/api/sessions/{in_path(session_id)}/migrate/undo", {})
    if as_json:
        print_json(row)
        return
    errors.print(f"moved back from version {row['fromVersion']} to version {row['version']}, at {row['newPlace']}")


# -- printing -----------------------------------------------------------------------------------------------------


def _finish(rows: list[Row], as_json: bool, moved: str) -> NoReturn:
    """Print the results and end the command."""
    counts = Counter(row["verdict"] for row in rows)
    if as_json:
        print_json({"sessions": rows, "summary": counts, "moved": _count(rows)})
    else:
        _table(rows)
    parts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in (*VERDICTS, "failed") if counts[verdict])
    errors.print(f"{count_text(len(rows), 'session')}{': ' * bool(parts)}{parts}{moved}")
    end(1 if _STAYS & counts.keys() else 0)


def _table(rows: list[Row]) -> None:
    print_rows(COLUMNS, [_cells(row) for row in rows if row["verdict"] not in _QUIET])


def _cells(row: Row) -> Row:
    place = row["newPlace"] if row["newPlace"] != row["place"] else ""
    return row | {"newPlace": place, "why": "; ".join(row["why"])}


def _count(rows: Any) -> int:
    return sum(row["moved"] for row in rows)
