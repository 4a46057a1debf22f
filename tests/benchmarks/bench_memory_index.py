"""The index of vectors beside raw hnswlib and numpy's brute force in the same run; prints, asserts nothing.

    python tests/benchmarks/bench_memory_index.py [--count 10000] [--dimension 256]

Vectors are random in clusters; a second set has as many again that nearly repeat one of six (short answers do).
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import hnswlib
import numpy as np

from store.vectors.index import VectorIndex
from store.vectors.matrix import Floats, Labels, unit_rows

K, QUESTIONS = 10, 300
CLUSTERS = 300


def clustered(chance: np.random.Generator, count: int, dimension: int) -> tuple[Floats, Floats]:
    """Vectors, and questions that are near some of them."""
    spread = 1 / np.sqrt(dimension)
    centres = unit_rows(chance.normal(size=(CLUSTERS, dimension)), dimension)
    noise = chance.standard_normal((count, dimension), np.float32)
    vectors = unit_rows(centres[chance.integers(0, CLUSTERS, count)] + spread * noise, dimension)
    asked = vectors[chance.integers(0, count, QUESTIONS)]
    return vectors, unit_rows(asked + 0.8 * spread * chance.normal(size=asked.shape), dimension)


def with_repeats(chance: np.random.Generator, vectors: Floats) -> Floats:
    """These, and after them as many that nearly repeat six of them, half of those exactly."""
    count, dimension = vectors.shape
    said = vectors[chance.integers(0, 6, count)]
    nearly = 0.05 / np.sqrt(dimension) * chance.standard_normal(said.shape, np.float32)
    nearly[::2] = 0
    return np.concatenate([vectors, unit_rows(said + nearly, dimension)])


class Timed:
    """Seconds of what is done with it, printed beside those of the floor."""

    def __init__(self, floor: float | None = None) -> None:
        self._floor = floor

    def show(self, name: str, seconds: float, more: str = "") -> float:
        ratio = f"{seconds / self._floor:7.2f}x raw" if self._floor else " " * 11
        print(f"  {name:<44} {seconds * 1e3:10.3f} ms {ratio}  {more}")
        return seconds


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ask(search: Callable[[Floats], Labels], questions: Floats, vectors: Floats) -> tuple[list[float], float]:
    """Seconds of each question, and recall against all cosines; label n is row n - 1."""
    times, shares = [], []
    for question in questions:
        start = time.perf_counter()
        labels = search(question)
        times.append(time.perf_counter() - start)
        cosines = np.vecdot(vectors, question)
        shares.append(np.mean(cosines[labels - 1] >= np.partition(cosines, -K)[-K] - 1e-5))
    return times, float(np.mean(shares))


def show_search(
    timed: Timed, name: str, search: Callable[[Floats], Labels], questions: Floats, vectors: Floats
) -> float:
    times, recall = ask(search, questions, vectors)
    slow = sorted(times)[int(len(times) * 0.95)] * 1e3
    return timed.show(name, statistics.median(times), f"p95 {slow:.3f} ms, recall@{K} {recall:.3f}")


def build(index: VectorIndex) -> None:
    while index.catch_up():
        pass


def measure(name: str, vectors: Floats, questions: Floats, folder: Path) -> None:
    """Prints all figures of one set."""
    count, dimension = vectors.shape
    labels = np.arange(1, count + 1)
    print(f"{name}: {count} vectors of {dimension}")

    raw = hnswlib.Index("cosine", dimension)
    raw.init_index(count, M=16, ef_construction=100)
    making = Timed().show("raw hnswlib: add", seconds(lambda: raw.add_items(vectors, labels, num_threads=1)))
    raw.set_ef(128)
    path = folder / "raw"
    saving = Timed().show("raw hnswlib: save, not synced", seconds(lambda: raw.save_index(str(path))))
    loading = Timed().show(
        "raw hnswlib: load", seconds(lambda: hnswlib.Index("cosine", dimension).load_index(str(path)))
    )

    def open_index(graph_from: int) -> VectorIndex:
        return VectorIndex.open(folder / "index", "bench", dimension, labels, vectors, graph_from=graph_from)

    empty = VectorIndex.open(folder / "none", "bench", dimension, labels[:0], vectors[:0])
    took = seconds(lambda: empty.add(labels, vectors))
    Timed(making).show("index: add, found from then on", took, f"{count / took:,.0f} a second")
    index = open_index(1)
    took = Timed(making).show("index: the graph, in the background", seconds(lambda: build(index)))
    Timed(saving).show("index: save, synced and with a manifest", seconds(index.save))
    Timed(loading).show("index: open, checked against the rows", seconds(lambda: open_index(1)))

    def raw_search(question: Floats) -> Labels:
        return np.asarray(raw.knn_query(question, k=K, num_threads=1)[0][0], np.int64)

    def brute(question: Floats) -> Labels:
        return np.argpartition(vectors @ question, -K)[-K:] + 1

    floor = show_search(Timed(), "raw hnswlib: search", raw_search, questions, vectors)
    show_search(Timed(floor), "numpy, all by `@`: search", brute, questions, vectors)
    show_search(Timed(floor), "index, exact: search", lambda question: empty.search(question, K)[0], questions, vectors)
    show_search(Timed(floor), "index, graph: search", lambda question: index.search(question, K)[0], questions, vectors)


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--dimension", type=int, default=256)
    asked = parser.parse_args()
    chance = np.random.default_rng(7)
    vectors, questions = clustered(chance, asked.count, asked.dimension)
    for name, of in (
        ("clusters", vectors),
        ("clusters and repeats", with_repeats(chance, vectors[: asked.count // 2])),
    ):
        with tempfile.TemporaryDirectory() as folder:
            measure(name, of, questions, Path(folder))


if __name__ == "__main__":
    main()
