"""What speaks for a unit as an answer: named signals, each a number that does not depend on how large the bank is.

A signal is NaN where there is nothing to tell it from: the meaning of a unit without a vector, or of the one before the
first of a group, the summary of one that is told in none. It then speaks neither for the unit nor against it.

`words…` are BM25 shares: 1 is more than any unit can have. `…pair` is of a unit with the one before it, `…window` with
two before it and the one after; where one of these is missing, the length expected of the rest is shorter. They are
counted from the units' own terms, so that no second index has to be kept.

`meaning…` are cosine similarities in standard deviations from what is usual between the question and this memory
(`Usual`). Embedders differ in both: similarities of one lie at 0.2 ± 0.15, of another at 0.82 ± 0.014.
"""

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from runtime.memory.recall.columns import CUES, NONE, Columns
from runtime.memory.recall.cues import QuestionCues
from runtime.memory.recall.postings import Floats, Posting, Rows

K1 = 1.2  # how soon a term said again adds little
B = 0.75  # how much a long unit has to say a term more often
ANCESTORS_MAX = 4  # summaries above a unit that speak for it

WORDS = (
    "words",
    "words_pair",
    "words_window",
    "covered",
    "window_covered",
    "group_words",
    "summary_words",
)
MEANING = (
    "meaning",
    "meaning_before",
    "meaning_before_that",
    "meaning_after",
    "summary_meaning",
)
LIKE = (
    "length",
    "is_question",
    "follows_question",
    "of_self",
    "to_other",
    "has_attachment",
)
SUMMARY = ("summary_words", "summary_meaning")
ASKED = (
    "asked_source",
    "asked_time",
    "asked_number",
    "asked_name",
)
SIGNALS = (*WORDS, *MEANING, *LIKE, *ASKED)
_CUE = {name: at for at, name in enumerate(CUES)}


SIMILARITIES_MIN = 32  # as many as this, what is usual for the embedder counts beside a memory's own similarities
DEVIATION_MIN = 1e-4  # similarities that are all the same differ by rounding alone


class Usual(Struct, frozen=True):
    """The mean and standard deviation of the similarities between questions and units."""

    mean: float
    deviation: float

    def standardized(self, similarities: Floats) -> Floats:
        """Similarities in standard deviations from the mean; NaN where there is none, as of a single unit."""
        if not self.deviation:
            return np.full(similarities.shape, np.nan, np.float32)
        standard: Floats = (similarities - np.float32(self.mean)) / np.float32(self.deviation)
        return standard


def usual_of(similarities: Floats, of_embedder: Usual | None) -> Usual:
    """What is usual for a question, by its similarities to units of the memory.

    What is known of the embedder counts like `SIMILARITIES_MIN` units more, since few units say little.
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
    """A term of a question, where it stands, and how rare it is."""

    posting: Posting
    rarity: float
    group_rarity: float
    group_counts: Floats  # how often each group has it


class Neighbours(Struct, frozen=True):
    """Candidates and who stands around each; -1 where nobody does."""

    rows: Rows
    before: Rows
    before_that: Rows
    after: Rows


def around(columns: Columns, rows: Rows) -> Neighbours:
    """The neighbours of candidates in their groups."""
    before = columns.before[rows]
    return Neighbours(rows, before, columns.before[before], columns.after[rows])


def bm25(counts: Floats, lengths: Floats, length_mean: float | Floats) -> Floats:
    """How much a term speaks for units that have it so often, of at most K1 + 1."""
    expected: Floats = np.float32(K1 * (1 - B)) + np.float32(K1 * B) * (lengths / np.float32(length_mean))
    score: Floats = counts * np.float32(K1 + 1) / (counts + expected)
    return score


def words_signals(
    columns: Columns, near: Neighbours, terms: Sequence[Term], *, length_mean: float, group_lengths: Floats
) -> dict[str, Floats]:
    """How well candidates and those around them answer to the question's terms."""
    zeros = np.zeros(len(near.rows), np.float32)
    sums = {name: zeros.copy() for name in WORDS}
    lengths = [columns.length[rows] for rows in (near.rows, near.before, near.before_that, near.after)]
    pair_length = lengths[0] + lengths[1]
    window_length = pair_length + lengths[2] + lengths[3]
    there = [(rows != NONE).astype(np.float32) for rows in (near.before, near.before_that, near.after)]
    pair_mean = np.float32(length_mean) * (1 + there[0])
    window_mean = pair_mean + np.float32(length_mean) * (there[1] + there[2])
    above = _ancestors(columns, near.rows)
    groups = columns.group[near.rows]
    scratch = np.zeros(len(columns.sequences), np.float32)
    for term in terms:
        scratch[term.posting.rows] = term.posting.counts
        own, before, before_that, after = (
            scratch[rows] for rows in (near.rows, near.before, near.before_that, near.after)
        )
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
    """How near candidates and those around them are in meaning, in standard deviations above the mean similarity.

    NaN where there is no such unit, or it has no vector; all are NaN for a candidate that has none itself.
    """

    def nearness(rows: Rows) -> Floats:
        standard = usual.standardized(np.vecdot(columns.vectors[rows], question))
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


def _ancestors(columns: Columns, rows: Rows) -> list[Rows]:
    """The summaries above candidates, level by level."""
    levels: list[Rows] = []
    above = columns.parent[rows]
    while len(levels) < ANCESTORS_MAX and (above != NONE).any():
        levels.append(above)
        above = columns.parent[above]
    return levels


def like_signals(
    columns: Columns, near: Neighbours, asked: QuestionCues, asked_sources: frozenset[int]
) -> dict[str, Floats]:
    """What candidates are like, and whether they are of the kind, and by the one, that is asked about."""
    cues = columns.cues[near.rows]
    signals = {name: cues[:, _CUE[name]] for name in LIKE if name in _CUE}
    follows = columns.cues[near.before, _CUE["is_question"]]
    signals["follows_question"] = np.where(near.before == NONE, np.float32(np.nan), follows)
    by_asked = np.zeros(len(near.rows), np.float32)
    if len(asked_sources) == 1:
        by_asked[columns.source[near.rows] == min(asked_sources)] = 1
    signals["asked_source"] = by_asked
    signals["asked_time"] = cues[:, _CUE["tells_time"]] * np.float32(asked.when)
    signals["asked_number"] = cues[:, _CUE["tells_number"]] * np.float32(asked.how_many)
    signals["asked_name"] = cues[:, _CUE["tells_name"]] * np.float32(asked.who)
    return signals
