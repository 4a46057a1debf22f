"""A bank: one owner's memory in RAM, to which units are added and in which they are found.

A bank does no I/O and knows no clock. It is for one caller at a time: who shares it between threads holds a lock.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from runtime.memory.recall.asking import FOUND_MAX, Entry, Found, Nearest, Question, date_of, sequences_of
from runtime.memory.recall.columns import NONE, Columns, seconds_of
from runtime.memory.recall.cues import cues_of_question, cues_of_unit
from runtime.memory.recall.finding import BY_MEANING_MAX, BY_WORDS_MAX, asked_terms, by_meaning, by_words
from runtime.memory.recall.postings import Floats, Postings, Rows
from runtime.memory.recall.signals import Term, Usual, around, like_signals, meaning_signals, usual_of, words_signals
from runtime.memory.recall.weights import Ranker, Weights, set_of, shipped_weights
from runtime.memory.recall.wordings import Wordings
from runtime.memory.recall.words import plain_words, terms_in, terms_of

REMOVED_SHARE_MAX = 0.3  # of the rows, before the bank is packed
SIMILARITIES_MAX = 1_000  # that say what is usual; more say nothing new
WIDER = 8  # times as many candidates, where too many of them say the same


class Looked(Struct, frozen=True):
    """The candidates of a question: their rows and sequences, every signal of each, and what ranks them.

    `may` are the rows that may be found; `is_cut`: some of them that answer too are not among the candidates.
    """

    rows: Rows
    sequences: NDArray[np.int64]
    signals: dict[str, Floats]
    ranker: Ranker
    may: NDArray[np.bool_]
    is_cut: bool


class Ranked(Struct, frozen=True):
    """The places of the best candidates, each saying something else; and of all candidates the score, what time left
    of it, and the shares of the signals in it.
    """

    best: NDArray[np.intp]
    scores: NDArray[np.float64]
    kept: NDArray[np.float64]
    shares: dict[str, Floats]


class Bank:
    """One owner's units. `embedder` is the name of what its vectors come from, and chooses the weights."""

    def __init__(self, embedder: str = "", weights: Weights | None = None) -> None:
        self.embedder = embedder
        self._weights = weights if weights is not None else shipped_weights()
        self._columns = Columns()
        self._postings = Postings()
        self._wordings = Wordings(self._columns)
        self._groups: dict[str, int] = {}
        self._last: dict[int, int] = {}  # by group, the row of what was said last
        self._group_lengths = np.zeros(64, np.float32)
        self._sources: dict[str, int] = {}
        self._named: dict[str, set[int]] = {}  # sources by the word they are called by
        self._units_by: Counter[int] = Counter()  # how many units a source has
        self._terms_alive = 0.0
        self._removed = 0

    def __len__(self) -> int:
        return self._postings.units

    def __contains__(self, sequence: int) -> bool:
        return len(self._columns.rows_of(np.array([sequence], np.int64))) == 1

    @property
    def vectors(self) -> int:
        """How many units have a vector."""
        return int(np.count_nonzero(self._columns.has_vector))

    @property
    def last_sequence(self) -> int:
        """The latest sequence ever added that the bank still has a row of, 0 for none."""
        columns = self._columns
        return int(columns.sequences[columns.used - 1]) if columns.used else 0

    def without_vector(self) -> NDArray[np.int64]:
        """The sequences of the units that have no vector yet, the oldest first."""
        columns, used = self._columns, self._columns.used
        return columns.sequences[:used][columns.alive[:used] & ~columns.has_vector[:used]].copy()

    def add(self, entries: Iterable[Entry]) -> None:
        """Takes units in, in the order of their sequences, each above all before. Raises ValueError on others."""
        for entry in entries:
            if entry.sequence <= self.last_sequence:
                raise ValueError(f"unit {entry.sequence} is not newer than unit {self.last_sequence}; add in order")
            self._add(entry)

    def _add(self, entry: Entry) -> None:
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
        if entry.duplicate_of is not None:
            self.link_duplicate(entry.sequence, entry.duplicate_of)
        self._postings.add(row, terms)
        self._terms_alive += len(terms)
        if said:
            self._last[group] = row
            self._group_lengths[group] += len(terms)

    def link_duplicate(self, sequence: int, earlier: int) -> None:
        """A unit says the same as an earlier one: the better of them is found, not both. Passed over where one of
        them is not there.
        """
        row, original = self._row_of(sequence), self._row_of(earlier)
        if NONE not in (row, original):
            self._wordings.link(row, original)

    def place_under(self, parent: int | None, children: Iterable[int]) -> None:
        """Units are told in a summary from now on (None: in none). Units that are not there are passed over."""
        rows = self._columns.rows_of(sequences_of(list(children)))
        self._columns.parent[rows] = NONE if parent is None else self._row_of(parent)

    def pin(self, sequence: int, *, is_pinned: bool) -> None:
        """A unit does not fade with time, or does again. One that is not there is passed over."""
        self._columns.pinned[self._columns.rows_of(np.array([sequence], np.int64))] = is_pinned

    def set_vectors(self, sequences: NDArray[np.int64], vectors: Floats) -> None:
        """Vectors of units, of length 1 each. Units that are not there are passed over.

        Raises ValueError if the vectors are of another dimension than those that are there.
        """
        here = np.isin(sequences, self._columns.sequences[: self._columns.used][self._alive()])
        self._columns.place_vectors(
            self._columns.rows_of(sequences[here]), vectors[here].astype(np.float32, copy=False)
        )

    def change_embedder(self, embedder: str) -> None:
        """Vectors come from another embedder from now on: those that are there are dropped."""
        self.embedder = embedder
        self._columns.clear_vectors()

    def remove(self, sequences: Collection[int]) -> None:
        """Drops units: those before and after are neighbours now. Units that are not there are passed over."""
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
        """A source said one unit less; one that said nothing is not asked about."""
        self._units_by[source] -= 1
        if self._units_by[source]:
            return
        for word in [word for word, sources in self._named.items() if source in sources]:
            self._named[word].discard(source)
            if not self._named[word]:
                del self._named[word]

    def nearness(self, sequences: NDArray[np.int64], questions: Collection[Floats]) -> NDArray[np.float64]:
        """How near each unit is to the question it is nearest to, from 0 to 1; 0 for one without a vector or not there.

        Questions of another dimension than the bank's vectors are passed over.
        """
        columns = self._columns
        near = np.zeros(len(sequences))
        here = np.flatnonzero(np.isin(sequences, columns.sequences[: columns.used][self._alive()]))
        rows = columns.rows_of(sequences[here])
        for question in questions:
            if question.shape == columns.vectors.shape[1:]:
                near[here] = np.maximum(near[here], np.vecdot(columns.vectors[rows], question))
        return np.clip(near, 0.0, 1.0)

    def search(self, question: Question, nearest: Nearest | None = None) -> list[Found]:
        """The units that answer to a question best, the best first; of units that say the same only the best.

        These are k units where there are so many. By meaning alone all that have a vector may be, however far they are;
        by words alone those that share a word, or stand beside one that does; by both, all. Only `min_score` leaves out
        more.

        `nearest` finds by meaning where the bank has more vectors than are looked at one by one. Raises ValueError if
        the question's vector is of another dimension than the bank's.
        """
        widened = 1
        while question.k > 0:
            looked = self.look(question, nearest, widened)
            if looked is None:
                break
            ranked = self._ranked(question, looked)
            if len(ranked.best) == min(question.k, FOUND_MAX) or not looked.is_cut:
                return self._found(question, looked, ranked)
            widened *= WIDER
        return []

    def look(self, question: Question, nearest: Nearest | None = None, widened: int = 1) -> Looked | None:
        """The candidates of a question and what speaks for each; None where there are none.

        `widened` times as many are looked at as usual.
        """
        columns = self._columns
        vector = self._vector_of(question)
        terms = self._terms_of(question)
        is_filled = question.vector is not None and bool(question.text) and question.strategy == "hybrid"
        if not len(self) or (not terms and vector is None and not is_filled):
            return None
        may = self._allowed(question)
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
            rows = _filled_up(rows, may, question.k * widened)
            is_cut = len(rows) < int(np.count_nonzero(may))
        if not len(rows):
            return None
        signals = self._signals(question, rows, terms, vector, length_mean, ranker.usual)
        return Looked(rows, columns.sequences[rows], signals, ranker, may, is_cut)

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
        return asked_terms(self._columns, self._postings, question.text, self._named, self._lengths_of_groups())

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
        asked = frozenset(source for word in words for source in self._named.get(word, ()))
        signals = like_signals(columns, near, cues_of_question(question.text), asked)
        if terms:
            lengths = self._lengths_of_groups()
            signals |= words_signals(columns, near, terms, length_mean=length_mean, group_lengths=lengths)
        if vector is not None:
            signals |= meaning_signals(columns, near, vector, self._usual(vector, of_embedder))
        return signals

    def _usual(self, vector: Floats, of_embedder: Usual | None) -> Usual:
        """What similarities are usual between this question and the memory, by a sample of its vectors."""
        with_vector = np.flatnonzero(self._columns.has_vector)
        sample = with_vector[:: max(1, len(with_vector) // SIMILARITIES_MAX)]
        return usual_of(np.vecdot(self._columns.vectors[sample], vector), of_embedder)

    def _scored(self, looked: Looked) -> tuple[NDArray[np.float64], dict[str, Floats]]:
        """Each candidate's score, and the share of each signal in it. Without a known meaning words alone judge."""
        shares = looked.ranker.shares(looked.signals)
        scores = looked.ranker.scores(shares)
        if "meaning" not in looked.signals or "words" not in looked.signals:
            return scores, shares
        meant = ~np.isnan(looked.signals["meaning"])
        if meant.all():
            return scores, shares
        by_words = self._weights.lexical.shares(looked.signals)
        nothing = np.zeros(len(meant), np.float32)
        mixed = {name: np.where(meant, share, by_words.get(name, nothing)) for name, share in shares.items()}
        return np.where(meant, scores, self._weights.lexical.scores(by_words)), mixed

    def _ranked(self, question: Question, looked: Looked) -> Ranked:
        columns, rows = self._columns, looked.rows
        scores, shares = self._scored(looked)
        kept = self._kept(question, rows)
        faded = scores * kept
        order = np.lexsort((columns.sequences[rows], -faded))
        best = self._wordings.distinct(rows, order, min(question.k, FOUND_MAX))
        return Ranked(best, faded, kept, shares)

    def _found(self, question: Question, looked: Looked, ranked: Ranked) -> list[Found]:
        best = ranked.best
        if question.min_score is not None:
            best = best[ranked.scores[best] >= question.min_score]
        found = []
        for at, same in zip(best.tolist(), self._wordings.same(looked.rows[best], looked.may), strict=True):
            signals = {name: float(share[at]) for name, share in ranked.shares.items()} if question.explain else {}
            if question.explain and question.decay is not None:
                signals["faded"] = float(ranked.kept[at])
            found.append(Found(int(looked.sequences[at]), float(ranked.scores[at]), signals, same))
        return found

    def _kept(self, question: Question, rows: Rows) -> NDArray[np.float64]:
        """What time leaves of each unit's score. One of no known age does not fade."""
        if question.decay is None or question.now is None:
            return np.ones(len(rows))
        age_s = np.maximum(np.nan_to_num(seconds_of(question.now) - self._columns.created[rows], nan=0.0), 0.0)
        kept = np.maximum(question.decay.floor, 0.5 ** (age_s / question.decay.half_life_s))
        return np.where(self._columns.pinned[rows], 1.0, kept)

    def _allowed(self, question: Question) -> NDArray[np.bool_]:
        """Which rows may be found. The place of -1 never may."""
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
        """Drops the rows of removed units."""
        rows = np.flatnonzero(self._alive()).astype(np.int32)
        new = np.full(self._columns.used + 1, NONE, np.int32)
        new[rows] = np.arange(len(rows), dtype=np.int32)
        self._last = {group: int(new[row]) for group, row in self._last.items() if row != NONE}
        self._columns.keep(rows)
        self._postings.keep(rows)
        self._removed = 0


def _filled_up(rows: Rows, may: NDArray[np.bool_], count: int) -> Rows:
    """Candidates with the newest units besides, up to a count: units that say no word asked for and have no vector."""
    if len(rows) >= count:
        return rows
    rest = np.setdiff1d(np.flatnonzero(may).astype(np.int32), rows)
    filled: Rows = np.union1d(rows, rest[len(rest) - min(count - len(rows), len(rest)) :]).astype(np.int32)
    return filled
