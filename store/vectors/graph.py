"""A wrapper of hnswlib's graph, which finds approximate nearest neighbours. No other module uses the library.

It prevents calls that the library does not handle: a query of an empty index (crash), more neighbours than vectors
(exception), growth during a read (abort), adding a removed label (the label becomes live again), loading a file that
the library did not write (a later crash). Not thread-safe: call it from one thread at a time.
"""

import zlib
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, Self

import hnswlib
import msgspec
import numpy as np
from numpy.typing import NDArray

from store.interface.errors import SnapshotInvalid, StoreUnavailable
from store.vectors.matrix import NO_LABELS, Floats, Labels

SEARCHED = 128
"""Minimum number of candidates of a search (`ef`); otherwise SEARCHED_TIMES for each requested neighbour."""
SEARCHED_TIMES = 3
ROOM = 1.25
"""Capacity of a graph as a multiple of its vectors, since growing copies the graph."""
ROOM_LEAST = 1_024
"""Minimum capacity of a graph, in vectors."""


class Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of a graph; a saved graph with other parameters is rebuilt."""

    library: str = f"hnswlib {version('hnswlib')}"
    space: str = "ip"
    """Inner product, which is the cosine for vectors of length 1."""
    links: int = 16
    """`M`"""
    built_with: int = 100
    """`ef_construction`"""


PARAMETERS = Parameters()


class LabelList(NamedTuple):
    """The labels in a graph, live or removed, as arrays of the same length."""

    labels: Labels
    sums: NDArray[np.uint32]
    """The checksum of each vector; 0 for a removed label."""
    live: NDArray[np.bool_]


def sums_of(vectors: Floats) -> list[int]:
    """Return the checksum of each vector."""
    return [zlib.crc32(vector.data) for vector in vectors]


class Graph:
    """Labelled vectors of length 1 with approximate search. A removed label cannot be added to the same graph again."""

    def __init__(self, dimension: int, capacity: int) -> None:
        self._index = hnswlib.Index(PARAMETERS.space, dimension)
        self._index.init_index(
            max(round(capacity * ROOM), ROOM_LEAST), M=PARAMETERS.links, ef_construction=PARAMETERS.built_with
        )
        self._sums: dict[int, int] = {}
        self._removed: set[int] = set()
        self._unwiped: set[int] = set()  # removed labels whose vectors are still in the library's memory

    @classmethod
    def load(cls, path: Path, dimension: int, roster: LabelList) -> Self:
        """Load a graph that `save` wrote; the caller has verified the file. Raises SnapshotInvalid."""
        graph = cls(dimension, 0)
        graph._index = hnswlib.Index(PARAMETERS.space, dimension)
        try:
            graph._index.load_index(str(path), max_elements=max(round(len(roster.labels) * ROOM), ROOM_LEAST))
        except RuntimeError as error:
            raise SnapshotInvalid(f"the library cannot load it: {error}") from error
        graph._sums = dict(zip(roster.labels[roster.live].tolist(), roster.sums[roster.live].tolist(), strict=True))
        graph._removed = set(roster.labels[~roster.live].tolist())
        inside = np.sort(np.array(graph._index.get_ids_list(), np.int64))
        if not np.array_equal(inside, np.sort(roster.labels)):
            raise SnapshotInvalid("its graph contains other labels than its list")
        return graph

    @property
    def live_count(self) -> int:
        """The number of vectors that a search can find."""
        return len(self._sums)

    @property
    def removed_count(self) -> int:
        """The number of removed vectors, which slow searches down until the graph is rebuilt."""
        return len(self._removed)

    @property
    def unwiped_count(self) -> int:
        """The number of removed vectors that `wipe` has not overwritten yet."""
        return len(self._unwiped)

    @property
    def bytes(self) -> int:
        """The size of the file that `save` writes, in bytes."""
        return int(self._index.index_file_size())

    def __contains__(self, label: int) -> bool:
        return label in self._sums or label in self._removed

    def labels(self) -> Labels:
        """Return the live labels."""
        return np.fromiter(self._sums, np.int64, len(self._sums)) if self._sums else NO_LABELS

    def roster(self) -> LabelList:
        """Return all labels, live and removed."""
        removed = np.fromiter(self._removed, np.int64, len(self._removed))
        labels = np.concatenate([self.labels(), removed])
        sums = np.zeros(len(labels), np.uint32)
        sums[: len(self._sums)] = np.fromiter(self._sums.values(), np.uint32, len(self._sums))
        return LabelList(labels, sums, np.arange(len(labels)) < len(self._sums))

    def add(self, labels: Labels, vectors: Floats) -> None:
        """Add vectors of length 1 under labels that were never in the graph."""
        needed = len(self._sums) + len(self._removed) + len(labels)
        if needed > self._index.get_max_elements():
            self._index.resize_index(round(needed * ROOM))
        self._index.add_items(vectors, labels, num_threads=1)
        self._sums.update(zip(labels.tolist(), sums_of(vectors), strict=True))

    def remove(self, labels: Labels) -> None:
        """Remove labels, so that searches do not find them; `wipe` overwrites their vectors. Ignores unknown labels."""
        for label in labels.tolist():
            if self._sums.pop(label, None) is not None:
                self._index.mark_deleted(label)
                self._removed.add(label)
                self._unwiped.add(label)

    def wipe(self, count_max: int) -> None:
        """Overwrite at most `count_max` removed vectors with random ones, so that no saved file contains them.

        The library retains a deleted element as a node of the graph and cannot remove it; adding a vector under its
        label again overwrites the stored vector. The directions are random, because equal vectors would be linked only
        with one another.
        """
        for label in list(self._unwiped)[:count_max]:
            noise = np.random.default_rng(label).standard_normal(self._index.dim)
            self._index.add_items((noise / np.linalg.norm(noise)).astype(np.float32), label, num_threads=1)
            self._index.mark_deleted(label)
            self._unwiped.remove(label)

    def nearest(self, vector: Floats, k: int) -> Labels | None:
        """Return the labels of approximately the k nearest vectors, or None if the graph finds fewer than k."""
        if not 0 < k <= len(self._sums):
            return None
        self._index.set_ef(max(SEARCHED, SEARCHED_TIMES * k))  # set for each search, since loading a graph resets it
        try:
            labels, _ = self._index.knn_query(vector, k=k, num_threads=1)
        except RuntimeError:  # parts of the graph have no incoming links
            return None
        return np.asarray(labels[0], np.int64)

    def save(self, path: Path) -> None:
        """Write the graph to a file. Raises StoreUnavailable, also if the disk is full, which the library ignores."""
        try:
            self._index.save_index(str(path))
        except RuntimeError as error:
            raise StoreUnavailable(f"the index cannot be written: {error}") from error
        if path.stat().st_size != self.bytes:
            raise StoreUnavailable("the index could not be written completely; check the free disk space")
