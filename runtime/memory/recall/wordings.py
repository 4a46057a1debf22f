"""Which units say the same, and which say nothing: what keeps results distinct and free of fillers."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from runtime.memory.duplicates import signs_of
from runtime.memory.recall.asking import Entry
from runtime.memory.recall.columns import Columns
from runtime.memory.recall.fillers import is_filler, is_routine, is_short
from runtime.memory.recall.postings import Rows


class Wordings:
    """The wordings of a bank's units, in its columns: units of one source and rank in the same words and signs
    have the same."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._short: Counter[int] = Counter()  # how many units are in the same few words

    def add(self, row: int, entry: Entry, words: Sequence[str]) -> None:
        """Notes the wording of a new row."""
        columns = self._columns
        wording = " ".join(words) or entry.content
        columns.wording[row] = hash((entry.rank, entry.source, wording, signs_of(entry.content)))
        columns.is_filler[row] = is_filler(words) and not entry.has_attachment
        columns.short[row] = hash(wording) if is_short(words) else 0
        if columns.short[row]:
            self._short[int(columns.short[row])] += 1

    def link(self, row: int, original: int) -> None:
        """One row says the same as another, in nearly the same words."""
        self._columns.wording[row] = self._columns.wording[original]

    def remove(self, row: int) -> None:
        """Forgets the wording of a row."""
        short = int(self._columns.short[row])
        if short:
            self._short[short] -= 1
            if not self._short[short]:
                del self._short[short]

    def without_fillers(self, may: NDArray[np.bool_], units: int) -> NDArray[np.bool_]:
        """The rows that carry content, in a memory with so many units."""
        may = may & ~self._columns.is_filler
        routines = [short for short, times in self._short.items() if is_routine(times, units)]
        if routines:
            may &= ~np.isin(self._columns.short, routines)
        return may

    def distinct(self, rows: Rows, order: NDArray[np.intp], count: int) -> NDArray[np.intp]:
        """The first places in an order of rows, each of another wording, up to a count."""
        _, first = np.unique(self._columns.wording[rows[order]], return_index=True)
        return order[np.sort(first)[:count]]

    def same(self, rows: Rows, may: NDArray[np.bool_]) -> list[tuple[int, ...]]:
        """For each row the sequences of the others that say the same, the oldest first; rows of distinct wordings."""
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
