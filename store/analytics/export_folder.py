"""A folder of Parquet files that others read: what it holds, and how it becomes what it should, a whole file at a time.

Under `TABLE/day=2026-03-01/part.parquet` lie the days of a table, under `TABLE/part.parquet` a table that is not cut.
The manifest tells which files are there and whole. What is to be replaced or removed is taken out of it first, so that
whoever is interrupted at any moment leaves whole files, and a manifest that says nothing wrong of them.
"""

import fcntl
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

from store.analytics.parquet import DAY_OF, FILE, Part, Place, path_of
from store.syncing import sync

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
_WRITING = ".writing"  # where files are made; nobody reads there
_DAY = re.compile(r"day=(\d{4,}-\d{2}-\d{2})")


class FolderRefused(Exception):
    """The folder cannot be exported to; the message says why, and what to do."""


class Source(Struct, frozen=True, rename="camel"):
    """What an export is of."""

    tenant: str
    is_masked: bool
    model_version: int


class _Manifest(Struct, frozen=True, rename="camel"):
    format_version: int
    source: Source
    since: str | None
    as_of: datetime | None
    """The moment the latest complete export was of; None: none was completed."""
    is_complete: bool
    parts: list[Part]


class ExportFolder:
    """One such folder, while it is exported to."""

    def __init__(self, folder: Path, source: Source) -> None:
        """Opens the folder, or makes it. Raises FolderRefused, OSError."""
        self._folder = folder
        self._source = source
        self.removed = 0
        """Files that were in the folder and are not wanted."""
        self._since: str | None = None
        self._as_of: datetime | None = None
        self._parts = {part.place: part for part in self._known()}
        self._lock = _locked(folder / _WRITING)

    def _known(self) -> Sequence[Part]:
        """What is in the folder and whole, of this very model."""
        folder = self._folder
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / MANIFEST
        if not path.exists():
            if any(each.name != _WRITING for each in folder.iterdir()):
                raise FolderRefused(f"{folder} is not empty and no export; name another folder")
            return ()
        try:
            manifest = msgspec.json.decode(path.read_bytes(), type=_Manifest)
        except msgspec.DecodeError as error:
            raise FolderRefused(f"{path} is no manifest of an export; name another folder") from error
        if manifest.format_version > FORMAT_VERSION:
            raise FolderRefused(f"{folder} was written by a newer version of Cuebook; name another folder")
        there, source = manifest.source, self._source
        if there.tenant != source.tenant:
            raise FolderRefused(f"{folder} is an export of the tenant {there.tenant}; name another folder")
        if there.is_masked != source.is_masked:
            how = "a masked" if there.is_masked else "an unmasked"
            raise FolderRefused(f"{folder} is {how} export, and the two do not mix; name another folder")
        return manifest.parts if there == source and manifest.format_version == FORMAT_VERSION else ()

    def begin(self, wanted: Iterable[Part], since: str | None, as_of: datetime) -> list[Part]:
        """Remove what is in the folder and not wanted; the parts that are missing or are others now, in their order."""
        self._since, self._as_of = since, as_of
        wanted = list(wanted)
        places = {part.place for part in wanted}
        changed = [part for part in wanted if self._parts.get(part.place) != part]
        self._parts = {part.place: part for part in wanted if self._parts.get(part.place) == part}
        self._save(is_complete=False)
        for place in self._there():
            if place not in places:
                self._remove(place)
                self.removed += 1
        return changed

    @property
    def parts(self) -> Sequence[Part]:
        """What is there and whole."""
        return sorted(self._parts.values(), key=_order)

    @contextmanager
    def writing(self, name: str) -> Iterator[tuple[Path, BinaryIO]]:
        """A new file in a place where nobody reads; it is gone afterwards, unless it was taken."""
        path = self._folder / _WRITING / name
        try:
            with path.open("wb") as file:
                yield path, file
        finally:
            path.unlink(missing_ok=True)

    def take(self, part: Part, file: Path) -> None:
        """Put a whole file in its place; of no rows, nothing is there any more."""
        if not part.rows and part.day is not None:
            self._remove(part.place)
            return
        target = self._path(part.place)
        made = [each for each in (target.parent.parent, target.parent) if not each.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        sync(file)
        file.replace(target)
        for each in (target.parent, *(folder.parent for folder in made)):
            sync(each)
        self._parts[part.place] = part

    def keep(self) -> None:
        """Note what was taken so far."""
        self._save(is_complete=False)

    def finish(self) -> None:
        """All that was wanted is there."""
        self._save(is_complete=True)

    def close(self) -> None:
        """Let others export to the folder."""
        shutil.rmtree(self._folder / _WRITING, ignore_errors=True)
        self._lock.close()

    def _save(self, *, is_complete: bool) -> None:
        manifest = _Manifest(
            FORMAT_VERSION,
            self._source,
            self._since,
            self._as_of,
            is_complete,
            sorted(self._parts.values(), key=_order),
        )
        fresh = self._folder / f"{MANIFEST}.new"
        with fresh.open("wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=1))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._folder / MANIFEST)
        sync(self._folder)

    def _path(self, place: Place) -> Path:
        return self._folder / path_of(place)

    def _there(self) -> Iterator[Place]:
        """The files of parts that are there, whether they are known or not."""
        for table in DAY_OF:
            if (self._folder / table / FILE).exists():
                yield table, None
            for path in sorted((self._folder / table).glob(f"day=*/{FILE}")):
                if (day := _DAY.fullmatch(path.parent.name)) is not None:
                    yield table, day[1]

    def _remove(self, place: Place) -> None:
        path = self._path(place)
        path.unlink(missing_ok=True)
        for folder in (path.parent, *([path.parent.parent] if place[1] else [])):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
                sync(folder.parent)
        self._parts.pop(place, None)


def _locked(folder: Path) -> BinaryIO:
    """A folder for files that are being made, empty and nobody else's as long as the lock is open."""
    folder.mkdir(exist_ok=True)
    lock = (folder / "lock").open("wb")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise FolderRefused(f"another export to {folder.parent} is under way") from None
    for path in folder.iterdir():
        if path.name != "lock":
            path.unlink()
    return lock


def _order(part: Part) -> tuple[int, str]:
    return list(DAY_OF).index(part.table), part.day or ""
