"""``cuebook memory export|import``: a memory as a file."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from api.cli.memory.asking import in_json, of_user
from api.cli.memory.following import embedded
from api.cli.options import settings_of, with_settings
from api.cli.output import errors, fail, print_json, told
from api.cli.progress import byte_progress, counted_progress
from api.cli.reach import reach, run
from api.files import writing_whole
from api.memory.transfers.document import Form
from api.routes.memory_files import MEDIA_TYPES

ENDINGS: Mapping[str, Form] = {
    ".json": "json",
    ".parquet": "parquet",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
    ".db": "sqlite",
}
_FILE = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))


@click.command("export", epilog="Example: cuebook memory export --user ana ana.parquet --vectors")
@_FILE
@of_user
@click.option("--vectors", is_flag=True, help="Also what the embedder made of its units.")
@with_settings("data", "host", "port", "embedder")
def export_memory(file: Path, user_id: str, vectors: bool, config: Path | None, **flags: Any) -> None:
    """Writes a user's memory to FILE: .json, .parquet or .sqlite.

    It holds every unit with its words, its links and its place, and can be imported elsewhere. The file is there whole
    or not at all.
    """
    form, settings = _form_of(file), settings_of(config, **flags)

    async def work() -> None:
        async with reach(settings, writing=True) as api:
            with writing_whole(file) as output, byte_progress("exporting") as tell:
                parameters = {"userId": user_id, "format": form, "vectors": str(vectors).lower()}
                await api.download("/api/memory/export", output, tell, **parameters)

    try:
        run(work())
    except OSError as error:
        fail(f"{file}: {error.strerror or 'cannot be written'}")
    errors.print(f"{told(user_id)}'s memory is in {escape(str(file))}")


@click.command("import", epilog="Example: cuebook memory import --user ana ana.json --dry-run")
@_FILE
@of_user
@click.option("--rename", is_flag=True, help="Give what has an id that is taken another one [refuse the file].")
@click.option("--trusted", is_flag=True, help="Trust units as the file says [all are foreign].")
@click.option("--dry-run", is_flag=True, help="Change nothing, only say what would come of it.")
@in_json
@with_settings("data", "host", "port", "embedder")
def import_memory(
    file: Path,
    user_id: str,
    rename: bool,
    trusted: bool,
    dry_run: bool,
    as_json: bool,
    config: Path | None,
    **flags: Any,
) -> None:
    """Imports a FILE that `export` wrote, or an SQLite database of MemForest, whole or not at all.

    Its units come after those that are there, in their order. Sessions of the file become collections: what was said in
    them is a session's only in the record it comes from.
    """
    form, settings = _form_of(file), settings_of(config, **flags)
    parameters = {
        "userId": user_id,
        "onTaken": "rename" if rename else "refuse",
        "trusted": str(trusted).lower(),
        "dryRun": str(dry_run).lower(),
    }

    async def work() -> Any:
        content = await asyncio.to_thread(file.read_bytes)
        async with reach(settings, managing=True, working=True) as api:
            with counted_progress("importing"):
                found = await api.post_bytes("/api/memory/import", content, MEDIA_TYPES[form], **parameters)
            if not dry_run:
                await embedded(api, user_id)
            return found

    try:
        found = run(work())
    except OSError as error:
        fail(f"{file}: {error.strerror or 'cannot be read'}")
    if as_json:
        print_json(found)
    _tell(found, dry_run)


def _form_of(file: Path) -> Form:
    """Ends the command where the name of a file does not tell what it is."""
    form = ENDINGS.get(file.suffix.lower())
    if form is None:
        fail(f"{file}: a memory is a file that ends in {', '.join(ENDINGS)}")
    return form


def _tell(found: Any, dry_run: bool) -> None:
    units, groups = found["units"], found["groups"]
    counts = f"{units:,} unit{'s' * (units != 1)} in {groups:,} group{'s' * (groups != 1)}"
    errors.print(f"{counts} {'can be ' * dry_run}imported, {found['vectors']:,} with a vector")
    for old, new in found["renamed"].items():
        errors.print(f"{told(old)} was taken: it is {told(new)} here")
    if found["leftOut"]:
        errors.print("the summary of the whole memory was left out: there is one already")


COMMANDS = (export_memory, import_memory)
