"""The vector index of one owner: exact search for few vectors, a graph with an exact check for many.

The rows of the database are authoritative. All vectors are in memory; the graph only speeds up searches. `catch_up`
builds it in pieces, and its saved file is a cache. The results of the graph are compared exactly, so a bad graph can
miss results, but never return wrong ones.

Missed results are detected. If many units have the same text, their links lead only to one another: with 20,000 units,
14,000 of them short answers, a sixth of all questions found none of the nearest units. Therefore only one of a set of
equal vectors is in the graph. Nearly equal vectors have the same effect, though a weaker one. So every search also
compares one vector in 23 exactly, and if one of these is nearer than the results of the graph, it compares all vectors.
"""

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from store.interface.errors import SnapshotInvalid, VectorRefused
from store.vectors import snapshot
from store.vectors.duplicates import DuplicateVectors
from store.vectors.graph import Graph, sums_of
from store.vectors.matrix import (
    NO_COSINES,
    NO_LABELS,
    Floats,
    Labels,
    Matrix,
    Nearest,
    Rows,
    View,
    require_unit_rows,
    unit_rows,
)

GRAPH_FROM = 20_000
"""Number of vectors from which the graph is built and used, also after a filter; below half of it, it is dropped."""
FETCH_MAX = 1_000
"""Maximum number of neighbours requested from the graph; a larger search compares all vectors."""
SAMPLE_EVERY = 23
"""Labels that are multiples of this are compared with every search; a prime, since messages follow regular patterns."""
NEARER = 1e-5
"""Minimum difference of cosines that counts, since 32-bit sums depend on the order of their terms."""
REMOVED_SHARE = 0.3
"""Share of removed vectors in a graph above which it is rebuilt."""
SAVED_SHARE = 0.02
"""Share of changed vectors above which the graph is saved; the whole file is written, 1.2 KB per vector."""
BATCH_ROWS = 32
"""Vectors added to the graph while searches wait: about 10 ms."""
PAUSE_S = 0.001
"""Pause between batches, so that a waiting search can run."""


class VectorIndex:
    """A vector index; create it with `open`. Safe for any number of threads."""

    def __init__(self, folder: Path, embedder: str, dimension: int, *, graph_from: int) -> None:
        self.reason: str | None = None
        """Why the saved graph was not used, or None."""
        self._folder = folder
        self._embedder = embedder
        self._dimension = dimension
        self._graph_from = graph_from
        self._lock = threading.Lock()  # guards the fields below and every call of the library; locked for milliseconds
        self._matrix = Matrix(dimension)
        self._sample = Matrix(dimension)
        self._duplicates = DuplicateVectors(self._is_same)
        self._removed: set[int] = set()
        self._graph: Graph | None = None
        self._pending = NO_LABELS  # representatives that are not in the graph yet
        self._unsaved = 0
        self._must_save = False  # the saved file contains removed vectors, or was deleted for that reason
        self._work = threading.Lock()  # guards the background work; locked while one piece of it runs
        self._next_graph: Graph | None = None
        self._to_add = NO_LABELS
        self._is_closed = False

    @classmethod
    def open(
        cls,
        folder: Path,
        embedder: str,
        dimension: int,
        labels: Labels,
        vectors: Floats,
        *,
        graph_from: int = GRAPH_FROM,
    ) -> Self:
        """Open the index of these vectors, with the graph saved in `folder` if that is consistent with them.

        The index can be searched at once; `catch_up` builds the missing part of the graph. Raises VectorRefused if a
        row of the database is not a valid vector.
        """
        index = cls(folder, embedder, dimension, graph_from=graph_from)
        order = np.argsort(labels)
        live = labels[order]
        vectors = require_unit_rows(vectors[order], dimension, len(live))
        sums = sums_of(vectors)
        index._insert(live, vectors, sums)
        try:
            manifest = snapshot.read_manifest(folder)
            if manifest is not None and index._wants_graph(has_one=True):
                index._use(snapshot.load(folder, manifest, embedder, dimension), live, sums)
        except SnapshotInvalid as error:
            index.reason = str(error)
        return index

    @property
    def count(self) -> int:
        """The number of vectors that a search can find."""
        return self._matrix.live_count

    @property
    def is_worth_saving(self) -> bool:
        """Whether the graph should be saved, because repeating the changes after the next start would take longer.

        Also true if the saved file contains vectors that were removed since, or was deleted for that reason.
        """
        return self._unsaved > SAVED_SHARE * self.count or self._must_save

    @property
    def is_behind(self) -> bool:
        """Whether `catch_up` has work to do. Until it is done, searches are complete, but slower."""
        with self._lock:
            return self._has_work()

    def labels(self) -> Labels:
        """Return the live labels, ascending."""
        with self._lock:
            return self._matrix.labels()

    def add(self, labels: Labels, vectors: Floats) -> None:
        """Add rows of length 1. Labels that already have the same vector are ignored.

        Raises VectorRefused for an invalid vector, a label that was removed, or a label that has another vector.
        """
        vectors = require_unit_rows(vectors, self._dimension, len(labels))
        order = np.argsort(labels)
        labels, vectors = np.asarray(labels, np.int64)[order], vectors[order]
        if not np.all(np.diff(labels) > 0):
            raise VectorRefused("a label occurs twice")
        with self._lock:
            is_new = self._require_free(labels, vectors)
            self._insert(labels[is_new], vectors[is_new], sums_of(vectors[is_new]))

    def remove(self, labels: Labels) -> None:
        """Remove labels. Their vectors in memory are wiped at once, those in the graph by `catch_up` and `save`."""
        with self._lock:
            view = self._matrix.view()
            rows = view.rows_of(labels)
            known = view.labels[rows]
            changes = map(self._duplicates.remove, known.tolist(), sums_of(view.vectors[rows]))
            heirs = [heir for heir in changes if heir is not None and (self._graph is None or heir not in self._graph)]
            self._matrix.remove(known)
            self._sample.remove(known)
            self._removed.update(known.tolist())
            self._unsaved += len(known)
            self._must_save = self._must_save or len(known) > 0
            self._pending = np.setdiff1d(np.concatenate([self._pending, np.array(heirs, np.int64)]), known)
            if self._graph is not None:
                self._graph.remove(known)

    def drop_saved(self) -> None:
        """Delete the saved graph, because it contains vectors that will be removed. Raises StoreUnavailable."""
        with self._work:
            if not self._is_closed:
                snapshot.drop(self._folder)
                self._must_save = True

    def search(self, vector: Floats, k: int, allowed: Labels | None = None) -> Nearest:
        """Return the labels and cosines of the k nearest vectors, among all or `allowed`; fewer if there are fewer.

        Raises VectorRefused for an invalid vector.
        """
        vector = unit_rows(np.reshape(vector, (1, -1)), self._dimension)[0]
        with self._lock:
            view, sample = self._matrix.view(), self._sample.view()
        rows = None if allowed is None else view.rows_of(np.asarray(allowed, np.int64))
        k = min(k, self.count if rows is None else len(rows))
        if k <= 0:
            return NO_LABELS, NO_COSINES
        if rows is not None and len(rows) <= self._graph_from:
            return view.nearest(vector, k, rows)
        found = self._search_graph(view, sample, vector, k, rows)
        return view.nearest(vector, k, rows) if found is None else found

    def catch_up(self, rows_max: int = 512) -> bool:
        """Do one piece of the work on the graph; return whether more is left. Call it from a background thread."""
        with self._work:
            if self._is_closed or not self._has_work():
                return False
            if not self._wants_graph(has_one=self._graph is not None):
                with self._lock:
                    self._drop_graph()
            elif self._graph is None or self._next_graph is not None or self._is_worn():
                self._build(rows_max)
            elif len(self._pending):
                self._extend(self._graph, rows_max)
            else:
                self._wipe(self._graph, rows_max)
            return self._has_work()

    def close(self) -> None:
        """Stop all work and saving, before the folder is opened by another index or deleted. Searches still work."""
        self._is_closed = True

    def save(self) -> None:
        """Save the graph, replacing the saved one. Call it from a background thread.

        The library writes with the GIL locked: 20 ms for 20,000 vectors, 100 ms for 100,000. Raises StoreUnavailable;
        the previously saved graph is then unchanged.
        """
        with self._work, snapshot.exclusive(self._folder):
            if self._is_closed:
                return
            generation = snapshot.next_generation(self._folder)
            with self._lock:
                graph, unsaved = self._graph, self._unsaved
                if graph is not None:
                    graph.wipe(graph.unwiped_count)
                    snapshot.write_files(self._folder, generation, graph)
                    roster = graph.roster()
                self._must_save = False  # later removals set it again
            if graph is None:
                snapshot.drop(self._folder)
            else:
                snapshot.name_files(self._folder, generation, self._embedder, self._dimension, roster)
            with self._lock:
                self._unsaved -= unsaved

    def _insert(self, labels: Labels, vectors: Floats, sums: Sequence[int]) -> None:
        self._matrix.add(labels, vectors)
        is_sampled = labels % SAMPLE_EVERY == 0
        self._sample.add(labels[is_sampled], vectors[is_sampled])
        is_representative = np.fromiter(map(self._duplicates.add, labels.tolist(), sums), np.bool_, len(labels))
        self._pending = np.concatenate([self._pending, labels[is_representative]])

    def _is_same(self, label: int, other: int) -> bool:
        view = self._matrix.view()
        one, two = np.searchsorted(view.labels, [label, other])
        return np.array_equal(view.vectors[one], view.vectors[two])

    def _drop_graph(self) -> None:
        self._graph, self._next_graph = None, None
        self._pending = self._duplicates.representatives(self._matrix.labels())
        self._unsaved += self.count + 1

    def _require_free(self, labels: Labels, vectors: Floats) -> NDArray[np.bool_]:
        """Return which labels are new. Raises VectorRefused if one has another vector, or was removed."""
        view = self._matrix.view()
        is_new = ~np.isin(labels, view.labels[view.live])
        if not np.array_equal(view.vectors[view.rows_of(labels[~is_new])], vectors[~is_new]):
            raise VectorRefused("a label already has another vector; a unit with another text needs another label")
        removed = [label for label in labels[is_new].tolist() if self._was_removed(label)]
        if removed:
            raise VectorRefused(f"label {removed[0]} was removed; labels are not reused")
        return is_new

    def _was_removed(self, label: int) -> bool:
        return label in self._removed or (self._graph is not None and label in self._graph)

    def _use(self, graph: Graph, live: Labels, sums: Sequence[int]) -> None:
        """Use a saved graph after applying the removals since. Raises SnapshotInvalid if it has other rows."""
        differences = snapshot.compare(graph.roster(), live, sums)
        differences.require_explained()
        self._search_with(graph)
        self._unsaved = len(differences.extra)
        self._must_save = len(differences.extra) > 0

    def _search_with(self, graph: Graph) -> None:
        """Use this graph for searches; remove labels from it that are not live, and queue those that it lacks."""
        live = self._matrix.labels()
        graph.remove(np.setdiff1d(graph.labels(), live))
        self._graph = graph
        self._pending = np.setdiff1d(self._duplicates.representatives(live), graph.labels())

    def _wants_graph(self, *, has_one: bool) -> bool:
        return self.count >= (self._graph_from // 2 if has_one else self._graph_from)

    def _is_worn(self) -> bool:
        graph = self._graph
        return graph is not None and graph.removed_count > REMOVED_SHARE * (graph.removed_count + graph.live_count)

    def _has_work(self) -> bool:
        if not self._wants_graph(has_one=self._graph is not None):
            return self._graph is not None
        if self._graph is None or self._next_graph is not None or self._is_worn():
            return True
        return len(self._pending) > 0 or self._graph.unwiped_count > 0

    def _search_graph(self, view: View, sample: View, vector: Floats, k: int, rows: Rows | None) -> Nearest | None:
        """Return the results of the graph and of the exact sample, or None if the graph has missed results."""
        with self._lock:
            graph, pending = self._graph, self._pending
            if graph is None or not graph.live_count:
                return None
            count = k if rows is None else round(1.5 * k * len(view.labels) / len(rows)) + 8
            count = min(count, graph.live_count)
            labels = graph.nearest(vector, count) if count <= FETCH_MAX else None
            if labels is None:
                return None
            labels = self._duplicates.with_others(
                np.concatenate([labels, pending]), k if rows is None else len(view.labels)
            )
        is_allowed = np.full(len(view.labels), rows is None)
        if rows is not None:
            is_allowed[rows] = True
        candidates = view.rows_of(labels)
        found, cosines = view.nearest(vector, k, candidates[is_allowed[candidates]])
        if len(found) < k:
            return None
        near, near_cosines = sample.nearest(vector, k)
        missed = near[(near_cosines > cosines[-1] + NEARER) & ~np.isin(near, found)]
        return None if is_allowed[view.rows_of(missed)].any() else (found, cosines)

    def _build(self, rows_max: int) -> None:
        """Add one piece to the next graph; when that is complete, replace the current graph with it.

        The order is random, because similar units are often consecutive and would be linked only with one another.
        """
        if self._next_graph is None:
            with self._lock:
                labels = self._duplicates.representatives(self._matrix.labels())
            self._to_add = np.random.default_rng(len(labels)).permutation(labels)
            self._next_graph = Graph(self._dimension, len(labels))
        batch, self._to_add = self._to_add[:rows_max], self._to_add[rows_max:]
        with self._lock:
            view = self._matrix.view()
        rows = view.rows_of(batch)
        self._next_graph.add(view.labels[rows], view.vectors[rows])
        if not len(self._to_add):
            with self._lock:
                self._search_with(self._next_graph)
                self._unsaved += self._next_graph.live_count
            self._next_graph = None

    def _extend(self, graph: Graph, rows_max: int) -> None:
        """Add at most `rows_max` pending vectors to the graph, in batches so small that searches hardly wait."""
        for _ in range(0, rows_max, BATCH_ROWS):
            with self._lock:
                view = self._matrix.view()
                rows = view.rows_of(self._pending[:BATCH_ROWS])
                graph.add(view.labels[rows], view.vectors[rows])
                self._pending = self._pending[BATCH_ROWS:]
                self._unsaved += len(rows)
            if not len(self._pending):
                return
            time.sleep(PAUSE_S)

    def _wipe(self, graph: Graph, rows_max: int) -> None:
        """Overwrite at most `rows_max` removed vectors, in batches so small that searches hardly wait."""
        for _ in range(0, rows_max, BATCH_ROWS):
            with self._lock:
                graph.wipe(BATCH_ROWS)
            if not graph.unwiped_count:
                return
            time.sleep(PAUSE_S)
