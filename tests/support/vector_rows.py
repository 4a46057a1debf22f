"""Rows of vectors as the database has them, to compare an index with."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from store.vectors.index import VectorIndex
from store.vectors.matrix import Floats, Labels, Nearest, unit_rows


class VectorRows:
    """The rows of the database: labels and their vectors."""

    def __init__(self, dimension: int = 16, seed: int = 1) -> None:
        self.dimension = dimension
        self.vectors: dict[int, Floats] = {}
        self._last = 0
        self._chance = np.random.default_rng(seed)
        self._centres = self._chance.normal(size=(20, dimension))

    def random(self, count: int) -> Floats:
        """Return vectors of length 1, in clusters as those of texts are."""
        centres = self._centres[self._chance.integers(0, 20, count)]
        return unit_rows(centres + 0.5 * self._chance.normal(size=(count, self.dimension)), self.dimension)

    def add(self, count: int, vectors: Floats | None = None) -> Labels:
        """Add new rows, with the labels that come next."""
        labels = np.arange(1, count + 1) + self._last
        self._last += count
        taken = self.random(count) if vectors is None else vectors
        self.vectors.update(zip(labels.tolist(), taken, strict=True))
        return labels

    def remove(self, labels: Labels) -> Labels:
        for label in labels.tolist():
            del self.vectors[label]
        return labels

    def live(self) -> Labels:
        return np.array(list(self.vectors), np.int64)

    def of(self, labels: Labels) -> Floats:
        rows = [self.vectors[label] for label in labels.tolist()]
        return np.array(rows, np.float32).reshape(len(rows), self.dimension)

    def nearest(self, vector: Floats, k: int, allowed: Labels | None = None) -> Nearest:
        """Return the exact answer by a full scan."""
        labels = self.live() if allowed is None else np.intersect1d(self.live(), allowed)
        cosines = self.of(labels) @ unit_rows([vector], self.dimension)[0]
        order = np.argsort(-cosines)[:k]
        return labels[order], cosines[order]

    def recall(self, index: VectorIndex, k: int = 10, questions: int = 50, allowed: Labels | None = None) -> float:
        """Return the share of the nearest that the index finds; each of its answers is checked against the rows."""
        shares = []
        for vector in self.random(questions):
            labels, cosines = index.search(vector, k, allowed)
            right = self.nearest(vector, k, allowed)[1]
            assert len(labels) == len(right)
            assert set(labels.tolist()) <= set((self.live() if allowed is None else allowed).tolist())
            assert np.allclose(cosines, self.of(labels) @ vector, atol=1e-5)
            assert np.all(np.diff(cosines) <= 0)
            shares.append(np.mean(cosines >= right[-1] - 1e-5))
        return float(np.mean(shares))

    def assert_exact(self, index: VectorIndex) -> None:
        """Assert that the index has these rows and finds what a full scan finds."""
        assert index.labels().tolist() == sorted(self.vectors)
        assert self.recall(index, questions=20) == 1


OpenIndex: TypeAlias = Callable[..., VectorIndex]
"""Open the index of rows from disk and complete its graph: `rows`, then `caught_up` and `embedder` by name."""
