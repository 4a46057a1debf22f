"""``cuebook export``: the analytics as a folder of Parquet files, kept up to date."""

import shutil
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path
from typing import IO, Any, TypeAlias

import click
import msgspec
from msgspec import Struct
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from api.analytics.cutting import LIST
from api.cli.analytics.asking import PATH, patiently, unmasked
from api.cli.options import settings_of, with_settings
from api.cli.output import errors, fail, print_json
from api.cli.reach import OutOfReach, Reach, reach, run
from api.settings import Settings
from store.analytics.export_folder import ExportFolder, FolderRefused, Source
from store.analytics.parquet import Part, Parts, path_of

LIST_TIMEOUT_S = 300.0
PARTS_A_REQUEST = 100
ROWS_A_REQUEST = 300_000

_Group: TypeAlias = list[Part]


class _Exported(Struct, frozen=True, rename="camel"):
    """What became of the folder."""

    folder: str
    files: int
    """In it now."""
    rows: int
    written: int
    rows_written: int
    removed: int
    is_masked: bool
    as_of: datetime


@click.command(epilog="Example: cuebook export --parquet lake")
@click.option(
    "--parquet",
    "folder",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder: a new one, or that of an earlier export.",
)
@click.option(
    "--since", type=click.DateTime(["%Y-%m-%d"]), help="The first day, in UTC; earlier ones leave the folder [all]."
)
@unmasked
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_settings("data", "host", "port")
def export(
    folder: Path, since: datetime | None, unmasked: bool, as_json: bool, config: Path | None, **flags: Any
) -> None:
    """Keeps a folder of Parquet files, a table by days, as `TABLE/day=2026-03-01/part.parquet`.

    Works also while a server runs. Only days of which anything changed are written, and what was erased leaves the
    folder. Interrupted at any moment it is gone on with by the next export; nobody reads half a file. What was said and
    what is personal is left out unless --unmasked.
    """
    settings = settings_of(config, **flags)
    first = None if since is None else since.date()
    try:
        done = run(_export(settings, folder, first, masked=not unmasked))
    except FolderRefused as error:
        fail(str(error))
    except OSError as error:
        fail(f"{folder} cannot be written to: {error.strerror}")
    if as_json:
        print_json(done)
        return
    errors.print(
        f"{folder}: {done.written:,} files written ({done.rows_written:,} rows), {done.removed:,} removed; "
        f"{done.files:,} files with {done.rows:,} rows"
    )


async def _export(settings: Settings, folder: Path, since: date | None, *, masked: bool) -> _Exported:
    flag = str(masked).lower()
    first = None if since is None else since.isoformat()
    async with reach(settings) as api:
        listed = await patiently(
            lambda: api.send("GET", f"{PATH}/days", timeout_s=LIST_TIMEOUT_S, since=first, masked=flag)
        )
        source = Source(listed["tenant"], listed["masked"], listed["modelVersion"])
        parts = msgspec.convert(listed["parts"], list[Part])
        with closing(ExportFolder(folder, source)) as target:
            changed = target.begin(parts, first, datetime.fromisoformat(listed["asOf"]).astimezone(UTC))
            await _bring(api, target, changed, flag)
            target.finish()
            return _Exported(
                folder=str(folder),
                files=len(target.parts),
                rows=sum(part.rows for part in target.parts),
                written=len(changed),
                rows_written=sum(part.rows for part in changed),
                removed=target.removed,
                is_masked=source.is_masked,
                as_of=datetime.fromisoformat(listed["asOf"]),
            )


async def _bring(api: Reach, target: ExportFolder, changed: Sequence[Part], masked: str) -> None:
    """Fetches what changed, in archives of some parts each, and shows how far it is."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        bar = progress.add_task("rows", total=sum(part.rows for part in changed))
        for group in _groups(changed):
            named = [part.table if part.day is None else f"{part.table}/{part.day}" for part in group]
            progress.update(bar, description=named[0])
            with target.writing("archive.tar") as (path, file):
                await api.download(f"{PATH}/archive", file, masked=masked, part=named)
                file.close()
                _take(target, path)
            target.keep()
            progress.advance(bar, sum(part.rows for part in group))


def _groups(parts: Sequence[Part]) -> Iterator[_Group]:
    """As many parts as are fetched at once."""
    group: _Group = []
    for part in parts:
        is_full = len(group) == PARTS_A_REQUEST or sum(each.rows for each in group) + part.rows > ROWS_A_REQUEST
        if group and is_full:
            yield group
            group = []
        group.append(part)
    if group:
        yield group


def _take(target: ExportFolder, archive: Path) -> None:
    """Puts the files of an archive in their places. Raises OutOfReach."""
    with tarfile.open(archive) as files:
        for part in msgspec.json.decode(_content(files, LIST).read(), type=Parts).parts:
            with target.writing("part.parquet") as (path, file):
                shutil.copyfileobj(_content(files, path_of(part.place)), file)
                file.close()
                target.take(part, path)


def _content(files: tarfile.TarFile, name: str) -> IO[bytes]:
    content = files.extractfile(name)
    if content is None:
        raise OutOfReach(f"what the server sent has no {name}")
    return content
