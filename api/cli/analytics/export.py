"""``cuebook snapshot`` and ``cuebook export``: write the analytics tables to a DuckDB file, or to Parquet files."""

from collections.abc import Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, get_args

import click
from rich.progress import DownloadColumn

from api.cli.analytics.options import PATH, age_of, fresh, unmasked, wait_until_ready
from api.cli.backend import backend, run
from api.cli.options import OUTPUT_FILE, in_json, with_settings
from api.cli.output import errors, fail, failing, file_errors, print_json
from api.cli.progress import progress_bar
from api.local_files.atomic_files import writing_whole
from api.settings import Settings
from store.analytics.export_folder import ExportFolder, ExportResult, FolderRefused
from store.analytics.snapshots import OWN, StorageVersion
from store.interface.errors import AnalyticsUnreadable


@click.command(epilog="Example: cuebook snapshot monday.duckdb && cuebook report completion --file monday.duckdb")
@click.argument("file", type=OUTPUT_FILE)
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option(
    "--storage-version",
    type=click.Choice(get_args(StorageVersion)),
    default=OWN,
    help="Oldest version of DuckDB that can read the file [v2.0.0]; use v1.0.0 for tools that embed DuckDB 1.x.",
)
@unmasked
@fresh
@with_settings("data")
def snapshot(
    settings: Settings, file: Path, force: bool, storage_version: StorageVersion, unmasked: bool, fresh: bool
) -> None:
    """Write all analytics tables and reports to a DuckDB file.

    Use it to analyse the data elsewhere: open the file with DuckDB 2.0, or with `cuebook query --file` and `cuebook
    report --file`. Texts and personal values are left out unless --unmasked. It works while a server runs.
    """
    if file.exists() and not force:
        fail(f"{file} already exists; --force replaces it")
    parameters = {"masked": not unmasked, "storageVersion": storage_version, "maxAgeS": age_of(fresh)}
    with file_errors(file), writing_whole(file) as output:
        run(download_snapshot(settings, output, parameters))
    errors.print(f"wrote {file}, {file.stat().st_size / 1e6:,.1f} MB")


async def download_snapshot(settings: Settings, output: BinaryIO, parameters: Mapping[str, Any]) -> None:
    """Write a snapshot to an open file, and show the progress. Raises OSError."""
    async with backend(settings) as api:
        with progress_bar("copying", DownloadColumn()) as on_progress:
            await wait_until_ready(lambda: api.download(f"{PATH}/snapshot", output, on_progress, **parameters))


@click.command(epilog="Example: cuebook export --parquet lake")
@click.option(
    "--parquet",
    "folder",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder: a new one, or that of an earlier export.",
)
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d"]),
    help="First day to export, in UTC; files of earlier days are removed [all days].",
)
@unmasked
@in_json
@with_settings("data")
def export(settings: Settings, folder: Path, since: datetime | None, unmasked: bool, as_json: bool) -> None:
    """Export the analytics tables to a folder of Parquet files, or update such a folder.

    Use it to load the data into a data warehouse. Tables are partitioned by day:
    `TABLE/day=2026-03-01/part.parquet`. An export writes only the days that changed, and removes erased data from the
    folder. If it is interrupted, the next export continues; files are replaced atomically. Texts and personal values
    are left out unless --unmasked. It works while a server runs.
    """
    first = None if since is None else since.date().isoformat()
    with failing(FolderRefused, AnalyticsUnreadable), file_errors(folder):
        done = _export(settings, folder, first, masked=not unmasked)
    if as_json:
        print_json(done)
        return
    errors.print(
        f"{folder}: {done.written:,} files written ({done.rows_written:,} rows), {done.removed:,} removed; "
        f"{done.files:,} files with {done.rows:,} rows"
    )


def _export(settings: Settings, folder: Path, since: str | None, *, masked: bool) -> ExportResult:
    """Download a snapshot into the folder, and update the folder from it."""
    with closing(ExportFolder(folder)) as target:
        snapshot = target.writing / "snapshot.duckdb"
        with snapshot.open("wb") as output:
            run(download_snapshot(settings, output, {"masked": masked}))
        with progress_bar("writing rows") as on_progress:
            return target.update(snapshot, since, on_progress)
