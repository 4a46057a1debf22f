"""Search candidates: the units that contain the rarer words of a query, and those nearest in meaning.

The number of candidates does not depend on the size of the index, so that a query costs the same among 10,000 units
and 100,000.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from runtime.memory.recall.columns import NONE, Columns
from runtime.memory.recall.inverted_index import Floats, Posting, Postings, Rows
from runtime.memory.recall.query import Nearest
from runtime.memory.recall.signals import Term, bm25
from runtime.memory.recall.terms import terms_of

BY_WORDS_MAX = 256
BY_MEANING_MAX = 128
BESIDE_MAX = 64  # the nearest units whose neighbours are candidates too: the next message may be the answer
EXACT_MAX = 20_000  # vectors that are all compared
EXACT_AMONG_MAX = 5_000  # allowed units that are all compared, whatever the size of the index
GATHERED_SHARE_MAX = 0.2  # of all vectors; above it, comparing all is faster than gathering
COMMON_SHARE = 0.05  # of the units; a term in more units is ignored if there is a rarer one
COMMON_MIN = 2_000  # units that every term may match
TERMS_MAX = 64  # of a query
AROUND = np.float32(0.5)  # the weight of a neighbour's words


def query_terms(
    columns: Columns, postings: Postings, text: str, named: Mapping[str, set[int]], group_lengths: Floats
) -> list[Term]:
    """Return the terms of a query that are in the index, the rarest first.

    The speaker is a separate signal: a term that names a source is left out, unless there is no other term.
    """
    terms = list(dict.fromkeys(terms_of(text)))
    terms = [term for term in terms if term not in named] or terms
    found = [_term(columns, postings, term, group_lengths) for term in terms[:TERMS_MAX]]
    return sorted(found, key=lambda term: -term.rarity)


def _term(columns: Columns, postings: Postings, term: str, group_lengths: Floats) -> Term:
    posting = postings.posting(term)
    if len(posting.rows) != postings.units_with(term):
        here = columns.alive[posting.rows]
        posting = Posting(posting.rows[here], posting.counts[here])
    counts = posting.counts * columns.said[posting.rows]
    groups = columns.group[posting.rows]
    by_group = np.bincount(groups, weights=counts, minlength=len(group_lengths)).astype(np.float32)
    having, of = np.count_nonzero(by_group), np.count_nonzero(group_lengths)
    return Term(posting, postings.rarity(term), float(np.log(1 + (of - having + 0.5) / (having + 0.5))), by_group)


def by_words(
    columns: Columns, terms: Sequence[Term], may: NDArray[np.bool_], length_mean: float, *, at_most: int
) -> Rows:
    """Return the units that match the terms best, considering their neighbours."""
    scores = np.zeros(len(columns.sequences), np.float32)
    common = max(COMMON_MIN, COMMON_SHARE * columns.used)
    there = [term for term in terms if len(term.posting.rows)]
    rare = [term for term in there if len(term.posting.rows) <= common] or there[:1]
    touched = np.zeros(len(scores), np.bool_)
    for term in rare:
        rows = term.posting.rows
        scores[rows] += np.float32(term.rarity) * bm25(term.posting.counts, columns.length[rows], length_mean)
        next_ones = columns.after[rows]
        for beside in (rows, next_ones, columns.after[next_ones], columns.before[rows]):
            touched[beside] = True
    touched &= may
    rows = np.flatnonzero(touched).astype(np.int32)
    with_neighbours = scores[rows] + AROUND * (
        scores[columns.before[rows]] + scores[columns.before[columns.before[rows]]] + scores[columns.after[rows]]
    )
    return _best(rows, with_neighbours, at_most)


def by_meaning(
    columns: Columns, vector: Floats, may: NDArray[np.bool_], nearest: Nearest | None, *, at_most: int
) -> Rows:
    """Return the units nearest in meaning, whatever their distance, and the neighbours of the nearest ones."""
    may = may & columns.has_vector
    count = int(np.count_nonzero(may))
    if nearest is None or columns.used <= EXACT_MAX or count <= EXACT_AMONG_MAX:
        rows, similarities = _exact(columns, vector, may, count)
    else:
        allowed = None if count == np.count_nonzero(columns.alive) else columns.sequences[np.flatnonzero(may)]
        rows, similarities = _search_index(columns, vector, may, nearest, allowed, at_most)
    rows = _best(rows, similarities, at_most)
    beside = np.concatenate([columns.after[rows[:BESIDE_MAX]], columns.before[rows[:BESIDE_MAX]]])
    beside = beside[beside != NONE]
    return np.concatenate([rows, beside[may[beside]]])


def _exact(columns: Columns, vector: Floats, may: NDArray[np.bool_], count: int) -> tuple[Rows, Floats]:
    rows = np.flatnonzero(may).astype(np.int32)
    if GATHERED_SHARE_MAX * columns.used < count:
        return rows, np.vecdot(columns.vectors[: columns.used], vector)[rows]
    return rows, np.vecdot(columns.vectors[rows], vector)


def _search_index(
    columns: Columns,
    vector: Floats,
    may: NDArray[np.bool_],
    nearest: Nearest,
    allowed: NDArray[np.int64] | None,
    at_most: int,
) -> tuple[Rows, Floats]:
    """Return the results of the vector index that still exist and are allowed."""
    sequences, similarities = nearest.search(vector, at_most, allowed)
    by_sequence = np.argsort(sequences)
    sequences, similarities = sequences[by_sequence], similarities[by_sequence]
    here = np.isin(sequences, columns.sequences[: columns.used][may[: columns.used]])
    return columns.rows_of(sequences[here]), similarities[here]


def _best(rows: Rows, scores: Floats, count: int) -> Rows:
    """Return the rows with the highest scores, the highest first; of equals the older one."""
    if len(rows) > count:
        among = np.argpartition(-scores, count - 1)[:count]
        rows, scores = rows[among], scores[among]
    return rows[np.lexsort((rows, -scores))]
