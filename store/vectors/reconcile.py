"""Compare a saved graph with the rows of the database: missing, extra and changed vectors."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from store.interface.errors import SnapshotInvalid
from store.vectors.graph import LabelList
from store.vectors.matrix import Labels


class Differences(NamedTuple):
    """The labels by which a graph and the rows differ."""

    missing: Labels
    """Rows that the graph lacks and whose vectors are not equal to one that it has."""
    extra: Labels
    """Labels of the graph that have no row."""
    changed: Labels
    """Labels with different vectors in the graph and in the row."""
    returned: Labels
    """Rows whose labels are marked as removed in the graph."""

    def require_explained(self) -> None:
        """Raise SnapshotInvalid if later additions and removals cannot explain the differences."""
        if len(self.returned):
            raise SnapshotInvalid("it has removed units that are in the database: the database is older")
        if len(self.changed):
            raise SnapshotInvalid("its vectors differ from those of the database")


def compare(roster: LabelList, labels: Labels, sums: Sequence[int]) -> Differences:
    """Compare the labels of a graph with the rows: `labels`, ascending, and the checksums `sums` of their vectors."""
    known = roster.labels[roster.live]
    order = np.argsort(known)
    known, known_sums = known[order], roster.sums[roster.live][order]
    row_sums = np.array(sums, np.uint32)
    is_shared = np.isin(labels, known)
    shared = labels[is_shared]
    is_missing = ~np.isin(labels, roster.labels) & ~np.isin(row_sums, known_sums)
    return Differences(
        missing=labels[is_missing],
        extra=known[~np.isin(known, labels)],
        changed=shared[row_sums[is_shared] != known_sums[np.searchsorted(known, shared)]] if len(shared) else shared,
        returned=labels[np.isin(labels, roster.labels[~roster.live])],
    )
