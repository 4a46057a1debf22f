"""An export folder of Parquet files: compare it with an analytics file, and replace the files that differ one by one.

The days of a partitioned table are in `TABLE/day=2026-03-01/part.parquet`, other tables in `TABLE/part.parquet`. The
manifest lists the complete files. A file is removed from the manifest before it is replaced or deleted. So after an
interruption at any time, all files are complete and the manifest is correct.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from itertools import groupby
from pathlib import Path

import duckdb
import msgspec
from filelock import FileLock, Timeout
from msgspec import Struct

from store.analytics.file import about, connect
from store.analytics.parquet import DAY_OF, DAYS_MAX, FILE, Part, parts, write
from store.interface.errors import AnalyticsUnreadable
from store.interface.private_files import sync

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
_WRITING = ".writing"  # folder of incomplete files, which readers ignore


class FolderRefused(Exception):
    """The folder cannot be used for the export; the message says why and what to do."""


class Source(Struct, frozen=True, rename="camel"):
    """The origin of the data of an export."""

    tenant: str
    is_masked: bool
    model_version: int


class _Manifest(Struct, frozen=True, rename="camel"):
    format_version: int
    source: Source
    since: str | None
    as_of: datetime | None
    """The time that the latest complete export describes; None if none was completed."""
    is_complete: bool
    parts: Sequence[Part]


class ExportResult(Struct, frozen=True, rename="camel"):
    """The result of an export."""

    folder: str
    files: int
    """Number of files now in the folder."""
    rows: int
    written: int
    rows_written: int
    removed: int
    is_masked: bool
    as_of: datetime


class ExportFolder:
    """An export folder, locked for one export."""

    def __init__(self, folder: Path) -> None:
        """Open or create the folder. Raises FolderRefused, OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / MANIFEST).exists() and any(each.name != _WRITING for each in folder.iterdir()):
            raise FolderRefused(f"{folder} is not empty and not an export; name another folder")
        self._folder = folder
        self.writing = folder / _WRITING
        """Folder for incomplete files, empty at first."""
        self.writing.mkdir(exist_ok=True)
        self._lock = FileLock(self.writing / "lock", preserve_lock_file=True)
        try:
            self._lock.acquire(blocking=False)
        except Timeout:
            raise FolderRefused(f"another export to {folder} is running") from None
        self._empty_writing()

    def update(
        self, file: Path, since: str | None = None, on_progress: Callable[[int, int], None] = lambda done, total: None
    ) -> ExportResult:
        """Write the days of an analytics file that differ; delete files of other days, and of days before `since`.

        `on_progress` is called with the number of written rows and of all rows to write. Blocks. Raises FolderRefused,
        AnalyticsUnreadable, OSError.
        """
        with closing(connect(file, self.writing / "spill", read_only=True)) as connection:
            try:
                return self._update(connection, since, on_progress)
            except duckdb.Error as error:
                raise AnalyticsUnreadable(f"the analytics file cannot be written as Parquet: {error}") from error

    def close(self) -> None:
        """Release the folder for other exports."""
        shutil.rmtree(self.writing, ignore_errors=True)
        self._lock.release()

    def _update(
        self, connection: duckdb.DuckDBPyConnection, since: str | None, on_progress: Callable[[int, int], None]
    ) -> ExportResult:
        of_file = about(connection)
        source = Source(of_file.tenant, of_file.is_masked, of_file.model_version)
        known = self._complete_files(source)
        wanted = {part.path: part for part in parts(connection, since)}
        complete = {path: part for path, part in wanted.items() if known.get(path) == part}
        changed = [part for path, part in wanted.items() if path not in complete]
        manifest = _Manifest(FORMAT_VERSION, source, since, of_file.as_of, is_complete=False, parts=())
        self._save(manifest, complete.values())
        removed = self._remove_others(set(wanted))
        total, written = sum(part.rows for part in changed), 0
        for group in _groups(changed):
            write(connection, group[0].table, [part.day for part in group], self.writing)
            for part in group:
                self._take(part.path)
                complete[part.path] = part
                written += part.rows
            shutil.rmtree(self.writing / group[0].table)
            self._save(manifest, complete.values())
            on_progress(written, total)
        self._save(msgspec.structs.replace(manifest, is_complete=True), complete.values())
        return ExportResult(
            folder=str(self._folder),
            files=len(complete),
            rows=sum(part.rows for part in complete.values()),
            written=len(changed),
            rows_written=total,
            removed=removed,
            is_masked=source.is_masked,
            as_of=of_file.as_of,
        )

    def _complete_files(self, source: Source) -> Mapping[Path, Part]:
        """Return the complete files in the folder, if they have the same source and format. Raises FolderRefused."""
        path = self._folder / MANIFEST
        if not path.exists():
            return {}
        try:
            manifest = msgspec.json.decode(path.read_bytes(), type=_Manifest)
        except msgspec.DecodeError as error:
            raise FolderRefused(f"{path} is not a manifest of an export; name another folder") from error
        if manifest.format_version > FORMAT_VERSION:
            raise FolderRefused(f"{self._folder} was written by a newer version of Cuebook; name another folder")
        previous = manifest.source
        if previous.tenant != source.tenant:
            raise FolderRefused(f"{self._folder} is an export of the tenant {previous.tenant}; name another folder")
        if previous.is_masked != source.is_masked:
            how = "a masked" if previous.is_masked else "an unmasked"
            raise FolderRefused(
                f"{self._folder} is {how} export, and a folder cannot contain both; name another folder"
            )
        is_same = previous == source and manifest.format_version == FORMAT_VERSION
        return {part.path: part for part in manifest.parts} if is_same else {}

    def _take(self, path: Path) -> None:
        """Move a complete file from the folder for incomplete files to its place."""
        file, target = self.writing / path, self._folder / path
        new_folders = [each for each in (target.parent.parent, target.parent) if not each.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        sync(file)
        file.replace(target)
        for each in (target.parent, *(folder.parent for folder in new_folders)):
            sync(each)

    def _save(self, manifest: _Manifest, complete: Iterable[Part]) -> None:
        in_order = sorted(complete, key=lambda part: (list(DAY_OF).index(part.table), part.day or ""))
        fresh = self.writing / MANIFEST  # a folder with nothing else is one that was interrupted at first
        document = msgspec.json.encode(msgspec.structs.replace(manifest, parts=in_order))
        fresh.write_bytes(msgspec.json.format(document, indent=1))
        sync(fresh)
        fresh.replace(self._folder / MANIFEST)
        sync(self._folder)

    def _remove_others(self, wanted: set[Path]) -> int:
        """Delete the files that are not wanted, whether the manifest lists them or not; return their number."""
        found = [
            path for table in DAY_OF for form in (FILE, f"day=*/{FILE}") for path in (self._folder / table).glob(form)
        ]
        others = [path for path in found if path.relative_to(self._folder) not in wanted]
        for path in others:
            path.unlink()
            folder = path.parent
            while folder != self._folder and not any(folder.iterdir()):
                folder.rmdir()
                folder = folder.parent
                sync(folder)
        return len(others)

    def _empty_writing(self) -> None:
        for path in self.writing.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path != Path(self._lock.lock_file):
                path.unlink()


def _groups(changed: Sequence[Part]) -> Iterator[Sequence[Part]]:
    """Divide the parts by table, and into groups that `write` accepts."""
    for _, of_table in groupby(changed, key=lambda part: part.table):
        days = list(of_table)
        yield from (days[start : start + DAYS_MAX] for start in range(0, len(days), DAYS_MAX))
