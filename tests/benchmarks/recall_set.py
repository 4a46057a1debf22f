"""Our own questions to two memories, in English and in Chinese: what recall is compared by with plain methods.

`data/recall/LANGUAGE-units.jsonl` has what was said in sessions of counselling, `LANGUAGE-questions.jsonl` questions of
eight kinds with the ids of the units that answer each. One is answered where one of these is among the first ten.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from runtime.memory.recall.memory_index import MemoryIndex
from runtime.memory.recall.query import IndexEntry, Question, Strategy
from runtime.memory.recall.terms import plain_words

FOLDER = Path(__file__).parents[1] / "data/recall"
LANGUAGES = ("english", "chinese")
DEPTH = 10

Vectors = NDArray[np.float32]
Embed = Callable[[Sequence[str]], Vectors]
Answers = Sequence[Sequence[int]]
"""For each question the sequences that were found, the best first."""


class Unit(Struct, frozen=True):
    """What somebody said."""

    id: str
    session: str
    at: datetime
    source: str
    content: str


class Asked(Struct, frozen=True):
    """A question, of which kind it is, and the ids of the units that answer it."""

    kind: str
    question: str
    answers: list[str]


class RecallSet(Struct, frozen=True):
    """A memory's units, numbered from 1 in their order, and the questions to it."""

    units: list[Unit]
    questions: list[Asked]

    @property
    def entries(self) -> list[IndexEntry]:
        """The units as a bank takes them."""
        return [
            IndexEntry(
                sequence=number, group=unit.session, source=unit.source, created_at=unit.at, content=unit.content
            )
            for number, unit in enumerate(self.units, 1)
        ]

    def hits(self, answers: Answers) -> int:
        """How many questions are answered."""
        return sum(self.hits_by_kind(answers).values())

    def hits_by_kind(self, answers: Answers) -> Counter[str]:
        """How many questions of each kind are answered."""
        return Counter(
            asked.kind
            for asked, found in zip(self.questions, answers, strict=True)
            if any(self.units[sequence - 1].id in asked.answers for sequence in found[:DEPTH])
        )


def recall_set(language: str) -> RecallSet:
    """The set in a language."""

    def lines(part: str) -> list[bytes]:
        return (FOLDER / f"{language}-{part}.jsonl").read_bytes().splitlines()

    return RecallSet(
        [msgspec.json.decode(line, type=Unit) for line in lines("units")],
        [msgspec.json.decode(line, type=Asked) for line in lines("questions")],
    )


def recalled(asked: RecallSet, embedder: str, embed: Embed | None, strategy: Strategy = "hybrid") -> Answers:
    """What a bank finds; `embedder` is the name by which it chooses its weights."""
    bank = MemoryIndex(embedder)
    bank.add(asked.entries)
    questions: Sequence[Vectors | None] = [None] * len(asked.questions)
    if embed is not None:
        units = embed([entry.index_text for entry in asked.entries])
        bank.set_vectors(np.arange(1, len(units) + 1), units)
        questions = list(embed([each.question for each in asked.questions]))
    return [
        [
            found.sequence
            for found in bank.search(Question(text=each.question, vector=vector, k=DEPTH, strategy=strategy))
        ]
        for each, vector in zip(asked.questions, questions, strict=True)
    ]


def by_cosine(asked: RecallSet, embed: Embed, *, indexed: bool) -> Answers:
    """The units nearest to each question, by their contents or, `indexed`, by the vectors that a bank has."""
    texts = [entry.index_text if indexed else entry.content for entry in asked.entries]
    return [_best(row) for row in embed([each.question for each in asked.questions]) @ embed(texts).T]


def by_bm25(asked: RecallSet) -> Answers:
    """Okapi BM25 over lower-cased words, and over characters and pairs of them where no spaces are written."""
    units = [Counter(_tokens(unit.content)) for unit in asked.units]
    lengths = np.array([sum(unit.values()) for unit in units])
    bound = 1.5 * (0.25 + 0.75 * lengths / lengths.mean())
    answers = []
    for each in asked.questions:
        scores = np.zeros(len(units))
        for token in _tokens(each.question):
            counts = np.array([unit[token] for unit in units])
            having = np.count_nonzero(counts)
            scores += np.log(1 + (len(units) - having + 0.5) / (having + 0.5)) * counts * 2.5 / (counts + bound)
        answers.append(_best(scores))
    return answers


def with_narrow_cosines(embed: Embed, mean: float = 0.82) -> Embed:
    """An embedder of the same cosines in the same order, drawn together around a mean as those of e5 are."""

    def narrow(texts: Sequence[str]) -> Vectors:
        vectors = embed(texts)
        constant = np.full((len(vectors), 1), np.sqrt(mean), np.float32)
        return np.concatenate([vectors * np.float32(np.sqrt(1 - mean)), constant], axis=1)

    return narrow


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    for word in plain_words(text):
        tokens += [word] if word.isascii() else [*word, *(word[at : at + 2] for at in range(len(word) - 1))]
    return tokens


def _best(scores: NDArray[np.floating]) -> list[int]:
    return [int(at) + 1 for at in np.argsort(-scores, kind="stable")[:DEPTH]]
