"""``cuebook snapshot``: the analytics as a file."""

from pathlib import Path
from typing import Any

import click

from api.cli.analytics.asking import PATH, patiently, unmasked
from api.cli.options import settings_of, with_settings
from api.cli.output import errors, fail
from api.cli.progress import byte_progress
from api.cli.reach import reach, run
from api.files import writing_whole
from api.settings import Settings


@click.command(epilog="Example: cuebook snapshot monday.duckdb && cuebook report completion --file monday.duckdb")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@unmasked
@with_settings("data", "host", "port")
def snapshot(file: Path, force: bool, unmasked: bool, config: Path | None, **flags: Any) -> None:
    """Writes all tables and reports as of now into a DuckDB file, to be opened anywhere; also while a server runs.

    What was said and what is personal is left out unless --unmasked.
    """
    if file.exists() and not force:
        fail(f"{file} is there already; --force replaces it")
    run(_write(settings_of(config, **flags), file, masked=not unmasked))
    errors.print(f"{file} written, {file.stat().st_size / 1e6:,.1f} MB")


async def _write(settings: Settings, file: Path, *, masked: bool) -> None:
    async with reach(settings) as api:
        try:
            with writing_whole(file) as output, byte_progress("copying") as tell:
                await patiently(lambda: api.download(f"{PATH}/snapshot", output, tell, masked=str(masked).lower()))
        except OSError as error:
            fail(f"{file} cannot be written: {error.strerror}")
