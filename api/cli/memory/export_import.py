"""``cuebook memory export|import``: write a memory to a file, and read one."""

import asyncio
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.progress import DownloadColumn

from api.cli.backend import backend
from api.cli.memory.maintenance import STILL_S, wait_for_vectors
from api.cli.memory.options import of_user
from api.cli.options import OUTPUT_FILE, in_json, with_settings
from api.cli.output import errors, fail, file_errors, print_json, printable
from api.cli.progress import progress_bar
from api.local_files.atomic_files import writing_whole
from api.memory.transfers.memory_document import FORM_OF_SUFFIX, MEDIA_TYPES, Form
from api.settings import Settings
from scripts.expressions.values import count_text

_FILE = click.argument("file", type=OUTPUT_FILE)


@click.command("export", epilog="Example: cuebook memory export --user ana ana.parquet --vectors")
@_FILE
@of_user
@click.option(
    "--vectors", is_flag=True, help="Include the vectors of the units, which a running server first computes."
)
@with_settings("data", "embedder")
async def export_memory(settings: Settings, file: Path, user_id: str, vectors: bool) -> None:
    """Export a user's memory to FILE: .json, .parquet or .sqlite.

    Use it as a backup, or to move a memory to another server. The file contains every unit with its text, links and
    position. It is written atomically.
    """
    parameters: dict[str, Any] = {"userId": user_id, "format": _form_of(file), "vectors": vectors}
    with file_errors(file):
        async with backend(settings, writing=True) as api:
            if vectors:  # this process computes none, as it changes nothing
                await wait_for_vectors(api, user_id, STILL_S if api.is_served else 0)
            with writing_whole(file) as output, progress_bar("exporting", DownloadColumn()) as on_progress:
                await api.download("/api/memory/export", output, on_progress, **parameters)
    errors.print(f"wrote {printable(user_id)}'s memory to {escape(str(file))}")


@click.command("import", epilog="Example: cuebook memory import --user ana ana.json --dry-run")
@_FILE
@of_user
@click.option("--trusted", is_flag=True, help="Use the trust levels of the file [all units are foreign].")
@click.option("--dry-run", is_flag=True, help="Change nothing; print the result that the import would have.")
@in_json
@with_settings("data", "embedder")
async def import_memory(
    settings: Settings, file: Path, user_id: str, trusted: bool, dry_run: bool, as_json: bool
) -> None:
    """Import a FILE of `cuebook memory export`, or an SQLite database of MemForest, completely or not at all.

    The units are appended to the memory in their order. Sessions of the file become collections, because their
    messages belong to sessions of another database.
    """
    media_type = MEDIA_TYPES[_form_of(file)]
    parameters: dict[str, Any] = {"userId": user_id, "trusted": trusted, "dryRun": dry_run}
    with file_errors(file, "cannot be read"):
        content = await asyncio.to_thread(file.read_bytes)
    async with backend(settings, managing=True, working=True) as api:
        with progress_bar("importing"):
            found = await api.send("POST", "/api/memory/import", content, media_type=media_type, **parameters)
        if not dry_run and not api.is_served:
            await wait_for_vectors(api, user_id)
    if as_json:
        print_json(found)
    _print_result(found, dry_run)


def _form_of(file: Path) -> Form:
    """Return the format of the file's suffix; end the command for an unknown suffix."""
    form = FORM_OF_SUFFIX.get(file.suffix.lower())
    if form is None:
        fail(f"{file}: the suffix of a memory file is one of {', '.join(FORM_OF_SUFFIX)}")
    return form


def _print_result(found: Any, dry_run: bool) -> None:
    counts = f"{count_text(found['units'], 'unit')} in {count_text(found['groups'], 'group')}"
    errors.print(f"{counts} {'can be ' * dry_run}imported, {found['vectors']:,} with a vector")
    if found["leftOut"]:
        errors.print("the summary of the whole memory was not imported: there already is one")
