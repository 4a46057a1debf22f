"""``cuebook sessions export`` and ``import``: sessions as documents."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from api.cli.options import settings_of, with_settings
from api.cli.output import console, errors, fail, print_json, print_table
from api.cli.reach import Answered, Reach, reach, run
from api.files import write_whole
from api.paths import in_path
from api.settings import Settings

PAGE = 200
ENDINGS = {"json": "json", "yaml": "yaml", "jsonl": "jsonl", "markdown": "md", "txt": "txt"}
MEDIA_TYPES = {
    ".json": "application/json",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".jsonl": "application/x-ndjson",
    ".ndjson": "application/x-ndjson",
}
COLUMNS = ("file", "sessionId", "key", "format", "messages", "skipped", "error")


@click.command("export", epilog="Example: cuebook sessions export --key telegram:42 -o ana.json")
@click.argument("session_id", required=False)
@click.option("--key", help="The session with this key.")
@click.option("--all", "every", is_flag=True, help="Every session, each to a file of its own in the folder of -o.")
@click.option("--format", "form", type=click.Choice(list(ENDINGS)), default="json", help="[json]; yaml is the same.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File, or folder for --all [standard output].")
@click.option(
    "--masked/--unmasked", "masked", default=False, help="Without personal values (`pii`), for reading [--unmasked]."
)
@with_settings("data", "host", "port")
def export_sessions(
    session_id: str | None,
    key: str | None,
    every: bool,
    form: str,
    output: Path | None,
    masked: bool,
    config: Path | None,
    **flags: Any,
) -> None:
    """Exports a session: json and yaml to go on with elsewhere, jsonl, markdown and txt to read.

    Masked, the names of `pii` variables stand in the place of their values, and it cannot be imported.
    """
    if (session_id is not None) + (key is not None) + every != 1:
        fail("name one session, by its id or by --key, or all of them with --all")
    if every and output is None:
        fail("--all takes a folder to write to: -o FOLDER")
    settings = settings_of(config, **flags)
    if every and output is not None:
        run(_export_all(settings, form, output, masked=masked))
        return
    content = run(_export_one(settings, session_id, key, form, masked=masked))
    if output is None:
        click.echo(content, nl=False)
    else:
        _write(content, output)


async def _export_one(settings: Settings, session_id: str | None, key: str | None, form: str, *, masked: bool) -> bytes:
    async with reach(settings) as api:
        if key is not None:
            session_id = next((row["sessionId"] for row in await _listed(api) if row["key"] == key), None)
            if session_id is None:
                raise Answered(f"there is no session with the key {key}")
        return await _exported(api, session_id or "", form, masked=masked)


async def _export_all(settings: Settings, form: str, folder: Path, *, masked: bool) -> None:
    async with reach(settings) as api:
        rows = await _listed(api)
        _make(folder)
        for row in _tracked("exporting", rows):
            content = await _exported(api, row["sessionId"], form, masked=masked)
            _write(content, folder / f"{row['sessionId']}.{ENDINGS[form]}")
    errors.print(f"{len(rows)} session{'s' * (len(rows) != 1)} in {escape(str(folder))}")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"{folder}: {error.strerror or 'cannot be made'}")


async def _exported(api: Reach, session_id: str, form: str, *, masked: bool) -> bytes:
    path = f"/api/sessions/{in_path(session_id)}/export"
    return await api.get_bytes(path, format=form, masked=str(masked).lower())


async def _listed(api: Reach) -> list[Any]:
    """Every session, page by page."""
    found: list[Any] = []
    cursor: str | None = None
    while True:
        page: Any = await api.get("/api/sessions", limit=PAGE, cursor=cursor)
        found += page["data"]
        cursor = page["nextCursor"]
        if cursor is None:
            return found


def _write(content: bytes, output: Path) -> None:
    try:
        write_whole(content.decode(), output)
    except OSError as error:
        fail(f"{output}: {error.strerror or 'cannot be written'}")


@click.command("import", epilog="Example: cuebook sessions import ~/.nanobot/sessions --user ana --dry-run")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--user", "user_id", help="Whose they become [as the document says, else the key].")
@click.option("--key", help="The key it gets instead of its own; for one file.")
@click.option("--path", help="Keys that lead to the session within the document, such as payload.session.")
@click.option("--replace", is_flag=True, help="In the place of a session with the same id or key.")
@click.option("--copy", is_flag=True, help="As a new session beside the one with the same id.")
@click.option("--dry-run", is_flag=True, help="Change nothing, only say what would come of it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_settings("data", "host", "port", "model")
def import_sessions(
    files: Sequence[Path],
    user_id: str | None,
    key: str | None,
    path: str | None,
    replace: bool,
    copy: bool,
    dry_run: bool,
    as_json: bool,
    config: Path | None,
    **flags: Any,
) -> None:
    """Imports sessions from FILES, or from all .json, .yaml and .jsonl files of folders.

    Takes what `export` wrote as json, yaml or jsonl, sessions of nanobot (.jsonl) and of Agently (.json, .yaml). Each
    file is imported whole or not at all; lines that cannot be read are told of and left out. Exits with 1 where a file
    could not be imported.
    """
    chosen = list(_files(files))
    if key is not None and len(chosen) != 1:
        fail(f"--key is for one file, these are {len(chosen)}")
    settings = settings_of(config, **flags)
    given: dict[str, str | None] = {
        "userId": user_id,
        "key": key,
        "path": path,
        "replace": str(replace).lower(),
        "copy": str(copy).lower(),
        "dryRun": str(dry_run).lower(),
    }
    rows = run(_import(settings, chosen, given))
    failed = [row for row in rows if "error" in row]
    if as_json:
        print_json({"files": rows})
    else:
        print_table(COLUMNS, [[row.get(column) for column in COLUMNS] for row in map(_row, rows)])
        _tell_skipped(rows)
    done = len(rows) - len(failed)
    errors.print(f"{done} of {len(rows)} file{'s' * (len(rows) != 1)} {'can be ' * dry_run}imported")
    sys.exit(1 if failed else 0)


async def _import(settings: Settings, files: Sequence[Path], given: dict[str, str | None]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    async with reach(settings, writing=True) as api:
        for file in _tracked("importing", files):
            try:
                content = await asyncio.to_thread(file.read_bytes)
                media_type = MEDIA_TYPES.get(file.suffix.lower(), "application/json")
                parameters = given | {"fileName": file.name[-FILE_NAME_CHARS_MAX:]}
                row: Any = await api.post_bytes("/api/sessions/import", content, media_type, **parameters)
            except OSError as error:
                row = {"error": error.strerror or "cannot be read"}
            except Answered as refused:
                row = {"error": str(refused)}
            rows.append({"file": str(file), **row})
    return rows


FILE_NAME_CHARS_MAX = 200


def _files(given: Sequence[Path]) -> Iterator[Path]:
    for each in given:
        if each.is_dir():
            yield from sorted(file for file in each.iterdir() if file.suffix.lower() in MEDIA_TYPES)
        else:
            yield each


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "skipped": row.get("skippedCount")}


def _tell_skipped(rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        for each in row.get("skipped", []):
            console.print(f"{escape(row['file'])}:{each['line']}: left out: {escape(each['reason'])}")
        for words in row.get("remarks", []):
            console.print(f"{escape(row['file'])}: {escape(words)}")


def _tracked(what: str, rows: Sequence[Any]) -> Any:
    """The rows, with a bar that shows how far it is."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        yield from progress.track(rows, description=what)
