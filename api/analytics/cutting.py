"""The analytics as Parquet files, by day: which there are, and some of them, for whoever keeps a folder of them."""

import tarfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from api.analytics.files import AnalyticsFiles, folder_beside
from api.analytics.jobs import CutParts, ListParts
from api.analytics.process import Processes
from store.analytics.parquet import Part, Parts, path_of
from store.analytics.parquet import Place as PartPlace
from store.errors import StoreUnavailable

JOB_S = 120.0
LIST = "parts.json"
"""The first file of an archive: which parts follow, with their fingerprints."""
_CHUNK = 1 << 20
_BLOCK = tarfile.BLOCKSIZE


class Listed(Struct, frozen=True):
    """All parts, and the moment of the record that they are of."""

    parts: Sequence[Part]
    as_of: datetime


class Cut(Struct, frozen=True):
    """Some parts, as files in a folder."""

    folder: Path
    parts: Sequence[Part]
    as_of: datetime


class Cutting:
    """Parts of the analytics of all tenants."""

    def __init__(self, files: AnalyticsFiles, processes: Processes) -> None:
        self._files = files
        self._processes = processes

    async def listed(self, tenant: str, since: str | None, *, masked: bool) -> Listed:
        """Which parts there are, without days before one. Raises ApiError, StoreError."""
        async with self._files.reading(tenant, masked=masked, units=True) as place, folder_beside(place) as folder:
            job = ListParts(str(place.path), str(folder), since)
            found = await self._processes.run(job, Parts, timeout_s=JOB_S)
            return Listed(found.parts, self._as_of(tenant, masked=masked))

    def _as_of(self, tenant: str, *, masked: bool) -> datetime:
        as_of = self._files.as_of(tenant, masked=masked)
        if as_of is None:
            raise StoreUnavailable("the analytics file is not there")
        return as_of

    @asynccontextmanager
    async def cut(self, tenant: str, places: Sequence[PartPlace], *, masked: bool) -> AsyncIterator[Cut]:
        """Parts as files, there meanwhile. Raises ApiError, StoreError."""
        async with AsyncExitStack() as held:
            async with self._files.reading(tenant, masked=masked, units=True) as place:
                folder = await held.enter_async_context(folder_beside(place))
                job = CutParts(str(place.path), str(folder), tuple(places))
                found = await self._processes.run(job, Parts, timeout_s=JOB_S)
                cut = Cut(folder, found.parts, self._as_of(tenant, masked=masked))
            yield cut


class Document(NamedTuple):
    """Bytes to be sent, and how many."""

    size: int
    pieces: Iterator[bytes]


def alone(cut: Cut) -> Document:
    """The one file of a cut."""
    path = cut.folder / path_of(cut.parts[0].place)
    return Document(path.stat().st_size, _content(path))


def archive(cut: Cut) -> Document:
    """All files of a cut in one document, a TAR: first the list, then each file."""
    listed = msgspec.json.encode(Parts(cut.parts))
    names = [path_of(part.place) for part in cut.parts]
    sizes = [len(listed), *((cut.folder / name).stat().st_size for name in names)]
    whole = sum(_BLOCK + size + -size % _BLOCK for size in sizes) + 2 * _BLOCK
    return Document(whole, _archived(listed, cut.folder, names))


def _archived(listed: bytes, folder: Path, names: Sequence[str]) -> Iterator[bytes]:
    yield _head(LIST, len(listed)) + listed + _padding(len(listed))
    for name in names:
        size = (folder / name).stat().st_size
        yield _head(name, size)
        yield from _content(folder / name)
        yield _padding(size)
    yield bytes(2 * _BLOCK)


def _content(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            yield piece


def _head(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)


def _padding(size: int) -> bytes:
    return bytes(-size % _BLOCK)
