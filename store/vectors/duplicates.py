"""Deduplicate equal vectors: only one label of each set of equal vectors, the representative, is in the graph.

Short messages such as "yes" occur thousands of times. In a graph, a thousand equal vectors would be linked only with
one another, and a search that enters them would not leave them again.
"""

from collections.abc import Callable

import numpy as np

from store.vectors.matrix import Labels

IsSame = Callable[[int, int], bool]
"""Returns whether two labels have the same vector."""


class DuplicateVectors:
    """The sets of live labels with equal vectors, and the representative of each."""

    def __init__(self, is_same: IsSame) -> None:
        self._is_same = is_same
        self._first: dict[int, int] = {}  # the representative, by the checksum of its vector
        self._others: dict[int, list[int]] = {}  # by the representative
        self._first_of: dict[int, int] = {}  # the representative, by each of the others

    def add(self, label: int, checksum: int) -> bool:
        """Add a label; return whether it is the representative of its vector."""
        first = self._first.setdefault(checksum, label)
        if first == label or not self._is_same(first, label):
            return True
        self._others.setdefault(first, []).append(label)
        self._first_of[label] = first
        return False

    def remove(self, label: int, checksum: int) -> int | None:
        """Remove a label; return the new representative of its set if that has changed."""
        first = self._first_of.pop(label, None)
        if first is not None:
            self._others[first].remove(label)
            return None
        others = self._others.pop(label, [])
        if self._first.get(checksum) == label:
            del self._first[checksum]
        if not others:
            return None
        heir = self._first[checksum] = others.pop(0)
        del self._first_of[heir]
        self._others[heir] = others
        self._first_of.update(dict.fromkeys(others, heir))
        return heir

    def representatives(self, labels: Labels) -> Labels:
        """Return those of the labels that are representatives."""
        return labels[~np.isin(labels, np.fromiter(self._first_of, np.int64, len(self._first_of)))]

    def with_others(self, labels: Labels, k: int) -> Labels:
        """Return these labels, and for each of them the last k labels that it represents."""
        others = [other for label in labels.tolist() for other in self._others.get(label, [])[-k:]]
        return np.concatenate([labels, np.array(others, np.int64)])
