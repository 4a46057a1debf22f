"""One user's memory through Python: units added with vectors, queries, opening; beside the bare library and brute force
over the same vectors in the same run. Run by `make bench-memory`; prints, asserts nothing.

The vectors are 256 numbers around centres, as those of sentences are: of what is said, much is alike. Questions lie
near some of them. `--count 100000` shows what grows; right after it was added, an index is being made meanwhile. The
floor of a query is hnswlib alone, that of exactness numpy alone; neither keeps anything, reads words, or knows whose it
is. What a query returns has been visited, on disk; by words and meaning it is borne in mind besides, which is more to
write. A memory ranks by more than the cosine; `bench_memory_index.py` measures what its index finds of the nearest.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import hnswlib
import numpy as np
from numpy.typing import NDArray

from api.embedded_memory import open_memory
from api.memory.requests import NewUnit
from api.memory.user_memory import UserMemory

DIMENSION = 256  # of the default embedder, whose place `embedder` takes
CENTRES = 500
SPREAD = 0.9  # how far from its centre a vector lies: cosines of about 0.55 within one
K = 10
BATCH = 1_000
SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
VOCABULARY = 20_000
COMMON = 10  # the first so many words are about as frequent as one another, all others ever rarer, as in a language
ADD_GOAL, QUERY_GOAL_MS, OPEN_GOAL_S = 2_000, 5, 1

Floats = NDArray[np.float32]


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="units [10000]")
    parser.add_argument("--queries", type=int, default=500, help="questions [500]")
    given = parser.parse_args()
    random = np.random.default_rng(1)
    vectors, questions = _vectors(random, given.count, given.queries)
    texts, asked = _texts(random, given.count, 12), _texts(random, given.queries, 6)
    truth = [_nearest(vectors, question) for question in questions]
    print(f"{given.count:,} units of {DIMENSION} numbers, {given.queries} queries of the {K} best")
    _show("numpy alone, query", _timed(questions, lambda question: _nearest(vectors, question)))
    _library(vectors, questions, truth)
    with tempfile.TemporaryDirectory() as folder:
        _memory(Path(folder), texts, vectors, asked, questions)


def _texts(random: np.random.Generator, count: int, words: int) -> list[str]:
    spelt = np.random.default_rng(0).choice(SYLLABLES, (VOCABULARY, 3))
    vocabulary = ["".join(syllables) for syllables in spelt]
    shares = 1 / (np.arange(VOCABULARY) + COMMON)
    chosen = random.choice(VOCABULARY, (count, words), p=shares / shares.sum())
    return [" ".join(vocabulary[word] for word in row) for row in chosen]


def _vectors(random: np.random.Generator, count: int, queries: int) -> tuple[Floats, Floats]:
    centres = _unit(random.normal(size=(CENTRES, DIMENSION)))
    around = centres[random.integers(CENTRES, size=count)]
    vectors = _unit(around + SPREAD * _unit(random.normal(size=around.shape)))
    near = vectors[random.integers(count, size=queries)]
    return vectors, _unit(near + SPREAD / 2 * _unit(random.normal(size=near.shape)))


def _unit(rows: NDArray[np.floating]) -> Floats:
    unit: Floats = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


def _nearest(vectors: Floats, question: Floats) -> list[int]:
    cosines = vectors @ question
    best = np.argpartition(cosines, -K)[-K:]
    return [int(row) for row in best[np.argsort(-cosines[best])]]


def _library(vectors: Floats, questions: Floats, truth: Sequence[Sequence[int]]) -> None:
    index = hnswlib.Index("ip", DIMENSION)
    index.init_index(len(vectors), M=16, ef_construction=100)
    with _show_rate("hnswlib alone, add", len(vectors)):
        index.add_items(vectors)
    index.set_ef(128)
    found: list[list[int]] = []
    _show("hnswlib alone, query", _timed(questions, lambda one: found.append(list(index.knn_query(one, k=K)[0][0]))))
    print(f"{'hnswlib alone, recall@10':34} {_recall(found, truth):.3f}")


def _memory(folder: Path, texts: Sequence[str], vectors: Floats, asked: Sequence[str], questions: Floats) -> None:
    with open_memory(folder, "bench") as memory:
        memory.start_session("bench")
        with _show_rate("memory, add", len(texts), ADD_GOAL):
            for start in range(0, len(texts), BATCH):
                rows = range(start, min(start + BATCH, len(texts)))
                memory.add_many([NewUnit(content=texts[row], vector=vectors[row]) for row in rows])
        print("asked by a session, whose short-term memory is looked at, and kept:")
        _ask(memory, asked, questions)
    begun = time.perf_counter()
    with open_memory(folder, "bench") as memory:
        memory.query(asked[0], vector=questions[0])
        opened = time.perf_counter() - begun
        print(f"{'memory, open until the first hit':34} {opened:.2f} s  (goal {OPEN_GOAL_S} s)")
        print("asked by nobody in particular:")
        _ask(memory, asked, questions)


def _ask(memory: UserMemory, asked: Sequence[str], questions: Floats) -> None:
    def by_meaning(number: int) -> None:
        memory.query(vector=questions[number], k=K, strategy="dense", long_term_only=True, add_to_short_term=False)

    numbers = range(len(questions))
    _show("memory, query by meaning", _timed(numbers, by_meaning), QUERY_GOAL_MS)
    both = _timed(numbers, lambda number: memory.query(asked[number], vector=questions[number], k=K))
    _show("memory, query by words and meaning", both, QUERY_GOAL_MS)
    narrow = {"sequence": {"$lte": 1_000}}
    some = _timed(numbers[:100], lambda number: memory.query(asked[number], k=K, filters=narrow))
    _show("memory, query of a text, filtered", some, QUERY_GOAL_MS)


def _recall(found: Sequence[Sequence[int]], truth: Sequence[Sequence[int]]) -> float:
    return statistics.mean(len({*some} & {*best}) / len(best) for some, best in zip(found, truth, strict=True))


def _timed(given: Sequence[object] | Floats | range, ask: Callable[..., object]) -> list[float]:
    """Milliseconds of each."""
    taken = []
    for one in given:
        begun = time.perf_counter()
        ask(one)
        taken.append((time.perf_counter() - begun) * 1_000)
    return taken


@contextmanager
def _show_rate(what: str, count: int, goal: float | None = None) -> Iterator[None]:
    begun = time.perf_counter()
    yield
    rate = count / (time.perf_counter() - begun)
    print(f"{what:34} {rate:,.0f} units/s{f'  (goal {goal:,})' if goal else ''}")


def _show(what: str, taken: Sequence[float], goal_ms: float | None = None) -> None:
    p50, p95 = statistics.median(taken), statistics.quantiles(taken, n=20)[-1]
    print(f"{what:34} p50 {p50:.2f} ms, p95 {p95:.2f} ms{f'  (goal {goal_ms} ms)' if goal_ms else ''}")


if __name__ == "__main__":
    main()
