"""``cuebook snapshot``: the analytics as a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import click

from api.cli.analytics.asking import PATH, age_of, fresh, patiently, unmasked
from api.cli.options import settings_of, with_settings
from api.cli.output import errors, fail
from api.cli.progress import byte_progress
from api.cli.reach import reach, run
from api.files import writing_whole
from api.settings import Settings
from store.analytics.storage import OWN, StorageVersion


@click.command(epilog="Example: cuebook snapshot monday.duckdb && cuebook report completion --file monday.duckdb")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@click.option(
    "--storage-version",
    type=click.Choice(get_args(StorageVersion)),
    default=OWN,
    help="The oldest version of DuckDB that has to read it [v2.0.0]; v1.0.0 for tools that embed 1.x.",
)
@unmasked
@fresh
@with_settings("data", "host", "port")
def snapshot(
    file: Path,
    force: bool,
    storage_version: StorageVersion,
    unmasked: bool,
    fresh: bool,
    config: Path | None,
    **flags: Any,
) -> None:
    """Writes all tables and reports into a DuckDB file, to be opened with DuckDB 2.0; also while a server runs.

    What was said and what is personal is left out unless --unmasked.
    """
    if file.exists() and not force:
        fail(f"{file} is there already; --force replaces it")
    asked = {
        "masked": str(not unmasked).lower(),
        "storageVersion": storage_version,
        "maxAgeS": str(age_of(fresh)),
    }
    run(_write(settings_of(config, **flags), file, asked))
    errors.print(f"{file} written, {file.stat().st_size / 1e6:,.1f} MB")


async def _write(settings: Settings, file: Path, asked: Mapping[str, str]) -> None:
    async with reach(settings) as api:
        try:
            with writing_whole(file) as output, byte_progress("copying") as tell:
                await patiently(lambda: api.download(f"{PATH}/snapshot", output, tell, **asked))
        except OSError as error:
            fail(f"{file} cannot be written: {error.strerror}")
