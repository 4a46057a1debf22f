"""The units of an index by row: their position in time and in their groups, and their vectors, in growing arrays.

Every array is longer than the rows in use, and its last element stays empty: the row -1, "none", reads as a unit
without words, neighbours and vector.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

import numpy as np
from msgspec.structs import astuple
from numpy.typing import NDArray

from runtime.memory.duplicates import signs_of
from runtime.memory.recall.features import UnitCues
from runtime.memory.recall.inverted_index import Floats, Rows
from runtime.memory.recall.query import IndexEntry
from runtime.memory.recall.terms import is_filler, is_routine, is_short

NONE = -1
SPACE_MIN = 256
CUES = UnitCues.__struct_fields__


class Columns:
    """The properties of each unit except its words. `used` rows are in use; `alive` marks those not removed."""

    def __init__(self) -> None:
        self.used = 0
        self.sequences = np.empty(0, np.int64)
        self.alive = np.empty(0, np.bool_)
        self.said = np.empty(0, np.bool_)  # of rank 0: not a summary
        self.pinned = np.empty(0, np.bool_)
        self.group = np.empty(0, np.int32)
        self.source = np.empty(0, np.int32)
        self.before = np.empty(0, np.int32)
        self.after = np.empty(0, np.int32)
        self.parent = np.empty(0, np.int32)
        self.length = np.empty(0, np.float32)  # in terms
        self.wording = np.empty(0, np.int64)  # equal for duplicates
        self.is_filler = np.empty(0, np.bool_)
        self.short = np.empty(0, np.int64)  # equal for the same few words; 0: not short
        self.created = np.empty(0, np.float64)  # in seconds; NaN if unknown
        self.cues = np.empty((0, len(CUES)), np.float32)
        self.vectors = np.empty((0, 0), np.float32)
        self.has_vector = np.empty(0, np.bool_)

    def append(
        self, entry: IndexEntry, cues: UnitCues, *, group: int, source: int, terms: int, before: int, parent: int
    ) -> int:
        """Add a row for a unit, link it to the one before it, and return its index."""
        row = self.used
        if row + 2 > len(self.sequences):
            self._move(slice(row), max(SPACE_MIN, 2 * (row + 2)))
        self.sequences[row] = entry.sequence
        self.alive[row] = True
        self.said[row] = entry.rank == 0
        self.pinned[row] = entry.is_pinned
        self.group[row], self.source[row] = group, source
        self.before[row], self.after[row], self.parent[row] = before, NONE, parent
        self.length[row] = terms
        self.created[row] = seconds_of(entry.created_at)
        self.cues[row] = astuple(cues)
        if before != NONE:
            self.after[before] = row
        self.used += 1
        return row

    def unlink(self, row: int) -> None:
        """Remove a unit: link its neighbours to each other, and remove it as a parent."""
        before, after = int(self.before[row]), int(self.after[row])
        if before != NONE:
            self.after[before] = after
        if after != NONE:
            self.before[after] = before
        if not self.said[row]:
            self.parent[: self.used][self.parent[: self.used] == row] = NONE
        self.alive[row] = self.has_vector[row] = False

    def rows_of(self, sequences: NDArray[np.int64]) -> Rows:
        """Return the rows of the existing units, in the order of `sequences`."""
        known = self.sequences[: self.used]
        at = np.searchsorted(known, sequences)
        at = at[(at < self.used) & (known[np.minimum(at, max(self.used - 1, 0))] == sequences)] if self.used else at[:0]
        return at[self.alive[at]].astype(np.int32)

    def place_vectors(self, rows: Rows, vectors: Floats) -> None:
        """Set vectors of units. The first ones determine the dimension. Raises ValueError for another dimension."""
        if not self.vectors.shape[1]:
            self.vectors = np.zeros((len(self.sequences), vectors.shape[1]), np.float32)
        if vectors.shape[1] != self.vectors.shape[1]:
            raise ValueError(f"the vectors here have {self.vectors.shape[1]} numbers, not {vectors.shape[1]}")
        self.vectors[rows] = vectors
        self.has_vector[rows] = True

    def keep(self, rows: Rows) -> None:
        """Delete all other rows, and renumber these from 0 in order."""
        new = np.full(len(self.sequences), NONE, np.int32)
        new[rows] = np.arange(len(rows), dtype=np.int32)
        for name in ("before", "after", "parent"):
            setattr(self, name, new[getattr(self, name)])
        self._move(rows, max(SPACE_MIN, 2 * (len(rows) + 2)))
        self.used = len(rows)

    def _move(self, rows: Rows | slice, space: int) -> None:
        """Give every array this many elements: these rows, then empty ones."""
        for name, old in list(vars(self).items()):
            if isinstance(old, np.ndarray):
                moved = old[rows]
                fresh = np.full((space, *old.shape[1:]), _EMPTY.get(name, 0), old.dtype)
                fresh[: len(moved)] = moved
                setattr(self, name, fresh)


_EMPTY: dict[str, float] = {"before": NONE, "after": NONE, "parent": NONE, "created": np.nan}


def seconds_of(moment: datetime | None) -> float:
    """Return a moment in seconds, NaN for None."""
    return float("nan") if moment is None else moment.timestamp()


# -- wordings ---------------------------------------------------------------------------------------------------------


class Wordings:
    """The wordings of an index's units, in its columns: equal for units of one source and rank with the same words
    and signs."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._short: Counter[int] = Counter()  # number of units with the same few words

    def add(self, row: int, entry: IndexEntry, words: Sequence[str]) -> None:
        """Store the wording of a new row."""
        columns = self._columns
        wording = " ".join(words) or entry.content
        columns.wording[row] = hash((entry.rank, entry.source, wording, signs_of(entry.content)))
        columns.is_filler[row] = is_filler(words) and not entry.has_attachment
        columns.short[row] = hash(wording) if is_short(words) else 0
        if columns.short[row]:
            self._short[int(columns.short[row])] += 1

    def link(self, row: int, original: int) -> None:
        """Mark a row as a near duplicate of another."""
        self._columns.wording[row] = self._columns.wording[original]

    def remove(self, row: int) -> None:
        """Remove the wording of a row."""
        short = int(self._columns.short[row])
        if short:
            self._short[short] -= 1
            if not self._short[short]:
                del self._short[short]

    def without_fillers(self, may: NDArray[np.bool_], units: int) -> NDArray[np.bool_]:
        """Return those of these rows that have content, in a memory with this number of units."""
        may = may & ~self._columns.is_filler
        routines = [short for short, times in self._short.items() if is_routine(times, units)]
        if routines:
            may &= ~np.isin(self._columns.short, routines)
        return may

    def distinct(self, rows: Rows, order: NDArray[np.intp], count: int) -> NDArray[np.intp]:
        """Return the first indices in an order of rows, each of another wording, up to a count."""
        _, first = np.unique(self._columns.wording[rows[order]], return_index=True)
        return order[np.sort(first)[:count]]

    def same(self, rows: Rows, may: NDArray[np.bool_]) -> list[tuple[int, ...]]:
        """Return the sequences of each row's duplicates, the oldest first; the rows have distinct wordings."""
        columns = self._columns
        wordings = columns.wording[rows]
        saying = np.flatnonzero(np.isin(columns.wording, wordings) & may)
        if len(saying) == len(rows):
            return [()] * len(rows)
        by_wording: dict[int, list[int]] = {}
        for row in saying.tolist():
            by_wording.setdefault(int(columns.wording[row]), []).append(row)
        return [
            tuple(int(columns.sequences[each]) for each in by_wording[wording] if each != row)
            for row, wording in zip(rows.tolist(), wordings.tolist(), strict=True)
        ]
