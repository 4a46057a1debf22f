"""Whatever is done to an index, in whatever order, it holds what the rows hold and finds what looking at all finds."""

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from store.vectors.index import VectorIndex
from store.vectors.matrix import Floats, Labels, unit_rows
from tests.support.effort import repeats

EMBEDDER, DIMENSION = "words@1", 6


class Index(RuleBasedStateMachine):
    """An index over a handful of rows, whose graph begins with six, beside a dictionary of the same rows."""

    @initialize(seed=st.integers(0, 9))
    def begin(self, seed: int) -> None:
        self.chance = np.random.default_rng(seed)
        self.held = tempfile.TemporaryDirectory()
        self.folder = Path(self.held.name) / "index"
        self.rows: dict[int, Floats] = {}
        self.gone: set[int] = set()
        self.last = 0
        self.open()

    def open(self) -> None:
        self.index = VectorIndex.open(self.folder, EMBEDDER, DIMENSION, self.live(), self.of(self.live()), graph_from=6)
        assert self.index.reason is None

    def live(self) -> Labels:
        return np.array(list(self.rows), np.int64)

    def of(self, labels: Labels) -> Floats:
        return np.array([self.rows[label] for label in labels.tolist()], np.float32).reshape(-1, DIMENSION)

    @rule(count=st.integers(1, 12), same=st.booleans(), skipped=st.integers(0, 3))
    def add(self, count: int, same: bool, skipped: int) -> None:
        """Add new rows, or old vectors again."""
        labels = np.arange(1, count + 1) + self.last + skipped
        vectors = unit_rows(self.chance.normal(size=(count, DIMENSION)), DIMENSION)
        if same and self.rows:
            vectors = self.of(self.chance.choice(self.live(), count))
        self.last = int(labels[-1])
        self.rows.update(zip(labels.tolist(), vectors, strict=True))
        self.index.add(labels, vectors)

    @precondition(lambda self: self.rows)
    @rule(share=st.sampled_from([0.1, 0.5, 1.0]))
    def remove(self, share: float) -> None:
        labels = self.chance.permutation(self.live())[: max(1, round(share * len(self.rows)))]
        for label in labels.tolist():
            del self.rows[label]
        self.gone.update(labels.tolist())
        self.index.remove(labels)

    @rule(rows_max=st.integers(1, 40))
    def catch_up(self, rows_max: int) -> None:
        self.index.catch_up(rows_max)

    @rule()
    def catch_up_wholly(self) -> None:
        while self.index.catch_up():
            pass
        assert not self.index.is_behind

    @rule()
    def save(self) -> None:
        self.index.save()
        assert not self.index.is_worth_saving
        saved = VectorIndex.open(self.folder, EMBEDDER, DIMENSION, self.live(), self.of(self.live()), graph_from=6)
        assert saved.reason is None

    @rule()
    def restart(self) -> None:
        self.open()

    @rule(k=st.integers(1, 50), share=st.sampled_from([0.0, 0.3, 0.9]))
    def search_some(self, k: int, share: float) -> None:
        labels = np.concatenate([self.live(), np.array(list(self.gone), np.int64)])
        self.ask(k, self.chance.permutation(labels)[: round(share * len(labels))])

    @invariant()
    def finds_what_is_nearest(self) -> None:
        if hasattr(self, "index"):
            assert self.index.labels().tolist() == sorted(self.rows)
            self.ask(5, None)

    def ask(self, k: int, allowed: Labels | None) -> None:
        vector = unit_rows(self.chance.normal(size=(1, DIMENSION)), DIMENSION)[0]
        among = self.live() if allowed is None else np.intersect1d(self.live(), allowed)
        right = np.sort(self.of(among) @ vector)[::-1][:k]
        labels, cosines = self.index.search(vector, k, allowed)
        assert set(labels.tolist()) <= set(among.tolist())
        assert len(set(labels.tolist())) == len(labels) == len(right)
        assert np.allclose(self.of(labels) @ vector, cosines, atol=1e-5)
        assert np.allclose(cosines, right, atol=1e-5)

    def teardown(self) -> None:
        if hasattr(self, "held"):
            self.held.cleanup()


TestIndex = Index.TestCase
TestIndex.settings = settings(max_examples=repeats(100), stateful_step_count=30)
