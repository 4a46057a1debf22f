"""The memory index: one owner's units in RAM, which can be added and searched.

It does no I/O and reads no clock. It is not thread-safe: callers that share it between threads must lock it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from runtime.memory.recall.candidates import BY_MEANING_MAX, BY_WORDS_MAX, by_meaning, by_words, query_terms
from runtime.memory.recall.columns import NONE, Columns, Wordings, seconds_of
from runtime.memory.recall.features import cues_of_question, cues_of_unit
from runtime.memory.recall.inverted_index import Floats, Postings, Rows
from runtime.memory.recall.query import FOUND_MAX, IndexEntry, IndexHit, Nearest, Question, date_of, sequences_of
from runtime.memory.recall.ranking import Ranker, Weights, set_of, shipped_weights
from runtime.memory.recall.signals import (
    Term,
    Usual,
    around,
    even_summaries,
    like_signals,
    meaning_signals,
    usual_of,
    words_signals,
)
from runtime.memory.recall.terms import plain_words, terms_in, terms_of

REMOVED_SHARE_MAX = 0.3  # of the rows, before the index is compacted
SIMILARITIES_MAX = 1_000  # in the sample for the mean similarity; more do not improve it
WIDER = 8  # the factor by which candidates increase if too many of them are duplicates


class SearchHits(Struct, frozen=True):
    """The candidates of a query: their rows and sequences, all signals of each, and their ranker.

    `may` are the rows that may be returned; `is_cut`: some matching rows are not among the candidates.
    """

    rows: Rows
    sequences: NDArray[np.int64]
    signals: dict[str, Floats]
    ranker: Ranker
    may: NDArray[np.bool_]
    is_cut: bool


class Ranking(Struct, frozen=True):
    """The indices of the best candidates without duplicates; and for all candidates the score, its decay factor, and
    the shares of the signals in it.
    """

    best: NDArray[np.intp]
    scores: NDArray[np.float64]
    decay_factors: NDArray[np.float64]
    shares: dict[str, Floats]


class MemoryIndex:
    """One owner's units. `embedder` is the name of the source of its vectors, and selects the weights."""

    def __init__(self, embedder: str = "", weights: Weights | None = None) -> None:
        self.embedder = embedder
        self._weights = weights if weights is not None else shipped_weights()
        self._columns = Columns()
        self._postings = Postings()
        self._wordings = Wordings(self._columns)
        self._groups: dict[str, int] = {}
        self._last: dict[int, int] = {}  # by group, the row of the last message
        self._group_lengths = np.zeros(64, np.float32)
        self._sources: dict[str, int] = {}
        self._named: dict[str, set[int]] = {}  # sources by the first word of their name
        self._units_by: Counter[int] = Counter()  # number of units by source
        self._terms_alive = 0.0
        self._removed = 0

    def __len__(self) -> int:
        return self._postings.units

    def __contains__(self, sequence: int) -> bool:
        return len(self._columns.rows_of(np.array([sequence], np.int64))) == 1

    @property
    def vectors(self) -> int:
        """Return how many units have a vector."""
        return int(np.count_nonzero(self._columns.has_vector))

    @property
    def last_sequence(self) -> int:
        """Return the highest sequence that the index has a row of, 0 for none."""
        columns = self._columns
        return int(columns.sequences[columns.used - 1]) if columns.used else 0

    def labelled_vectors(self) -> tuple[NDArray[np.int64], Floats]:
        """Return the sequences of the units with a vector, the oldest first, and their vectors."""
        rows = np.flatnonzero(self._columns.has_vector)
        return self._columns.sequences[rows], self._columns.vectors[rows]

    def add(self, entries: Iterable[IndexEntry]) -> None:
        """Add units, in the order of their sequences. Raises ValueError for a sequence that is not the highest."""
        for entry in entries:
            if entry.sequence <= self.last_sequence:
                raise ValueError(f"unit {entry.sequence} is not newer than unit {self.last_sequence}; add in order")
            self._add(entry)

    def _add(self, entry: IndexEntry) -> None:
        group = self._groups.setdefault(entry.group, len(self._groups))
        if group >= len(self._group_lengths):
            self._group_lengths = np.concatenate([self._group_lengths, np.zeros(len(self._group_lengths), np.float32)])
        source_terms = terms_of(entry.source)
        source = self._sources.setdefault(entry.source, len(self._sources))
        self._units_by[source] += 1
        if source_terms:
            self._named.setdefault(source_terms[0], set()).add(source)
        words = plain_words(entry.content)
        date = terms_of(date_of(entry.created_at)) if entry.created_at is not None else []
        terms = [*date, *source_terms, *terms_in(words)]
        said = entry.rank == 0
        row = self._columns.append(
            entry,
            cues_of_unit(entry.content, words, has_attachment=entry.has_attachment),
            group=group,
            source=source,
            terms=len(terms),
            before=self._last.get(group, NONE) if said else NONE,
            parent=NONE if entry.parent is None else self._row_of(entry.parent),
        )
        self._wordings.add(row, entry, words)
        self._postings.add(row, terms)
        self._terms_alive += len(terms)
        if said:
            self._last[group] = row
            self._group_lengths[group] += len(terms)

    def link_duplicate(self, sequence: int, earlier: int) -> None:
        """Mark a unit as a duplicate of an earlier one, so that a search returns only the better one. Ignored if one of
        them does not exist.
        """
        row, original = self._row_of(sequence), self._row_of(earlier)
        if NONE not in (row, original):
            self._wordings.link(row, original)

    def place_under(self, parent: int | None, children: Iterable[int]) -> None:
        """Set the summary that covers units (None: none does). Units that do not exist are ignored."""
        rows = self._columns.rows_of(sequences_of(list(children)))
        self._columns.parent[rows] = NONE if parent is None else self._row_of(parent)

    def pin(self, sequence: int, *, is_pinned: bool) -> None:
        """Disable or enable the decay of a unit. A unit that does not exist is ignored."""
        self._columns.pinned[self._columns.rows_of(np.array([sequence], np.int64))] = is_pinned

    def set_vectors(self, sequences: NDArray[np.int64], vectors: Floats) -> None:
        """Set vectors of units, of length 1 each. Units that do not exist are ignored.

        Raises ValueError if the dimension differs from that of the existing vectors.
        """
        here = np.isin(sequences, self._columns.sequences[: self._columns.used][self._alive()])
        rows = self._columns.rows_of(sequences[here])
        self._columns.place_vectors(rows, vectors[here].astype(np.float32, copy=False))

    def remove(self, sequences: Collection[int]) -> None:
        """Delete units, and link the units before and after them. Units that do not exist are ignored."""
        columns = self._columns
        for row in columns.rows_of(sequences_of(list(sequences))).tolist():
            group = int(columns.group[row])
            if self._last.get(group) == row:
                self._last[group] = int(columns.before[row])
            columns.unlink(row)
            self._postings.remove(row)
            self._terms_alive -= float(columns.length[row])
            if columns.said[row]:
                self._group_lengths[group] -= columns.length[row]
            self._removed += 1
            self._forget_source(int(columns.source[row]))
            self._wordings.remove(row)
        if self._removed > REMOVED_SHARE_MAX * columns.used:
            self._pack()

    def _forget_source(self, source: int) -> None:
        """Decrease the number of units of a source; a source without units cannot be named in a query."""
        self._units_by[source] -= 1
        if self._units_by[source]:
            return
        for word in [word for word, sources in self._named.items() if source in sources]:
            self._named[word].discard(source)
            if not self._named[word]:
                del self._named[word]

    def nearness(self, sequences: NDArray[np.int64], questions: Collection[Floats]) -> NDArray[np.float64]:
        """Return each unit's highest similarity to the queries, from 0 to 1; 0 if it has no vector or does not exist.

        Queries of another dimension than the index's vectors are ignored.
        """
        columns = self._columns
        near = np.zeros(len(sequences))
        here = np.flatnonzero(np.isin(sequences, columns.sequences[: columns.used][self._alive()]))
        rows = columns.rows_of(sequences[here])
        for question in questions:
            if question.shape == columns.vectors.shape[1:]:
                near[here] = np.maximum(near[here], np.vecdot(columns.vectors[rows], question))
        return np.clip(near, 0.0, 1.0)

    def search(self, question: Question, nearest: Nearest | None = None) -> list[IndexHit]:
        """Return the units that match a query best, the best first, without duplicates.

        Returns k units if there are that many. By meaning alone, any unit with a vector may be returned, whatever its
        distance; by words alone, units that share a word, and their neighbours; by both, any unit. Only `min_score`
        excludes more.

        `nearest` searches by meaning if the index has more vectors than are compared one by one. Raises ValueError if
        the dimension of the query's vector differs from the index's.
        """
        widened = 1
        while question.k > 0:
            hits = self.look(question, nearest, widened)
            if hits is None:
                break
            ranked = self._rank(question, hits)
            if len(ranked.best) == min(question.k, FOUND_MAX) or not hits.is_cut:
                return self._hits(question, hits, ranked)
            widened *= WIDER
        return []

    def look(self, question: Question, nearest: Nearest | None = None, widened: int = 1) -> SearchHits | None:
        """Return the candidates of a query with their signals; None if there are none.

        `widened` is a factor for the number of candidates.
        """
        columns = self._columns
        vector = self._vector_of(question)
        terms = self._terms_of(question)
        is_filled = question.vector is not None and bool(question.text) and question.strategy == "hybrid"
        if not len(self) or (not terms and vector is None and not is_filled):
            return None
        may = self._allowed_rows(question)
        ranker = self._ranker(words=bool(terms), meaning=vector is not None)
        length_mean = max(self._terms_alive / len(self), 1.0)
        at_most = max(BY_WORDS_MAX, question.k) * widened
        rows = by_words(columns, terms, may, length_mean, at_most=at_most)
        is_cut = len(rows) == at_most
        if vector is not None:
            at_most = max(BY_MEANING_MAX, question.k) * widened
            near = by_meaning(columns, vector, may, nearest, at_most=at_most)
            is_cut = is_cut or at_most < int(np.count_nonzero(may & columns.has_vector))
            rows = np.union1d(rows, near).astype(np.int32)
        if is_filled:
            rows = _fill_up(rows, may, question.k * widened)
            is_cut = len(rows) < int(np.count_nonzero(may))
        if not len(rows):
            return None
        signals = self._signals(question, rows, terms, vector, length_mean, ranker.usual)
        return SearchHits(rows, columns.sequences[rows], signals, ranker, may, is_cut)

    def _vector_of(self, question: Question) -> Floats | None:
        vectors = self._columns.vectors
        if question.vector is None or question.strategy == "lexical" or not self._columns.has_vector.any():
            return None
        if question.vector.shape != (vectors.shape[1],):
            raise ValueError(f"the vectors here have {vectors.shape[1]} numbers, not {question.vector.shape[-1]}")
        return question.vector.astype(np.float32, copy=False)

    def _terms_of(self, question: Question) -> list[Term]:
        if question.strategy == "dense" or not question.text:
            return []
        return query_terms(self._columns, self._postings, question.text, self._named, self._lengths_of_groups())

    def _ranker(self, *, words: bool, meaning: bool) -> Ranker:
        if not meaning:
            return self._weights.lexical
        rankers = self._weights.hybrid if words else self._weights.dense
        return rankers[set_of(self.embedder, rankers)]

    def _signals(
        self,
        question: Question,
        rows: Rows,
        terms: Sequence[Term],
        vector: Floats | None,
        length_mean: float,
        of_embedder: Usual | None,
    ) -> dict[str, Floats]:
        columns, near = self._columns, around(self._columns, rows)
        words = terms_of(question.text)
        sources = frozenset(source for word in words for source in self._named.get(word, ()))
        signals = like_signals(columns, near, cues_of_question(question.text), sources)
        if terms:
            lengths = self._lengths_of_groups()
            signals |= words_signals(columns, near, terms, length_mean=length_mean, group_lengths=lengths)
        if vector is not None:
            signals |= meaning_signals(columns, near, vector, self._usual(vector, of_embedder))
        return signals | even_summaries(signals)

    def _usual(self, vector: Floats, of_embedder: Usual | None) -> Usual:
        """Return the mean and deviation of similarities between this query and a sample of the vectors."""
        with_vector = np.flatnonzero(self._columns.has_vector)
        sample = with_vector[:: max(1, len(with_vector) // SIMILARITIES_MAX)]
        return usual_of(np.vecdot(self._columns.vectors[sample], vector), of_embedder)

    def _score(self, hits: SearchHits) -> tuple[NDArray[np.float64], dict[str, Floats]]:
        """Return each candidate's score and signal shares. A unit without a vector is scored by words alone."""
        shares = hits.ranker.shares(hits.signals)
        scores = hits.ranker.scores(shares)
        if "meaning" not in hits.signals or "words" not in hits.signals:
            return scores, shares
        has_meaning = ~np.isnan(hits.signals["meaning"])
        if has_meaning.all():
            return scores, shares
        by_words = self._weights.lexical.shares(hits.signals)
        nothing = np.zeros(len(has_meaning), np.float32)
        mixed = {name: np.where(has_meaning, share, by_words.get(name, nothing)) for name, share in shares.items()}
        return np.where(has_meaning, scores, self._weights.lexical.scores(by_words)), mixed

    def _rank(self, question: Question, hits: SearchHits) -> Ranking:
        columns, rows = self._columns, hits.rows
        scores, shares = self._score(hits)
        decay_factors = self._decay_factors(question, rows)
        faded = scores * decay_factors
        order = np.lexsort((columns.sequences[rows], -faded))
        best = self._wordings.distinct(rows, order, min(question.k, FOUND_MAX))
        return Ranking(best, faded, decay_factors, shares)

    def _hits(self, question: Question, hits: SearchHits, ranked: Ranking) -> list[IndexHit]:
        best = ranked.best
        if question.min_score is not None:
            best = best[ranked.scores[best] >= question.min_score]
        found = []
        for at, same in zip(best.tolist(), self._wordings.same(hits.rows[best], hits.may), strict=True):
            signals = {name: float(share[at]) for name, share in ranked.shares.items()} if question.explain else {}
            if question.explain and question.decay is not None:
                signals["faded"] = float(ranked.decay_factors[at])
            found.append(IndexHit(int(hits.sequences[at]), float(ranked.scores[at]), signals, same))
        return found

    def _decay_factors(self, question: Question, rows: Rows) -> NDArray[np.float64]:
        """Return each unit's decay factor. A unit of unknown age does not decay."""
        if question.decay is None or question.now is None:
            return np.ones(len(rows))
        age_s = np.maximum(np.nan_to_num(seconds_of(question.now) - self._columns.created[rows], nan=0.0), 0.0)
        decay_factors = np.maximum(question.decay.floor, 0.5 ** (age_s / question.decay.half_life_s))
        return np.where(self._columns.pinned[rows], 1.0, decay_factors)

    def _allowed_rows(self, question: Question) -> NDArray[np.bool_]:
        """Return which rows may be returned. The element of row -1 is never set."""
        columns = self._columns
        may = columns.alive.copy()
        if question.allowed is not None:
            may[:] = False
            may[columns.rows_of(sequences_of(question.allowed))] = True
        if not question.with_fillers:
            may = self._wordings.without_fillers(may, len(self))
        if question.excluded:
            may[columns.rows_of(sequences_of(question.excluded))] = False
        return may

    def _lengths_of_groups(self) -> Floats:
        return self._group_lengths[: len(self._groups)]

    def _alive(self) -> NDArray[np.bool_]:
        return self._columns.alive[: self._columns.used]

    def _row_of(self, sequence: int) -> int:
        rows = self._columns.rows_of(np.array([sequence], np.int64))
        return int(rows[0]) if len(rows) else NONE

    def _pack(self) -> None:
        """Delete the rows of removed units."""
        rows = np.flatnonzero(self._alive()).astype(np.int32)
        new = np.full(self._columns.used + 1, NONE, np.int32)
        new[rows] = np.arange(len(rows), dtype=np.int32)
        self._last = {group: int(new[row]) for group, row in self._last.items() if row != NONE}
        self._columns.keep(rows)
        self._postings.keep(rows)
        self._removed = 0


def _fill_up(rows: Rows, may: NDArray[np.bool_], count: int) -> Rows:
    """Return candidates and the newest other units, up to a count: units without a matching word and a vector."""
    if len(rows) >= count:
        return rows
    rest = np.setdiff1d(np.flatnonzero(may).astype(np.int32), rows)
    filled: Rows = np.union1d(rows, rest[len(rest) - min(count - len(rows), len(rest)) :]).astype(np.int32)
    return filled
