"""The vectors of one owner in memory: rows of length 1, found by their labels and compared exactly."""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from store.errors import VectorRefused

Labels: TypeAlias = NDArray[np.int64]
"""Numbers of units, as they are counted in their owner's memory."""
Floats: TypeAlias = NDArray[np.float32]
Rows: TypeAlias = NDArray[np.intp]
"""Places in a matrix."""
Nearest: TypeAlias = tuple[Labels, Floats]
"""Labels, the nearest first and of equals the newest first, and their similarities: cosines."""

NO_LABELS: Labels = np.empty(0, np.int64)
NO_COSINES: Floats = np.empty(0, np.float32)
TOLERANCE = 1e-3
"""How far from 1 the length of a row may be."""
REMOVED_SHARE = 0.3
"""Of rows, before the rest move together."""
BLOCK_ROWS = 2_048
"""Rows that are gathered at a time: 2 MB of 256 dimensions."""
ROOM = 1.25
"""Times what is there is what an array grows to."""


def unit_rows(vectors: ArrayLike, dimension: int) -> Floats:
    """Vectors as rows of length 1. Raises VectorRefused where one has no direction, or not as many numbers."""
    rows = np.ascontiguousarray(vectors, np.float32)
    if rows.ndim != 2 or rows.shape[1] != dimension:
        raise VectorRefused(f"vectors of {dimension} numbers were expected, these are of shape {rows.shape}")
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    wrong = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0))
    if wrong.size:
        raise VectorRefused(f"vector {wrong[0]} of {len(rows)} is zero, or holds what is no number")
    unit: Floats = (rows / lengths[:, None]).astype(np.float32)
    return unit


def require_unit_rows(rows: Floats, dimension: int, count: int) -> Floats:
    """These rows, if they are `count` of length 1. Raises VectorRefused."""
    if rows.shape != (count, dimension):
        raise VectorRefused(f"{count} vectors of {dimension} numbers were expected, these are of shape {rows.shape}")
    rows = np.ascontiguousarray(rows, np.float32)
    squares = np.einsum("ij,ij->i", rows, rows)
    wrong = np.flatnonzero(~(np.abs(squares - 1) < 2 * TOLERANCE))
    if wrong.size:
        raise VectorRefused(f"vector {wrong[0]} of {count} is not of length 1")
    return rows


class View(NamedTuple):
    """What a matrix held at a moment. Rows that are removed meanwhile may stop being live, and nothing else changes."""

    labels: Labels
    """Ascending."""
    vectors: Floats
    live: NDArray[np.bool_]

    def rows_of(self, labels: Labels) -> Rows:
        """The rows of those of the labels that are live, in the order of rows, each once."""
        if not len(self.labels):
            return np.empty(0, np.intp)
        rows = np.minimum(np.searchsorted(self.labels, labels), len(self.labels) - 1)
        is_meant = np.zeros(len(self.labels), np.bool_)
        is_meant[rows[self.labels[rows] == labels]] = True
        return np.flatnonzero(is_meant & self.live)

    def similarities(self, vector: Floats, rows: Rows | None = None) -> Floats:
        """Cosines of a vector of length 1 with these rows, or with all of them.

        Not by `@`: its threads wait for one another, for 8 ms with 2,000 rows where the cores are busy (this: 0.06).
        """
        if rows is None or 2 * len(rows) > len(self.labels):
            cosines: Floats = np.vecdot(self.vectors, vector)
            return cosines if rows is None else cosines[rows]
        blocks = [rows[start : start + BLOCK_ROWS] for start in range(0, len(rows), BLOCK_ROWS)]
        return np.concatenate([np.vecdot(self.vectors[block], vector) for block in blocks] or [NO_COSINES])

    def nearest(self, vector: Floats, k: int, rows: Rows | None = None) -> Nearest:
        """The k nearest to a vector of length 1, of these rows or of all; fewer where there are not as many."""
        cosines = self.similarities(vector, rows)
        if rows is None:
            rows = np.arange(len(self.labels), dtype=np.intp)
        is_live = self.live[rows]
        if not is_live.all():
            rows, cosines = rows[is_live], cosines[is_live]
        if k < len(rows):
            best = np.argpartition(cosines, len(rows) - k)[len(rows) - k :]
            rows, cosines = rows[best], cosines[best]
        labels = self.labels[rows]
        order = np.lexsort((labels, cosines))[::-1]
        return labels[order], cosines[order]


class Matrix:
    """Vectors by label, in the order of labels. Changed by one thread at a time; views are read by any."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.live_count = 0
        self._count = 0
        self._labels = NO_LABELS
        self._vectors: Floats = np.empty((0, dimension), np.float32)
        self._live: NDArray[np.bool_] = np.empty(0, np.bool_)

    def view(self) -> View:
        """What is in it now."""
        return View(self._labels[: self._count], self._vectors[: self._count], self._live[: self._count])

    def labels(self) -> Labels:
        """Those that are live, ascending."""
        view = self.view()
        return view.labels[view.live]

    def add(self, labels: Labels, vectors: Floats) -> None:
        """Take rows of length 1 under labels that are not in it."""
        if not len(labels):
            return
        if np.any(np.diff(labels) < 0):
            order = np.argsort(labels)
            labels, vectors = labels[order], vectors[order]
        if self._count and labels[0] <= self._labels[self._count - 1]:
            self._merge(labels, vectors)
        else:
            self._append(labels, vectors)
        self.live_count += len(labels)

    def remove(self, labels: Labels) -> None:
        """Let go of those of these labels that are in it; their numbers are wiped."""
        rows = self.view().rows_of(labels)
        self._live[rows] = False
        self._vectors[rows] = 0
        self.live_count -= len(rows)
        if self._count - self.live_count > REMOVED_SHARE * self._count:
            view = self.view()
            self._set(view.labels[view.live], view.vectors[view.live])

    def _append(self, labels: Labels, vectors: Floats) -> None:
        end = self._count + len(labels)
        if end > len(self._labels):
            self._grow(round(end * ROOM))
        self._labels[self._count : end] = labels
        self._vectors[self._count : end] = vectors
        self._live[self._count : end] = True
        self._count = end

    def _grow(self, capacity: int) -> None:
        """Move to larger arrays; views keep the old ones."""
        view = self.view()
        self._labels, self._vectors = np.empty(capacity, np.int64), np.empty((capacity, self.dimension), np.float32)
        self._live = np.zeros(capacity, np.bool_)
        self._labels[: self._count], self._vectors[: self._count] = view.labels, view.vectors
        self._live[: self._count] = view.live

    def _merge(self, labels: Labels, vectors: Floats) -> None:
        """Take rows that come late: not after all that are there."""
        view = self.view()
        together = np.concatenate([view.labels[view.live], labels])
        order = np.argsort(together, kind="stable")
        self._set(together[order], np.concatenate([view.vectors[view.live], vectors])[order])

    def _set(self, labels: Labels, vectors: Floats) -> None:
        self._labels, self._vectors = labels, vectors
        self._live = np.ones(len(labels), np.bool_)
        self._count = len(labels)
