"""A saved graph beside the rows of the record: what it lacks, what it has too many, what it has otherwise."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from store.errors import SnapshotUnsound, VectorRefused
from store.vectors import snapshot
from store.vectors.graph import Roster, sums_of
from store.vectors.matrix import Floats, Labels, require_unit_rows


class Differences(NamedTuple):
    """Labels in which a graph and the rows differ."""

    missing: Labels
    """Rows that came since, and are not the same as others that it has."""
    extra: Labels
    """What was removed from the rows since."""
    changed: Labels
    """Labels whose vector is another one than the row's."""
    returned: Labels
    """Rows whose label the graph has as removed."""

    def require_explained(self) -> None:
        """Raise SnapshotUnsound where the differences are not those that time makes."""
        if len(self.returned):
            raise SnapshotUnsound("it has removed what is in the record: the record is an older one")
        if len(self.changed):
            raise SnapshotUnsound("its vectors are not those of the record")


def compare(roster: Roster, labels: Labels, sums: Sequence[int]) -> Differences:
    """The graph of a roster beside rows: their labels, ascending, and the checksums of their vectors."""
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


def problems(folder: Path, embedder: str, dimension: int, live: Labels, vectors: Floats) -> list[str]:
    """Return what is wrong with a saved index, given the rows of the database; opening the index repairs all of it.

    No problem is an index that is not saved, or one behind the rows by what was added or removed since: the next save
    catches up.
    """
    order = np.argsort(live)
    try:
        vectors = require_unit_rows(vectors, dimension, len(live))
        manifest = snapshot.read_manifest(folder)
        if manifest is None:
            return []
        roster = snapshot.load(folder, manifest, embedder, dimension).roster()
    except VectorRefused as error:
        return [f"the rows of the record cannot be compared: {error}"]
    except SnapshotUnsound as error:
        return [f"the saved index is not sound: {error}"]
    found = compare(roster, live[order], sums_of(vectors[order]))
    told = (
        (found.changed, "other in the saved index than in the record"),
        (found.returned, "in the record and removed from the saved index"),
    )
    return [f"{len(labels)} vectors are {where}, first number {labels[0]}" for labels, where in told if len(labels)]
