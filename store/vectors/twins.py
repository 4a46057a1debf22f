"""Labels whose vectors are the same: one of them stands for all in the graph.

People say "yes" a thousand times. In a graph a thousand equal vectors would be linked with one another alone, and
whatever leads in among them does not lead out again.
"""

from collections.abc import Callable

import numpy as np

from store.vectors.matrix import Labels

IsSame = Callable[[int, int], bool]
"""Whether two labels have the same vector."""


class Twins:
    """Which labels stand for which, of all that are live."""

    def __init__(self, is_same: IsSame) -> None:
        self._is_same = is_same
        self._first: dict[int, int] = {}  # by the checksum of its vector
        self._others: dict[int, list[int]] = {}  # by the first
        self._first_of: dict[int, int] = {}  # by each of the others

    def add(self, label: int, checksum: int) -> bool:
        """Whether this label stands for itself; else another does."""
        first = self._first.setdefault(checksum, label)
        if first == label or not self._is_same(first, label):
            return True
        self._others.setdefault(first, []).append(label)
        self._first_of[label] = first
        return False

    def remove(self, label: int, checksum: int) -> int | None:
        """Forget a label. Gives the one that stands for itself and the others from now on, where that has changed."""
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

    def standing(self, labels: Labels) -> Labels:
        """Those of the labels that stand for themselves."""
        return labels[~np.isin(labels, np.fromiter(self._first_of, np.int64, len(self._first_of)))]

    def with_others(self, labels: Labels, k: int) -> Labels:
        """These labels, and of those that each stands for the k that came last."""
        others = [other for label in labels.tolist() for other in self._others.get(label, [])[-k:]]
        return np.concatenate([labels, np.array(others, np.int64)])
