"""hnswlib's graph: finds the nearest of many vectors without looking at all. The one module that touches the library.

What the library does not bear is kept from it: a query before there is anything (it crashes), more neighbours than it
has vectors (it raises), growth while somebody reads (it aborts), a label that was removed (it brings it back), a file
it did not write (it loads it, and crashes later). One thread at a time may call.
"""

import zlib
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, Self

import hnswlib
import msgspec
import numpy as np
from numpy.typing import NDArray

from store.errors import SnapshotUnsound, StoreUnavailable
from store.vectors.matrix import NO_LABELS, Floats, Labels

SEARCHED = 128
"""Candidates the library keeps while it searches (`ef`), at least; three for each neighbour that is asked for."""
SEARCHED_TIMES = 3
ROOM = 1.25
"""Times what is there is what a graph has room for: to grow is to copy it."""
ROOM_LEAST = 1_024


class Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a graph was made with; one made otherwise is made anew."""

    library: str = f"hnswlib {version('hnswlib')}"
    space: str = "ip"
    """Inner product: of vectors of length 1 it is the cosine."""
    links: int = 16
    """`M`"""
    built_with: int = 100
    """`ef_construction`"""


PARAMETERS = Parameters()


class Roster(NamedTuple):
    """Who is in a graph, in arrays of one length."""

    labels: Labels
    sums: NDArray[np.uint32]
    """A checksum of each vector; 0 for one that was removed."""
    live: NDArray[np.bool_]


def sums_of(vectors: Floats) -> list[int]:
    """The checksum of each vector."""
    return [zlib.crc32(vector.data) for vector in vectors]


class Graph:
    """Labelled vectors of length 1, searched roughly. A label that was removed never comes back under this graph."""

    def __init__(self, dimension: int, capacity: int) -> None:
        self._index = hnswlib.Index(PARAMETERS.space, dimension)
        self._index.init_index(
            max(round(capacity * ROOM), ROOM_LEAST), M=PARAMETERS.links, ef_construction=PARAMETERS.built_with
        )
        self._sums: dict[int, int] = {}
        self._removed: set[int] = set()
        self._unwiped: set[int] = set()  # removed, and their vectors still in the library's memory

    @classmethod
    def load(cls, path: Path, dimension: int, roster: Roster) -> Self:
        """A graph that `save` wrote: the caller knows that the file is as it was. Raises SnapshotUnsound."""
        graph = cls(dimension, 0)
        graph._index = hnswlib.Index(PARAMETERS.space, dimension)
        try:
            graph._index.load_index(str(path), max_elements=max(round(len(roster.labels) * ROOM), ROOM_LEAST))
        except RuntimeError as error:
            raise SnapshotUnsound(f"the library cannot load it: {error}") from error
        graph._sums = dict(zip(roster.labels[roster.live].tolist(), roster.sums[roster.live].tolist(), strict=True))
        graph._removed = set(roster.labels[~roster.live].tolist())
        inside = np.sort(np.array(graph._index.get_ids_list(), np.int64))
        if not np.array_equal(inside, np.sort(roster.labels)):
            raise SnapshotUnsound("it holds other labels than its list names")
        return graph

    @property
    def live_count(self) -> int:
        """Vectors that can be found."""
        return len(self._sums)

    @property
    def removed_count(self) -> int:
        """Vectors that are in the way until the graph is made anew."""
        return len(self._removed)

    @property
    def unwiped_count(self) -> int:
        """Removed vectors that `wipe` has not overwritten yet."""
        return len(self._unwiped)

    @property
    def bytes(self) -> int:
        """How long the file is that `save` writes."""
        return int(self._index.index_file_size())

    def __contains__(self, label: int) -> bool:
        return label in self._sums or label in self._removed

    def labels(self) -> Labels:
        """Those that can be found."""
        return np.fromiter(self._sums, np.int64, len(self._sums)) if self._sums else NO_LABELS

    def roster(self) -> Roster:
        """Who is in it."""
        removed = np.fromiter(self._removed, np.int64, len(self._removed))
        labels = np.concatenate([self.labels(), removed])
        sums = np.zeros(len(labels), np.uint32)
        sums[: len(self._sums)] = np.fromiter(self._sums.values(), np.uint32, len(self._sums))
        return Roster(labels, sums, np.arange(len(labels)) < len(self._sums))

    def add(self, labels: Labels, vectors: Floats, threads: int) -> None:
        """Take vectors of length 1 under labels that never were in it."""
        needed = len(self._sums) + len(self._removed) + len(labels)
        if needed > self._index.get_max_elements():
            self._index.resize_index(round(needed * ROOM))
        self._index.add_items(vectors, labels, num_threads=threads)
        self._sums.update(zip(labels.tolist(), sums_of(vectors), strict=True))

    def remove(self, labels: Labels) -> None:
        """Find those of these labels that are in it no more. Their vectors stay in it until `wipe` overwrites them."""
        for label in labels.tolist():
            if self._sums.pop(label, None) is not None:
                self._index.mark_deleted(label)
                self._removed.add(label)
                self._unwiped.add(label)

    def wipe(self, count_max: int) -> None:
        """Overwrite removed vectors with random ones, at most so many, so that no file holds what was removed.

        The library keeps a deleted element as a node of the graph and cannot drop it; adding a vector under its label
        again overwrites the stored one. Random directions keep the nodes apart: equal ones would lead searches in
        circles.
        """
        for label in list(self._unwiped)[:count_max]:
            noise = np.random.default_rng(label).standard_normal(self._index.dim)
            self._index.add_items((noise / np.linalg.norm(noise)).astype(np.float32), label, num_threads=1)
            self._index.mark_deleted(label)
            self._unwiped.remove(label)

    def nearest(self, vector: Floats, k: int) -> Labels | None:
        """The labels of about the k nearest, or None where the graph does not lead to as many."""
        if not 0 < k <= len(self._sums):
            return None
        self._index.set_ef(max(SEARCHED, SEARCHED_TIMES * k))  # the library forgets it when it loads
        try:
            labels, _ = self._index.knn_query(vector, k=k, num_threads=1)
        except RuntimeError:  # parts of it that no link leads to
            return None
        return np.asarray(labels[0], np.int64)

    def save(self, path: Path) -> None:
        """Write it to a file. Raises StoreUnavailable: the library itself does not notice a full disk."""
        try:
            self._index.save_index(str(path))
        except RuntimeError as error:
            raise StoreUnavailable(f"the index cannot be written: {error}") from error
        if path.stat().st_size != self.bytes:
            raise StoreUnavailable("the index could not be written whole: is the disk full?")
