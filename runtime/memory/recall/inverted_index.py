"""An inverted index of units by term, which is exact after every unit added or removed."""

import math
from array import array
from collections import Counter
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Rows = NDArray[np.int32]
Floats = NDArray[np.float32]


class Posting(Struct, frozen=True):
    """The rows that contain a term, ascending, and how often each does. Rows of removed units may be included."""

    rows: Rows
    counts: Floats


NO_POSTING = Posting(np.empty(0, np.int32), np.empty(0, np.float32))


class Postings:
    """Terms by row. Rows are added in ascending order; a removed row is not counted, and `keep` deletes it."""

    def __init__(self) -> None:
        self.units = 0  # without the removed ones
        self._ids: dict[str, int] = {}
        self._rows: list[array[int]] = []
        self._counts: list[array[float]] = []
        self._units_with: list[int] = []
        self._terms: dict[int, array[int]] = {}  # of each row, for its removal

    def add(self, row: int, terms: Sequence[str]) -> None:
        """Add a unit's terms, under a row above all existing ones."""
        ids = array("i")
        for term, count in Counter(terms).items():
            term_id = self._ids.get(term)
            if term_id is None:
                term_id = self._ids[term] = len(self._rows)
                self._rows.append(array("i"))
                self._counts.append(array("f"))
                self._units_with.append(0)
            self._rows[term_id].append(row)
            self._counts[term_id].append(count)
            self._units_with[term_id] += 1
            ids.append(term_id)
        self._terms[row] = ids
        self.units += 1

    def remove(self, row: int) -> None:
        """Remove a unit from the counts of its terms."""
        for term_id in self._terms.pop(row):
            self._units_with[term_id] -= 1
        self.units -= 1

    def posting(self, term: str) -> Posting:
        """Return the rows that contain a term. The arrays are copies."""
        term_id = self._ids.get(term)
        if term_id is None:
            return NO_POSTING
        return Posting(np.array(self._rows[term_id], np.int32), np.array(self._counts[term_id], np.float32))

    def units_with(self, term: str) -> int:
        """Return how many units have a term."""
        term_id = self._ids.get(term)
        return 0 if term_id is None else self._units_with[term_id]

    def rarity(self, term: str) -> float:
        """Return a term's inverse document frequency as in BM25: never below 0."""
        having = self.units_with(term)
        return math.log(1 + (self.units - having + 0.5) / (having + 0.5))

    def keep(self, rows: Rows) -> None:
        """Delete all other rows, and renumber these from 0 in order."""
        new = np.full(int(rows.max(initial=-1)) + 1, -1, np.int32)
        new[rows] = np.arange(len(rows), dtype=np.int32)
        ids: dict[str, int] = {}
        packed_rows: list[array[int]] = []
        packed_counts: list[array[float]] = []
        packed_units: list[int] = []
        renamed = np.full(len(self._rows), -1, np.int32)
        for term, term_id in self._ids.items():
            if not self._units_with[term_id]:
                continue
            posting = self.posting(term)
            within = posting.rows[posting.rows < len(new)]
            numbers = new[within]
            stays = numbers >= 0
            renamed[term_id] = ids[term] = len(packed_rows)
            packed_rows.append(array("i", numbers[stays].tobytes()))
            packed_counts.append(array("f", posting.counts[: len(within)][stays].tobytes()))
            packed_units.append(self._units_with[term_id])
        self._terms = {
            int(new[row]): array("i", renamed[np.array(terms, np.int32)].tobytes())
            for row, terms in self._terms.items()
        }
        self._ids, self._rows, self._counts, self._units_with = ids, packed_rows, packed_counts, packed_units
