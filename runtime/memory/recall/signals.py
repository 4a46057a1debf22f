"""The signals that a unit answers a query: named numbers that do not depend on the size of the index.

A signal is NaN if it is undefined: the similarity of a unit without a vector, or of the unit before the first of a
group, the summary of a unit without one. It then counts neither for the unit nor against it.

`words…` are BM25 shares: 1 is more than any unit can have. `…pair` is of a unit with the one before it, `…window` with
the two before it and the one after; if one of these is missing, the expected length of the rest is shorter. They are
computed from the units' own terms, so that no second index is needed.

`meaning…` are cosine similarities in standard deviations from the mean between the query and this memory (`Usual`).
Embedders differ in both: similarities of one lie at 0.2 ± 0.15, of another at 0.82 ± 0.014.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from runtime.memory.recall.columns import CUES, NONE, Columns
from runtime.memory.recall.features import QuestionCues
from runtime.memory.recall.inverted_index import Floats, Posting, Rows

K1 = 1.2  # how soon a repeated term adds little
B = 0.75  # how strongly a longer unit must repeat a term
ANCESTORS_MAX = 4  # summaries above a unit that count for it

WORDS = ("words", "words_pair", "words_window", "covered", "window_covered", "group_words", "summary_words")
MEANING = ("meaning", "meaning_before", "meaning_before_that", "meaning_after", "summary_meaning")
LIKE = ("length", "is_question", "follows_question", "of_self", "to_other", "has_attachment")
SUMMARY = ("summary_words", "summary_meaning")
ASKED = ("asked_source", "asked_time", "asked_number", "asked_name")
SIGNALS = (*WORDS, *MEANING, *LIKE, *ASKED)
_CUE = {name: at for at, name in enumerate(CUES)}


SIMILARITIES_MIN = 32  # the weight of the embedder's usual similarities, in similarities of the memory
DEVIATION_MIN = 1e-4  # equal similarities differ by rounding errors


class Usual(Struct, frozen=True):
    """The mean and standard deviation of the similarities between queries and units."""

    mean: float
    deviation: float

    def standardize(self, similarities: Floats) -> Floats:
        """Return similarities in standard deviations from the mean; NaN without a deviation, as for a single unit."""
        if not self.deviation:
            return np.full(similarities.shape, np.nan, np.float32)
        standard: Floats = (similarities - np.float32(self.mean)) / np.float32(self.deviation)
        return standard


def usual_of(similarities: Floats, of_embedder: Usual | None) -> Usual:
    """Return the mean and deviation for a query, by its similarities to units of the memory.

    The known values of the embedder count like `SIMILARITIES_MIN` more units, because few units are a small sample.
    """
    count, mean, square = len(similarities), 0.0, 0.0
    if count:
        mean, square = float(similarities.mean()), float(np.square(similarities, dtype=np.float64).mean())
    if of_embedder is not None:
        share = SIMILARITIES_MIN / (SIMILARITIES_MIN + count)
        mean += share * (of_embedder.mean - mean)
        square += share * (of_embedder.mean**2 + of_embedder.deviation**2 - square)
    if count < 2 and of_embedder is None:
        return Usual(mean, 0.0)
    return Usual(mean, max(math.sqrt(max(square - mean**2, 0.0)), DEVIATION_MIN))


class Term(Struct, frozen=True):
    """A term of a query, its posting, and its rarity."""

    posting: Posting
    rarity: float
    group_rarity: float
    group_counts: Floats  # number of occurrences in each group


class Neighbours(Struct, frozen=True):
    """Candidates and the neighbours of each; -1 for none."""

    rows: Rows
    before: Rows
    before_that: Rows
    after: Rows


def around(columns: Columns, rows: Rows) -> Neighbours:
    """Return the neighbours of candidates in their groups."""
    before = columns.before[rows]
    return Neighbours(rows, before, columns.before[before], columns.after[rows])


def bm25(counts: Floats, lengths: Floats, length_mean: float | Floats) -> Floats:
    """Return the BM25 score of a term, at most K1 + 1, for units that contain it `counts` times."""
    expected: Floats = np.float32(K1 * (1 - B)) + np.float32(K1 * B) * (lengths / np.float32(length_mean))
    score: Floats = counts * np.float32(K1 + 1) / (counts + expected)
    return score


def words_signals(
    columns: Columns, near: Neighbours, terms: Sequence[Term], *, length_mean: float, group_lengths: Floats
) -> dict[str, Floats]:
    """Return how well candidates and their neighbours match the query's terms."""
    zeros = np.zeros(len(near.rows), np.float32)
    sums = {name: zeros.copy() for name in WORDS}
    places = (near.rows, near.before, near.before_that, near.after)
    lengths = [columns.length[rows] for rows in places]
    pair_length = lengths[0] + lengths[1]
    window_length = pair_length + lengths[2] + lengths[3]
    there = [(rows != NONE).astype(np.float32) for rows in places[1:]]
    pair_mean = np.float32(length_mean) * (1 + there[0])
    window_mean = pair_mean + np.float32(length_mean) * (there[1] + there[2])
    above = _ancestors(columns, near.rows)
    groups = columns.group[near.rows]
    scratch = np.zeros(len(columns.sequences), np.float32)
    for term in terms:
        scratch[term.posting.rows] = term.posting.counts
        own, before, before_that, after = (scratch[rows] for rows in places)
        pair, window = own + before, own + before + before_that + after
        weight = np.float32(term.rarity)
        sums["words"] += weight * bm25(own, lengths[0], length_mean)
        sums["words_pair"] += weight * bm25(pair, pair_length, pair_mean)
        sums["words_window"] += weight * bm25(window, window_length, window_mean)
        sums["covered"] += weight * (own > 0)
        sums["window_covered"] += weight * (window > 0)
        for rows in above:
            sums["summary_words"] += weight * bm25(scratch[rows], columns.length[rows], length_mean)
        group_mean = float(group_lengths.sum() / max(np.count_nonzero(group_lengths), 1))
        by_group = bm25(term.group_counts, group_lengths, max(group_mean, 1.0))
        sums["group_words"] += np.float32(term.group_rarity) * by_group[groups]
        scratch[term.posting.rows] = 0
    shares = _as_shares(sums, terms)
    shares["summary_words"][columns.parent[near.rows] == NONE] = np.nan
    return shares


def _as_shares(sums: dict[str, Floats], terms: Sequence[Term]) -> dict[str, Floats]:
    rarity = max(sum(term.rarity for term in terms), 1e-6)
    whole = dict.fromkeys(WORDS, rarity * (K1 + 1))
    whole["covered"] = whole["window_covered"] = rarity
    whole["group_words"] = max(sum(term.group_rarity for term in terms), 1e-6) * (K1 + 1)
    return {name: total / np.float32(whole[name]) for name, total in sums.items()}


def meaning_signals(columns: Columns, near: Neighbours, question: Floats, usual: Usual) -> dict[str, Floats]:
    """Return the similarities of candidates and their neighbours, in standard deviations above the mean similarity.

    NaN if there is no such unit, or it has no vector; all are NaN for a candidate without a vector.
    """

    def nearness(rows: Rows) -> Floats:
        standard = usual.standardize(np.vecdot(columns.vectors[rows], question))
        standard[~columns.has_vector[rows]] = np.nan
        return standard

    above = np.full(len(near.rows), np.nan, np.float32)
    for rows in _ancestors(columns, near.rows):
        above = np.fmax(above, nearness(rows))
    signals = {
        "meaning": nearness(near.rows),
        "meaning_before": nearness(near.before),
        "meaning_before_that": nearness(near.before_that),
        "meaning_after": nearness(near.after),
        "summary_meaning": above,
    }
    unknown = ~columns.has_vector[near.rows]
    for values in signals.values():
        values[unknown] = np.nan
    return signals


def even_summaries(signals: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the signals of summaries with the mean of the other candidates for those that no summary covers: an absent
    one would count against them where a summary fits the query, and the newest units have none yet.
    """
    even: dict[str, Floats] = {}
    for name in SUMMARY:
        values = signals.get(name)
        if values is not None and not np.isnan(values).all():
            even[name] = np.where(np.isnan(values), np.nanmean(values), values).astype(np.float32)
    return even


def _ancestors(columns: Columns, rows: Rows) -> list[Rows]:
    """Return the summaries above candidates, level by level."""
    levels: list[Rows] = []
    above = columns.parent[rows]
    while len(levels) < ANCESTORS_MAX and (above != NONE).any():
        levels.append(above)
        above = columns.parent[above]
    return levels


def like_signals(
    columns: Columns, near: Neighbours, question_cues: QuestionCues, asked_sources: frozenset[int]
) -> dict[str, Floats]:
    """Return the properties of candidates, and whether they match the kind and speaker that the query asks for."""
    cues = columns.cues[near.rows]
    signals = {name: cues[:, _CUE[name]] for name in LIKE if name in _CUE}
    follows = columns.cues[near.before, _CUE["is_question"]]
    signals["follows_question"] = np.where(near.before == NONE, np.float32(np.nan), follows)
    by_asked = np.zeros(len(near.rows), np.float32)
    if len(asked_sources) == 1:
        by_asked[columns.source[near.rows] == min(asked_sources)] = 1
    signals["asked_source"] = by_asked
    signals["asked_time"] = cues[:, _CUE["tells_time"]] * np.float32(question_cues.when)
    signals["asked_number"] = cues[:, _CUE["tells_number"]] * np.float32(question_cues.how_many)
    signals["asked_name"] = cues[:, _CUE["tells_name"]] * np.float32(question_cues.who)
    return signals
