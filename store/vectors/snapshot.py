"""A graph on disk: a file of it, a list of who is in it, and a manifest that tells what both must be like.

Each generation has files of its own, and the manifest names the one that counts. It is written last and takes its place
in one step, so a process that is killed leaves the old generation or the new one, and whatever else lies about is
removed with the next.
"""

import shutil
import threading
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self
from weakref import WeakValueDictionary

import msgspec
import numpy as np

from store.errors import SnapshotUnsound, StoreUnavailable
from store.syncing import sync
from store.vectors.graph import PARAMETERS, Graph, Parameters, Roster

_locks: WeakValueDictionary[Path, "_Lock"] = WeakValueDictionary()
MANIFEST = "manifest.json"
GRAPH, ROSTER = "graph", "roster"
VERSION = 1
CHUNK_BYTES = 1 << 20
_ROW = np.dtype([("label", "<i8"), ("sum", "<u4"), ("live", "?")])


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a file must be like."""

    bytes: int
    checksum: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """What it is like."""
        checksum = 0
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                checksum = zlib.crc32(chunk, checksum)
        return cls(path.stat().st_size, checksum)


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a generation is made of."""

    version: int
    generation: int
    sequence: int
    """The highest label that can be found."""
    count: int
    removed: int
    embedder: str
    dimension: int
    parameters: Parameters
    graph: File
    roster: File


class _Lock:
    """Of a folder; who writes to it or removes it holds `held`."""

    def __init__(self) -> None:
        self.held = threading.RLock()


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Nobody else in this process saves to a folder meanwhile, or removes it."""
    lock = _locks.setdefault(folder, _Lock())
    with lock.held:
        yield


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a folder, None where there is none. Raises SnapshotUnsound where it cannot be read."""
    try:
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise SnapshotUnsound(f"its manifest cannot be read: {error}") from error


def load(folder: Path, manifest: Manifest, embedder: str, dimension: int) -> Graph:
    """The graph of a manifest. Raises SnapshotUnsound where anything is not as it says, or as it must be."""
    if (manifest.version, manifest.parameters) != (VERSION, PARAMETERS):
        raise SnapshotUnsound("it was made by another version, or with other parameters")
    if (manifest.embedder, manifest.dimension) != (embedder, dimension):
        raise SnapshotUnsound(f"its vectors are of {manifest.embedder} with {manifest.dimension} dimensions")
    for kind, expected in ((GRAPH, manifest.graph), (ROSTER, manifest.roster)):
        try:
            found = File.of(_path(folder, kind, manifest.generation))
        except OSError as error:
            raise SnapshotUnsound(f"its {kind} cannot be read: {error.strerror}") from error
        if found != expected:
            raise SnapshotUnsound(f"its {kind} is not what was written")
    roster = _read_roster(_path(folder, ROSTER, manifest.generation))
    if (int(roster.live.sum()), int((~roster.live).sum())) != (manifest.count, manifest.removed):
        raise SnapshotUnsound("its manifest and its list tell of different numbers of vectors")
    return Graph.load(_path(folder, GRAPH, manifest.generation), dimension, roster)


def write_files(folder: Path, generation: int, graph: Graph) -> None:
    """Write a graph to files that no manifest names yet. Raises StoreUnavailable."""
    try:
        if not folder.exists():
            folder.parent.mkdir(exist_ok=True)  # not the data folder: where that was deleted, it stays so
            folder.mkdir()
            sync(folder.parent)
        _remove_leftovers(folder)
        graph.save(_path(folder, GRAPH, generation))
        _write_roster(_path(folder, ROSTER, generation), graph.roster())
    except OSError as error:
        raise StoreUnavailable(f"the index cannot be written: {error.strerror}") from error


def name_files(folder: Path, generation: int, embedder: str, dimension: int, roster: Roster) -> None:
    """Make the files of a generation durable, and then the ones that count. Raises StoreUnavailable."""
    try:
        for kind in (GRAPH, ROSTER):
            sync(_path(folder, kind, generation))
        manifest = Manifest(
            version=VERSION,
            generation=generation,
            sequence=int(roster.labels[roster.live].max(initial=0)),
            count=int(roster.live.sum()),
            removed=int((~roster.live).sum()),
            embedder=embedder,
            dimension=dimension,
            parameters=PARAMETERS,
            graph=File.of(_path(folder, GRAPH, generation)),
            roster=File.of(_path(folder, ROSTER, generation)),
        )
        fresh = folder / f"{MANIFEST}.new"
        fresh.write_bytes(msgspec.json.encode(manifest))
        sync(fresh)
        sync(folder)  # the manifest must not outlive the names of what it tells of
        fresh.replace(folder / MANIFEST)
        sync(folder)
        _remove_leftovers(folder)
    except OSError as error:
        raise StoreUnavailable(f"the index cannot be written: {error.strerror}") from error


def drop(folder: Path) -> None:
    """Remove all that is on disk of an index, durably. Raises StoreUnavailable."""
    with alone(folder):
        try:
            (folder / MANIFEST).unlink(missing_ok=True)  # what is left by a crash in between is not loaded
            shutil.rmtree(folder)
            sync(folder.parent)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreUnavailable(f"the index cannot be removed: {error.strerror}") from error


def drop_others(root: Path, kept: Collection[str]) -> int:
    """Remove every index under `root` whose folder is not named here: of owners that are no more. How many there were.

    What a crash left of an erasure goes this way. Raises StoreUnavailable.
    """
    others = [folder for folder in root.iterdir() if folder.name not in kept] if root.exists() else []
    for folder in others:
        drop(folder)
    return len(others)


def next_generation(folder: Path) -> int:
    """A number no file in the folder has, whether a manifest names it or a killed process left it."""
    suffixes = [path.suffix[1:] for path in folder.iterdir()] if folder.exists() else []
    return max((int(suffix) for suffix in suffixes if suffix.isdecimal()), default=0) + 1


def _remove_leftovers(folder: Path) -> None:
    """Remove all files but those that count."""
    try:
        manifest = read_manifest(folder)
    except SnapshotUnsound:
        manifest = None
    kept = set()
    if manifest is not None:
        kept = {MANIFEST, *(_path(folder, kind, manifest.generation).name for kind in (GRAPH, ROSTER))}
    for path in folder.iterdir():
        if path.name not in kept:
            path.unlink()
    sync(folder)


def _path(folder: Path, kind: str, generation: int) -> Path:
    return folder / f"{kind}.{generation}"


def _write_roster(path: Path, roster: Roster) -> None:
    rows = np.empty(len(roster.labels), _ROW)
    rows["label"], rows["sum"], rows["live"] = roster
    path.write_bytes(rows.tobytes())


def _read_roster(path: Path) -> Roster:
    rows = np.frombuffer(path.read_bytes(), _ROW)
    return Roster(rows["label"].astype(np.int64), rows["sum"].astype(np.uint32), rows["live"].astype(np.bool_))
