"""The index of one owner's vectors: exact while they are few, and a graph that is checked where they are many.

The rows of the record are the truth. All vectors are in memory, from the rows; the graph is a shortcut to them, made in
pieces by whoever calls `catch_up`, and what is saved of it is a cache. What the graph finds is compared again exactly:
a bad graph can miss something and never make something up. That it does miss things is watched for. Where many units
say the same, links lead around among these and to nothing else: of 20,000 units, 14,000 of them short answers, a sixth
of all questions found nothing of what is nearest. Hence equal vectors are in the graph once. Vectors that are nearly
the same do it too, if less; so one in 23 is looked at with every search, and where one of these is nearer than what the
graph found, all are.
"""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from store.errors import SnapshotUnsound, VectorRefused
from store.vectors import snapshot
from store.vectors.comparing import compare
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
from store.vectors.twins import Twins

VectorsOf: TypeAlias = Callable[[Labels], Floats]
"""Rows of length 1 for labels, in their order, as the record holds them."""

GRAPH_FROM = 20_000
"""Vectors from which a graph is worth its making, and as many as a filter leaves; below half of them it is dropped."""
FETCH_MAX = 1_000
"""Neighbours the graph is asked for; who wants more looks at everything."""
SAMPLE_EVERY = 23
"""The labels this divides are looked at with every search: a prime, since conversations have rhythms."""
NEARER = 1e-5
"""By how much one must be nearer than another for it to count: sums of 32 bits differ with their order."""
REMOVED_SHARE = 0.3
"""Of what is in a graph, before it is made anew."""
SAVED_SHARE = 0.02
"""Of what is in a graph, that may change before it is saved: the file is 1.2 KB a vector, and is written whole."""
BATCH_ROWS = 32
"""Taken into the graph while searches wait: about 10 ms."""
PAUSE_S = 0.001
"""Between batches, in which a search that waits gets its turn."""


class VectorIndex:
    """Opened with `open`. Any number of threads may search, add and remove."""

    def __init__(self, folder: Path, embedder: str, dimension: int, *, graph_from: int, threads: int) -> None:
        self.reason: str | None = None
        """Why what was on disk was not used, if it was not."""
        self._folder = folder
        self._embedder = embedder
        self._dimension = dimension
        self._graph_from = graph_from
        self._threads = threads
        self._lock = threading.Lock()  # of everything below, held for milliseconds; and of every call of the library
        self._matrix = Matrix(dimension)
        self._sample = Matrix(dimension)
        self._twins = Twins(self._is_same)
        self._removed: set[int] = set()
        self._graph: Graph | None = None
        self._pending = NO_LABELS  # stand for themselves, and are not in the graph yet
        self._unsaved = 0
        self._must_save = False  # what is saved holds removed vectors, or is dropped since it did
        self._work = threading.Lock()  # of what goes on in the background, held for as long as a piece takes
        self._next_graph: Graph | None = None
        self._to_take = NO_LABELS
        self._is_closed = False

    @classmethod
    def open(
        cls,
        folder: Path,
        embedder: str,
        dimension: int,
        live: Labels,
        vectors_of: VectorsOf,
        *,
        graph_from: int = GRAPH_FROM,
        threads: int = 1,
    ) -> Self:
        """The index of these labels, from what is saved in `folder` as far as that agrees with the rows.

        It can be searched at once, whatever is missing of the graph: `catch_up` makes that. `threads` are how many the
        library may use for it. Raises VectorRefused where a row of the record is no vector.
        """
        index = cls(folder, embedder, dimension, graph_from=graph_from, threads=threads)
        live = np.sort(live)
        vectors = require_unit_rows(vectors_of(live), dimension, len(live))
        sums = sums_of(vectors)
        index._take(live, vectors, sums)
        try:
            manifest = snapshot.read_manifest(folder)
            if manifest is not None and index._wants_graph(has_one=True):
                index._use(snapshot.load(folder, manifest, embedder, dimension), live, sums)
        except SnapshotUnsound as error:
            index.reason = str(error)
        return index

    @property
    def count(self) -> int:
        """Vectors that can be found."""
        return self._matrix.live_count

    @property
    def unsaved(self) -> int:
        """Changes of the graph that are not on disk."""
        return self._unsaved

    @property
    def is_worth_saving(self) -> bool:
        """Whether so much has changed that saving takes less than doing it again after the next start.

        Also when what was saved holds a vector that was removed since, or was dropped for that.
        """
        return self._unsaved > SAVED_SHARE * self.count or self._must_save

    @property
    def is_behind(self) -> bool:
        """Whether `catch_up` has anything to do. Nothing is missed until then, it only takes longer to find."""
        with self._lock:
            return self._has_work()

    def labels(self) -> Labels:
        """Those that can be found, ascending."""
        with self._lock:
            return self._matrix.labels()

    def add(self, labels: Labels, vectors: Floats) -> None:
        """Take rows of length 1. Those that are in it already, the same, are left as they are.

        Raises VectorRefused for one that is no vector, whose label was removed, or has another vector.
        """
        vectors = require_unit_rows(vectors, self._dimension, len(labels))
        order = np.argsort(labels)
        labels, vectors = np.asarray(labels, np.int64)[order], vectors[order]
        if not np.all(np.diff(labels) > 0):
            raise VectorRefused("a label is there twice")
        with self._lock:
            is_new = self._require_free(labels, vectors)
            self._take(labels[is_new], vectors[is_new], sums_of(vectors[is_new]))

    def remove(self, labels: Labels) -> None:
        """Find these no more. Their vectors are wiped here at once, and in the graph by `catch_up` and `save`."""
        with self._lock:
            view = self._matrix.view()
            rows = view.rows_of(labels)
            known = view.labels[rows]
            changes = map(self._twins.remove, known.tolist(), sums_of(view.vectors[rows]))
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
        """Delete what is saved, which holds vectors that are about to be removed. Raises StoreUnavailable."""
        with self._work:
            if not self._is_closed:
                snapshot.drop(self._folder)
                self._must_save = True

    def search(self, vector: Floats, k: int, allowed: Labels | None = None) -> Nearest:
        """The k nearest of all, or of those that are allowed: labels and cosines, fewer where there are fewer.

        Raises VectorRefused for what is no vector.
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
        """Do a piece of what is to be done to the graph, for a thread in the background. Whether more is left."""
        with self._work:
            if self._is_closed or not self._has_work():
                return False
            if not self._wants_graph(has_one=self._graph is not None):
                with self._lock:
                    self._forget_graph()
            elif self._graph is None or self._next_graph is not None or self._is_worn():
                self._make(rows_max)
            elif len(self._pending):
                self._extend(self._graph, rows_max)
            else:
                self._wipe(self._graph, rows_max)
            return self._has_work()

    def rebuild(self) -> None:
        """Make the graph anew, so that nothing of what was removed is left in it. For a thread in the background."""
        with self._work, self._lock:
            self._forget_graph()
        while self.catch_up():
            pass

    def close(self) -> None:
        """Work no more and save nothing: another index of the folder is opened, or it is removed. Searches go on."""
        self._is_closed = True

    def save(self) -> None:
        """Put the graph on disk, in place of what is there. For a thread in the background.

        Python itself stands still while the library writes: 20 ms for 20,000 vectors, 100 for 100,000. Raises
        StoreUnavailable; what was there is there then.
        """
        with self._work, snapshot.alone(self._folder):
            if self._is_closed:
                return
            generation = snapshot.next_generation(self._folder)
            with self._lock:
                graph, unsaved = self._graph, self._unsaved
                if graph is not None:
                    graph.wipe(graph.unwiped_count)
                    snapshot.write_files(self._folder, generation, graph)
                    roster = graph.roster()
                self._must_save = False  # what is removed from now on sets it again
            if graph is None:
                snapshot.drop(self._folder)
            else:
                snapshot.name_files(self._folder, generation, self._embedder, self._dimension, roster)
            with self._lock:
                self._unsaved -= unsaved

    def _take(self, labels: Labels, vectors: Floats, sums: Sequence[int]) -> None:
        self._matrix.add(labels, vectors)
        is_sampled = labels % SAMPLE_EVERY == 0
        self._sample.add(labels[is_sampled], vectors[is_sampled])
        stands = np.fromiter(map(self._twins.add, labels.tolist(), sums), np.bool_, len(labels))
        self._pending = np.concatenate([self._pending, labels[stands]])

    def _is_same(self, label: int, other: int) -> bool:
        view = self._matrix.view()
        one, two = np.searchsorted(view.labels, [label, other])
        return np.array_equal(view.vectors[one], view.vectors[two])

    def _forget_graph(self) -> None:
        self._graph, self._next_graph = None, None
        self._pending = self._twins.standing(self._matrix.labels())
        self._unsaved += self.count + 1

    def _require_free(self, labels: Labels, vectors: Floats) -> NDArray[np.bool_]:
        """Which of the labels are new. Raises VectorRefused where one is taken, or was removed."""
        view = self._matrix.view()
        is_new = ~np.isin(labels, view.labels[view.live])
        if not np.array_equal(view.vectors[view.rows_of(labels[~is_new])], vectors[~is_new]):
            raise VectorRefused("a label has another vector already; a unit with other words has another label")
        removed = [label for label in labels[is_new].tolist() if self._was_removed(label)]
        if removed:
            raise VectorRefused(f"label {removed[0]} was removed; labels are not used again")
        return is_new

    def _was_removed(self, label: int) -> bool:
        return label in self._removed or (self._graph is not None and label in self._graph)

    def _use(self, graph: Graph, live: Labels, sums: Sequence[int]) -> None:
        """Take a saved graph, brought up to what is live. Raises SnapshotUnsound where it is not of these rows."""
        differences = compare(graph.roster(), live, sums)
        differences.require_explained()
        self._search_with(graph)
        self._unsaved = len(differences.extra)
        self._must_save = len(differences.extra) > 0

    def _search_with(self, graph: Graph) -> None:
        """Use this graph from now on, of which some may have been removed, and in which some may be missing."""
        live = self._matrix.labels()
        graph.remove(np.setdiff1d(graph.labels(), live))
        self._graph = graph
        self._pending = np.setdiff1d(self._twins.standing(live), graph.labels())

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
        """What the graph and the exact looks beside it find, or None where that is not to be relied on."""
        with self._lock:
            graph, pending = self._graph, self._pending
            if graph is None or not graph.live_count:
                return None
            asked = k if rows is None else round(1.5 * k * len(view.labels) / len(rows)) + 8
            asked = min(asked, graph.live_count)
            labels = graph.nearest(vector, asked) if asked <= FETCH_MAX else None
            if labels is None:
                return None
            labels = self._twins.with_others(np.concatenate([labels, pending]), k if rows is None else len(view.labels))
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

    def _make(self, rows_max: int) -> None:
        """Take a piece into a graph beside the one that is searched, or put it in its place when it has all.

        In an order by chance: what is alike came together, and would be linked with nothing else.
        """
        if self._next_graph is None:
            with self._lock:
                labels = self._twins.standing(self._matrix.labels())
            self._to_take = np.random.default_rng(len(labels)).permutation(labels)
            self._next_graph = Graph(self._dimension, len(labels))
        batch, self._to_take = self._to_take[:rows_max], self._to_take[rows_max:]
        with self._lock:
            view = self._matrix.view()
        rows = view.rows_of(batch)
        self._next_graph.add(view.labels[rows], view.vectors[rows], self._threads)
        if not len(self._to_take):
            with self._lock:
                self._search_with(self._next_graph)
                self._unsaved += self._next_graph.live_count
            self._next_graph = None

    def _extend(self, graph: Graph, rows_max: int) -> None:
        """Take a piece of what is pending into the graph, in batches so small that searches hardly wait."""
        for _ in range(0, rows_max, BATCH_ROWS):
            with self._lock:
                view = self._matrix.view()
                rows = view.rows_of(self._pending[:BATCH_ROWS])
                graph.add(view.labels[rows], view.vectors[rows], self._threads)
                self._pending = self._pending[BATCH_ROWS:]
                self._unsaved += len(rows)
            if not len(self._pending):
                return
            time.sleep(PAUSE_S)

    def _wipe(self, graph: Graph, rows_max: int) -> None:
        """Overwrite removed vectors, in batches so small that searches hardly wait."""
        for _ in range(0, rows_max, BATCH_ROWS):
            with self._lock:
                graph.wipe(BATCH_ROWS)
            if not graph.unwiped_count:
                return
            time.sleep(PAUSE_S)
