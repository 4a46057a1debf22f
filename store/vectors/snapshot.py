"""A saved graph: a file of the graph, a list of its labels, and a manifest with the sizes and checksums of both.

Each generation has its own files, and the manifest names the current generation. The manifest is written last and
replaced atomically. So a process that is killed leaves the old or the new generation; the next save deletes all other
files.
"""

import shutil
import threading
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self
from weakref import WeakValueDictionary

import msgspec
import numpy as np

from store.interface.errors import SnapshotInvalid, StoreUnavailable
from store.interface.private_files import sync
from store.vectors.graph import PARAMETERS, Graph, LabelList, Parameters
from store.vectors.matrix import Labels

_locks: WeakValueDictionary[Path, "_Lock"] = WeakValueDictionary()
MANIFEST = "manifest.json"
GRAPH, ROSTER = "graph", "roster"
VERSION = 1
CHUNK_BYTES = 1 << 20
_ROW = np.dtype([("label", "<i8"), ("sum", "<u4"), ("live", "?")])


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The expected size and checksum of a file."""

    bytes: int
    checksum: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """Return the size and the CRC-32 checksum of a file."""
        checksum = 0
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                checksum = zlib.crc32(chunk, checksum)
        return cls(path.stat().st_size, checksum)


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The description of a generation."""

    version: int
    generation: int
    sequence: int
    """The highest live label."""
    count: int
    removed: int
    embedder: str
    dimension: int
    parameters: Parameters
    graph: File
    roster: File


class _Lock:
    """The lock of a folder; a class of its own, because an RLock cannot be referenced weakly."""

    def __init__(self) -> None:
        self.lock = threading.RLock()


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Lock a folder, so that no other thread of this process saves to it or deletes it meanwhile."""
    entry = _locks.setdefault(folder, _Lock())
    with entry.lock:
        yield


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a folder, or None if there is none. Raises SnapshotInvalid if it cannot be read."""
    try:
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise SnapshotInvalid(f"its manifest cannot be read: {error}") from error


def load(folder: Path, manifest: Manifest, embedder: str, dimension: int) -> Graph:
    """Load the graph of a manifest. Raises SnapshotInvalid if the files or parameters differ from the expected ones."""
    if (manifest.version, manifest.parameters) != (VERSION, PARAMETERS):
        raise SnapshotInvalid("it was written by another version, or with other parameters")
    if (manifest.embedder, manifest.dimension) != (embedder, dimension):
        raise SnapshotInvalid(f"its vectors belong to {manifest.embedder} with {manifest.dimension} dimensions")
    for kind, expected in ((GRAPH, manifest.graph), (ROSTER, manifest.roster)):
        try:
            found = File.of(_path(folder, kind, manifest.generation))
        except OSError as error:
            raise SnapshotInvalid(f"its {kind} cannot be read: {error.strerror}") from error
        if found != expected:
            raise SnapshotInvalid(f"its {kind} file has another size or checksum than its manifest")
    roster = _read_roster(_path(folder, ROSTER, manifest.generation))
    if (int(roster.live.sum()), int((~roster.live).sum())) != (manifest.count, manifest.removed):
        raise SnapshotInvalid("its manifest and its list have different numbers of vectors")
    return Graph.load(_path(folder, GRAPH, manifest.generation), dimension, roster)


def write_files(folder: Path, generation: int, graph: Graph) -> None:
    """Write the files of a new generation, which the manifest does not name yet. Raises StoreUnavailable."""
    try:
        if not folder.exists():
            folder.parent.mkdir(exist_ok=True)  # without parents, so that a deleted data folder is not created again
            folder.mkdir()
            sync(folder.parent)
        _remove_leftovers(folder)
        graph.save(_path(folder, GRAPH, generation))
        _write_roster(_path(folder, ROSTER, generation), graph.roster())
    except OSError as error:
        raise StoreUnavailable(f"the index cannot be written: {error.strerror}") from error


def name_files(folder: Path, generation: int, embedder: str, dimension: int, roster: LabelList) -> None:
    """Sync the files of a generation and then make it the current one. Raises StoreUnavailable."""
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
        sync(folder)  # before the manifest, which must not name files that a crash can lose
        fresh.replace(folder / MANIFEST)
        sync(folder)
        _remove_leftovers(folder)
    except OSError as error:
        raise StoreUnavailable(f"the index cannot be written: {error.strerror}") from error


def drop(folder: Path) -> None:
    """Delete all files of an index durably. Raises StoreUnavailable."""
    with exclusive(folder):
        try:
            (folder / MANIFEST).unlink(missing_ok=True)  # first, so that files left by a crash are not loaded
            shutil.rmtree(folder)
            sync(folder.parent)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreUnavailable(f"the index cannot be removed: {error.strerror}") from error


def drop_others(root: Path, in_use: Collection[str]) -> int:
    """Delete all indexes under `root` except those in the folders `in_use`; return how many were deleted.

    This deletes the indexes of erased owners that a crash left. Raises StoreUnavailable.
    """
    others = [folder for folder in root.iterdir() if folder.name not in in_use] if root.exists() else []
    for folder in others:
        drop(folder)
    return len(others)


def next_generation(folder: Path) -> int:
    """Return a generation number that no file in the folder has, not even one that a killed process left."""
    suffixes = [path.suffix[1:] for path in folder.iterdir()] if folder.exists() else []
    return max((int(suffix) for suffix in suffixes if suffix.isdecimal()), default=0) + 1


def _remove_leftovers(folder: Path) -> None:
    """Delete all files except those of the current generation."""
    try:
        manifest = read_manifest(folder)
    except SnapshotInvalid:
        manifest = None
    in_use = set()
    if manifest is not None:
        in_use = {MANIFEST, *(_path(folder, kind, manifest.generation).name for kind in (GRAPH, ROSTER))}
    for path in folder.iterdir():
        if path.name not in in_use:
            path.unlink()
    sync(folder)


def _path(folder: Path, kind: str, generation: int) -> Path:
    return folder / f"{kind}.{generation}"


def _write_roster(path: Path, roster: LabelList) -> None:
    rows = np.empty(len(roster.labels), _ROW)
    rows["label"], rows["sum"], rows["live"] = roster
    path.write_bytes(rows.tobytes())


def _read_roster(path: Path) -> LabelList:
    rows = np.frombuffer(path.read_bytes(), _ROW)
    return LabelList(rows["label"].astype(np.int64), rows["sum"].astype(np.uint32), rows["live"].astype(np.bool_))


# -- comparison with the rows -----------------------------------------------------------------------------------------


class Differences(NamedTuple):
    """The labels by which a graph and the rows differ."""

    missing: Labels
    """Rows that the graph lacks and whose vectors are not equal to one that it has."""
    extra: Labels
    """Labels of the graph that have no row."""
    changed: Labels
    """Labels with different vectors in the graph and in the row."""
    returned: Labels
    """Rows whose labels are marked as removed in the graph."""

    def require_explained(self) -> None:
        """Raise SnapshotInvalid if later additions and removals cannot explain the differences."""
        if len(self.returned):
            raise SnapshotInvalid("it has removed units that are in the database: the database is older")
        if len(self.changed):
            raise SnapshotInvalid("its vectors differ from those of the database")


def compare(roster: LabelList, labels: Labels, sums: Sequence[int]) -> Differences:
    """Compare the labels of a graph with the rows: `labels`, ascending, and the checksums `sums` of their vectors."""
    known = roster.labels[roster.live]
    order = np.argsort(known)
    known, known_sums = known[order], roster.sums[roster.live][order]
    row_sums = np.array(sums, np.uint32)
    is_shared = np.isin(labels, known)
    shared = labels[is_shared]
    is_missing = ~np.isin(labels, roster.labels) & ~np.isin(row_sums, known_sums)
    return Differences(
        missing=labels[is_missing],
        extra=known[~np.isin(known, labels)],
        changed=shared[row_sums[is_shared] != known_sums[np.searchsorted(known, shared)]] if len(shared) else shared,
        returned=labels[np.isin(labels, roster.labels[~roster.live])],
    )
