"""``cuebook sessions export`` and ``cuebook sessions import``."""

import asyncio
import errno
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from api.cli.backend import Backend, RequestRefused, backend, read_answer
from api.cli.options import ANY_PATH, EXISTING_PATH, in_json, with_settings
from api.cli.output import console, end, errors, fail, make_folder, print_json, print_table, write_text
from api.cli.progress import track
from api.schemas.ids import in_path
from api.schemas.session_lists import ENDINGS, MEDIA_TYPES, Format
from api.settings import Settings
from scripts.expressions.values import count_text

_READ: Mapping[str, Format] = {".json": "json", ".yaml": "yaml", ".yml": "yaml", ".jsonl": "jsonl", ".ndjson": "jsonl"}
"""The formats of the files that can be imported, by their suffixes."""
COLUMNS = ("file", "sessionId", "key", "format", "messages", "skipped", "error")


@click.command("export", epilog="Example: cuebook sessions export --key telegram:42 -o ana.json")
@click.argument("session_id", required=False)
@click.option("--key", help="Export the session with this key.")
@click.option("--all", "every", is_flag=True, help="Export every session to its own file in the folder of -o.")
@click.option(
    "--format",
    "form",
    type=click.Choice(list(ENDINGS)),
    help="Format of the file [by the suffix of the file, else json].",
)
@click.option("-o", "--output", type=ANY_PATH, help="File, or folder for --all [standard output].")
@click.option(
    "--masked/--unmasked", "masked", default=False, help="Hide personal values (`pii` variables) [--unmasked]."
)
@with_settings("data")
async def export_sessions(
    settings: Settings,
    session_id: str | None,
    key: str | None,
    every: bool,
    form: Format | None,
    output: Path | None,
    masked: bool,
) -> None:
    """Export a session to a file.

    json and yaml contain everything, so that the session can continue on another server; jsonl contains the
    conversation, which can be imported too; markdown and txt are for reading. With --masked the names of `pii`
    variables replace their values, and the file cannot be imported.
    """
    if (session_id is not None) + (key is not None) + every != 1:
        fail("name one session, by its id or by --key, or all of them with --all")
    if every and output is None:
        fail("--all requires a folder to write to: -o FOLDER")
    form = form or _format_of(output)
    async with backend(settings) as api:
        if every and output is not None:
            await _export_all(api, form, output, masked=masked)
            return
        if session_id is None:
            session_id = (await api.get("/api/sessions/by-key", key=key))["sessionId"]
        content = await _export(api, session_id, form, masked=masked)
    write_text(content.decode(), output)


@click.command("case", epilog="Example: cuebook sessions case 7109d623-8314-4cc4-b6a2-11c8d5b88e58 -o ana.case.yaml")
@click.argument("session_id")
@click.option("-o", "--output", type=ANY_PATH, help="Case file, beside its script [standard output].")
@with_settings("data")
async def write_case(settings: Settings, session_id: str, output: Path | None) -> None:
    """Write a session as a test case, which repeats it with the same replies of models and tools.

    A session that an application changed, or that was migrated, cannot be repeated; fork it before that turn.
    """
    found = await read_answer(settings, f"/api/sessions/{in_path(session_id)}/case")
    write_text(found["yamlContent"], output)


def _format_of(output: Path | None) -> Format:
    """Return the format that the suffix of a file names, or `json`."""
    suffix = output.suffix.lower().removeprefix(".") if output is not None else ""
    return next((form for form, ending in ENDINGS.items() if suffix == ending), "yaml" if suffix == "yml" else "json")


async def _export_all(api: Backend, form: Format, folder: Path, *, masked: bool) -> None:
    rows = await api.sessions()
    make_folder(folder)
    written = 0
    for row in track("exporting", rows):
        try:
            content = await _export(api, row["sessionId"], form, masked=masked)
        except RequestRefused as refused:
            if refused.code != "SESSION_NOT_FOUND":
                raise
            continue  # deleted meanwhile
        write_text(content.decode(), folder / f"{row['sessionId']}.{ENDINGS[form]}")
        written += 1
    errors.print(f"{count_text(written, 'session')} in {escape(str(folder))}")


async def _export(api: Backend, session_id: str, form: str, *, masked: bool) -> bytes:
    path = f"/api/sessions/{in_path(session_id)}/export"
    return (await api.answer("GET", path, format=form, masked=masked)).content


@click.command("import", epilog="Example: cuebook sessions import ~/.nanobot/sessions --user ana --dry-run")
@click.argument("files", nargs=-1, required=True, type=EXISTING_PATH)
@click.option("--user", "userId", help="The user of the imported sessions [that of the file, else the key].")
@click.option("--key", help="Session key to use instead of that of the file; for one file only.")
@click.option("--path", help="Path of the session within the document, such as payload.session.")
@click.option("--replace", is_flag=True, help="Replace an existing session with the same id or key.")
@click.option("--copy", is_flag=True, help="Give the imported session a new id.")
@click.option("--dry-run", "dryRun", is_flag=True, help="Change nothing; print the result that the import would have.")
@in_json
@with_settings("data", "model")
async def import_sessions(
    settings: Settings, files: Sequence[Path], key: str | None, as_json: bool, **parameters: Any
) -> None:
    """Import sessions from FILES, or from all .json, .yaml and .jsonl files of folders.

    It reads the json, yaml and jsonl files of `cuebook sessions export`, sessions of nanobot (.jsonl) and of Agently
    (.json, .yaml). Each file is imported completely or not at all; unreadable lines are skipped and reported. Exits
    with 1 if a file could not be imported.
    """
    chosen = list(_files(files))
    if key is not None and len(chosen) != 1:
        fail(f"--key is for one file, but there are {len(chosen)}")
    rows = await _import(settings, chosen, files, {"key": key, **parameters})
    failed = [row for row in rows if "error" in row]
    if as_json:
        print_json({"files": rows})
    else:
        shown = [{**row, "skipped": row.get("skippedCount")} for row in rows]
        print_table(COLUMNS, [[row.get(column) for column in COLUMNS] for row in shown])
        _print_skipped(rows)
    done = len(rows) - len(failed)
    errors.print(f"{done} of {count_text(len(rows), 'file')} {'can be ' * parameters['dryRun']}imported")
    end(1 if failed else 0)


async def _import(
    settings: Settings, files: Sequence[Path], named: Sequence[Path], parameters: dict[str, Any]
) -> list[dict[str, Any]]:
    """Import the files, of which those in `named` were named and the others found in a folder."""
    rows: list[dict[str, Any]] = []
    async with backend(settings, writing=True, managing=not parameters["dryRun"]) as api:
        for file in track("importing", files):
            try:
                content = await asyncio.to_thread(_content, file, is_named=file in named)
                media_type = MEDIA_TYPES[_READ.get(file.suffix.lower(), "json")]
                query = parameters | {"fileName": file.name[-FILE_NAME_CHARS_MAX:]}
                row: Any = await api.send("POST", "/api/sessions/import", content, media_type=media_type, **query)
            except OSError as error:
                row = {"error": error.strerror or "cannot be read"}
            except RequestRefused as refused:
                row = {"error": str(refused)}
            rows.append({"file": str(file), **row})
    return rows


FILE_NAME_CHARS_MAX = 200


def _content(file: Path, *, is_named: bool) -> bytes:
    """Return the content of a file. Raises OSError, also for a link in a folder: it may lead out of it, or to another
    session of it.
    """
    if file.is_symlink() and not is_named:
        raise OSError(errno.ELOOP, "it is a symbolic link; name it to import it")
    return file.read_bytes()


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for each in paths:
        if each.is_dir():
            yield from sorted(file for file in each.iterdir() if file.suffix.lower() in _READ)
        else:
            yield each


def _print_skipped(rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        for each in row.get("skipped", []):
            console.print(f"{escape(row['file'])}:{each['line']}: skipped: {escape(each['reason'])}")
        for words in row.get("remarks", []):
            console.print(f"{escape(row['file'])}: {escape(words)}")
