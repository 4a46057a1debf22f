"""The units of a bank by row: their place in time and in their groups, and their vectors, in arrays that grow.

Every array is longer than the rows in use, and its last place stays empty: the row -1, "there is none", reads as a unit
without words, neighbours and meaning.
"""

from datetime import datetime

import numpy as np
from msgspec.structs import astuple
from numpy.typing import NDArray

from runtime.memory.recall.asking import Entry
from runtime.memory.recall.cues import UnitCues
from runtime.memory.recall.postings import Floats, Rows

NONE = -1
SPACE_MIN = 256
CUES = UnitCues.__struct_fields__


class Columns:
    """What is known of each unit but its words. `used` rows are in use; `alive` says which are not removed."""

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
        self.wording = np.empty(0, np.int64)  # the same for units that say the same
        self.is_filler = np.empty(0, np.bool_)
        self.short = np.empty(0, np.int64)  # the same for the same few words; 0: not short
        self.created = np.empty(0, np.float64)  # in seconds; NaN where it is not known
        self.cues = np.empty((0, len(CUES)), np.float32)
        self.vectors = np.empty((0, 0), np.float32)
        self.has_vector = np.empty(0, np.bool_)

    def append(
        self, entry: Entry, cues: UnitCues, *, group: int, source: int, terms: int, before: int, parent: int
    ) -> int:
        """A row for a unit; it is linked to the one before it."""
        row = self.used
        if row + 2 > len(self.sequences):
            self._resize(max(SPACE_MIN, 2 * (row + 2)))
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
        """A unit is no more: its neighbours are neighbours now, and it is nobody's summary."""
        before, after = int(self.before[row]), int(self.after[row])
        if before != NONE:
            self.after[before] = after
        if after != NONE:
            self.before[after] = before
        if not self.said[row]:
            self.parent[: self.used][self.parent[: self.used] == row] = NONE
        self.alive[row] = self.has_vector[row] = False

    def rows_of(self, sequences: NDArray[np.int64]) -> Rows:
        """The rows of the units that are there, in the order of `sequences`."""
        known = self.sequences[: self.used]
        at = np.searchsorted(known, sequences)
        at = at[(at < self.used) & (known[np.minimum(at, max(self.used - 1, 0))] == sequences)] if self.used else at[:0]
        return at[self.alive[at]].astype(np.int32)

    def place_vectors(self, rows: Rows, vectors: Floats) -> None:
        """Vectors of units. The first ones say how many numbers a vector has. Raises ValueError on others."""
        if not self.vectors.shape[1]:
            self.vectors = np.zeros((len(self.sequences), vectors.shape[1]), np.float32)
        if vectors.shape[1] != self.vectors.shape[1]:
            raise ValueError(f"the vectors here have {self.vectors.shape[1]} numbers, not {vectors.shape[1]}")
        self.vectors[rows] = vectors
        self.has_vector[rows] = True

    def clear_vectors(self) -> None:
        """No unit has a vector any more; the next ones may be of another embedder."""
        self.vectors = np.empty((len(self.sequences), 0), np.float32)
        self.has_vector[:] = False

    def keep(self, rows: Rows) -> None:
        """Drops all other rows, and numbers these anew from 0 in their order."""
        new = np.full(len(self.sequences), NONE, np.int32)
        new[rows] = np.arange(len(rows), dtype=np.int32)
        for name in _LINKS:
            setattr(self, name, new[getattr(self, name)])
        space = max(SPACE_MIN, 2 * (len(rows) + 2))
        for name in (*_FLAT, "cues", "vectors"):
            old = getattr(self, name)
            fresh = np.full((space, *old.shape[1:]), _EMPTY.get(name, 0), old.dtype)
            fresh[: len(rows)] = old[rows]
            setattr(self, name, fresh)
        self.used = len(rows)

    def _resize(self, space: int) -> None:
        for name in (*_FLAT, "cues", "vectors"):
            old = getattr(self, name)
            fresh = np.full((space, *old.shape[1:]), _EMPTY.get(name, 0), old.dtype)
            fresh[: self.used] = old[: self.used]
            setattr(self, name, fresh)


_LINKS = ("before", "after", "parent")
_FLAT = (
    *_LINKS,
    "sequences",
    "alive",
    "said",
    "pinned",
    "group",
    "source",
    "length",
    "wording",
    "is_filler",
    "short",
    "created",
    "has_vector",
)
_EMPTY: dict[str, float] = {"before": NONE, "after": NONE, "parent": NONE, "created": np.nan}


def seconds_of(moment: datetime | None) -> float:
    """A moment in seconds, NaN for none."""
    return float("nan") if moment is None else moment.timestamp()
