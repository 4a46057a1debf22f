"""Run by test_kills: its children work on an index and are killed, and after each it looks at what they left.

A log of rows is the truth, as the database is: a row is in it before it is in the index. Prints one line a death.
"""

import os
import random
import resource
import select
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from store.interface.errors import StoreUnavailable
from store.vectors.index import VectorIndex
from store.vectors.matrix import Floats, Labels, unit_rows

EMBEDDER, DIMENSION, GRAPH_FROM = "words@1", 8, 20
ROW = np.dtype([("label", "<i8"), ("is_live", "?"), ("vector", "<f4", (DIMENSION,))])
EVENTS = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.listdir", "os.scandir"}


class Log:
    """Rows of labels that came and went, in the order of that; a torn one at the end was never acknowledged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        held = path.read_bytes() if path.exists() else b""
        whole = held[: len(held) // ROW.itemsize * ROW.itemsize]
        path.write_bytes(whole)
        self.rows: dict[int, Floats] = {}
        self.gone: dict[int, Floats] = {}
        for row in np.frombuffer(whole, ROW):
            self._apply(int(row["label"]), row["vector"], bool(row["is_live"]))

    def _apply(self, label: int, vector: Floats, is_live: bool) -> None:
        if is_live:
            self.rows[label] = vector
        else:
            self.gone[label] = self.rows.pop(label)

    def append(self, labels: Labels, vectors: Floats, *, is_live: bool) -> None:
        rows = np.empty(len(labels), ROW)
        rows["label"], rows["is_live"], rows["vector"] = labels, is_live, vectors
        with self.path.open("ab", buffering=0) as file:
            file.write(rows.tobytes())
        for label, vector in zip(labels.tolist(), vectors, strict=True):
            self._apply(label, vector, is_live)

    def last(self) -> int:
        return max([0, *self.rows, *self.gone])

    def live(self) -> Labels:
        return np.array(list(self.rows), np.int64)

    def of(self, labels: Labels) -> Floats:
        return np.array([self.rows[label] for label in labels.tolist()], np.float32).reshape(-1, DIMENSION)

    def open(self, folder: Path) -> VectorIndex:
        return VectorIndex.open(folder, EMBEDDER, DIMENSION, self.live(), self.of(self.live()), graph_from=GRAPH_FROM)


def random_rows(chance: np.random.Generator, count: int) -> Floats:
    return unit_rows(chance.normal(size=(count, DIMENSION)), DIMENSION)


def step(log: Log, index: VectorIndex, chance: np.random.Generator) -> None:
    """Do one random thing to an index."""
    what = chance.integers(0, 10)
    if what < 4 and len(log.rows) < 400:
        labels = np.arange(1, 11) + log.last()
        vectors = random_rows(chance, 10) if what else np.repeat(random_rows(chance, 1), 10, axis=0)
        log.append(labels, vectors, is_live=True)
        index.add(labels, vectors)
    elif what < 6 and log.rows:
        labels = chance.permutation(log.live())[: 40 if what == 5 and len(log.rows) > 300 else 5]
        log.append(labels, log.of(labels), is_live=False)
        index.remove(labels)
    elif what < 8:
        index.catch_up()
    else:
        index.save()


def work(folder: Path, seed: int, ready: int) -> None:
    """Work on the index until it is killed."""
    chance = np.random.default_rng(seed)
    log = Log(folder / "rows")
    index = log.open(folder / "index")
    while index.catch_up():
        pass
    os.write(ready, b"!")
    while True:
        step(log, index, chance)


def save_and_die(folder: Path, seed: int, at: int) -> None:
    """Add, removes and saves, and dies with whatever it is about to do next to a file, the `at`th time."""
    log = Log(folder / "rows")
    chance = np.random.default_rng(seed)
    index = log.open(folder / "index")
    labels = np.arange(1, 11) + log.last()
    log.append(labels, random_rows(chance, 10), is_live=True)
    index.add(labels, log.of(labels))
    gone = log.live()[:3]
    log.append(gone, log.of(gone), is_live=False)
    index.remove(gone)
    while index.catch_up():
        pass
    count = 0

    def hook(event: str, arguments: object) -> None:
        nonlocal count
        if event in EVENTS:
            count += 1
            if count == at:
                os._exit(3)

    sys.addaudithook(hook)
    index.save()
    os._exit(0)


def fill_disk(folder: Path, seed: int) -> None:
    """Save where a file may have only so many bytes."""
    log = Log(folder / "rows")
    index = log.open(folder / "index")
    while index.catch_up():
        pass
    most = np.random.default_rng(seed).integers(1, 50_000)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(most), int(most)))
    try:
        index.save()
    except StoreUnavailable:
        os._exit(4)
    os._exit(0)


def judge(folder: Path, seed: int) -> str:
    """Return what is wrong with the index a child left, or how it was opened."""
    log = Log(folder / "rows")
    chance = np.random.default_rng(seed)
    left = len(list((folder / "index").glob("*")))
    index = log.open(folder / "index")
    if index.reason is not None:
        return f"bad: {index.reason}"
    for _ in range(2):
        if index.labels().tolist() != sorted(log.rows):
            return "bad: other labels than the rows"
        for vector in [
            *random_rows(chance, 5),
            *random.Random(seed).sample(list(log.gone.values()), min(5, len(log.gone))),
        ]:
            labels, cosines = index.search(vector, 10)
            right = np.sort(log.of(log.live()) @ vector)[::-1][:10]
            if not np.allclose(cosines, right, atol=1e-5) or not set(labels.tolist()) <= set(log.rows):
                return f"bad: found {labels} at {cosines}, right is {right}"
        while index.catch_up():
            pass
    return f"good, {left} files"


def forked(function: Callable[..., None], *arguments: object) -> int:
    """Return the process id of a child that does this."""
    child = os.fork()
    if child == 0:
        try:
            function(*arguments)
        finally:
            os._exit(9)
    return child


def main(folder: Path, how: str, count: int) -> None:
    chance = random.Random(count)
    log = Log(folder / "rows")
    log.append(np.arange(1, 101), random_rows(np.random.default_rng(count), 100), is_live=True)
    for number in range(1, count + 1):
        if how == "kill":
            ready, tell = os.pipe()
            child = forked(work, folder, number, tell)
            os.close(tell)
            select.select([ready], [], [], 60)
            select.select([], [], [], chance.uniform(0, 0.03))
            os.kill(child, signal.SIGKILL)
            os.close(ready)
        elif how == "step":
            child = forked(save_and_die, folder, number, number)
        else:
            child = forked(fill_disk, folder, number)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), judge(folder, number), flush=True)


main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
