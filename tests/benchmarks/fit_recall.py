"""Fits the weights of recall on all of LoCoMo, and writes them to `runtime/memory/recall/weights.json`.

    LOCOMO=locomo10.zip python tests/benchmarks/fit_recall.py

The set for all-MiniLM-L6-v2 needs sentence-transformers and the model: MINILM names it, or a folder of it. Without it,
the set that is there stays, and that for other embedders too: it is fitted to the vectors of both. Category 5 is not
fitted to: its questions have no answer.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from locomo import ADVERSARIAL, Conversation, conversations
from numpy.typing import NDArray
from recall_fitting import DENSE, GIVEN, HYBRID, LEXICAL, Sample, fitted, neutral, sampled, with_summaries

from runtime.memory.recall.memory_index import MemoryIndex
from runtime.memory.recall.query import IndexEntry, Question
from runtime.memory.recall.ranking import OTHER, VERSION, Ranker, Weights
from runtime.memory.recall.signals import Usual
from store.embedders.choose_embedder import embedder_for
from store.embedders.embedder import Embedder

WRITTEN = Path(__file__).parents[2] / "runtime/memory/recall/weights.json"


def embedder_named(name: str) -> Embedder:
    """A loaded embedder."""
    load = embedder_for(name)
    if load is None:
        sys.exit(f"{name} embeds nothing")
    return load()


class Embedded(msgspec.Struct, frozen=True):
    """The vectors of a conversation's units and of its questions."""

    units: NDArray[np.float32]
    summaries: NDArray[np.float32]
    questions: NDArray[np.float32]


def embed(conversation: Conversation, embedder: Embedder) -> Embedded:
    """Embeds a conversation."""
    return Embedded(
        embedder.embed([entry.index_text for entry in conversation.entries]),
        embedder.embed([entry.index_text for entry in summaries_of(conversation)]),
        embedder.embed([asked.text for asked in conversation.questions]),
    )


def summaries_of(conversation: Conversation) -> list[IndexEntry]:
    """The summaries of a conversation's sessions, as units of their own."""
    first = len(conversation.entries) + 1
    return [
        IndexEntry(sequence=sequence, group=group, rank=1, content=summary)
        for sequence, (group, summary) in enumerate(conversation.summaries.items(), start=first)
    ]


def bank_of(
    conversation: Conversation, embedded: Embedded | None, *, summed_up: bool = False, usual: Usual | None = None
) -> MemoryIndex:
    """A bank of a conversation's turns; with the summaries of its sessions, where wanted."""
    bank = MemoryIndex("", neutral(usual))
    bank.add(conversation.entries)
    if embedded is not None:
        bank.set_vectors(np.array([entry.sequence for entry in conversation.entries]), embedded.units)
    if summed_up:
        summaries = summaries_of(conversation)
        bank.add(summaries)
        for summary in summaries:
            under = [entry.sequence for entry in conversation.entries if entry.group == summary.group]
            bank.place_under(summary.sequence, under)
        if embedded is not None:
            bank.set_vectors(np.array([summary.sequence for summary in summaries]), embedded.summaries)
    return bank


def samples_of(
    conversation: Conversation,
    embedded: Embedded | None,
    *,
    words: bool = True,
    summed_up: bool = False,
    usual: Usual | None = None,
) -> list[Sample]:
    """What a bank sees of each of a conversation's questions, looking at its turns alone."""
    bank = bank_of(conversation, embedded, summed_up=summed_up, usual=usual)
    turns = frozenset(entry.sequence for entry in conversation.entries)
    return [
        sampled(
            bank,
            Question(
                text=asked.text if words else "",
                vector=None if embedded is None else embedded.questions[at],
                allowed=turns,
            ),
            conversation=conversation.name,
            category=asked.category,
            evidence=asked.evidence,
        )
        for at, asked in enumerate(conversation.questions)
    ]


def usual_for(embedded: Sequence[Embedded]) -> Usual:
    """The mean and deviation of an embedder's similarities between questions and the units of their conversation."""
    similarities = np.concatenate([(one.units @ one.questions.T).ravel() for one in embedded])
    return Usual(round(float(similarities.mean()), 4), round(float(similarities.std()), 4))


def fit(
    recorded: Sequence[tuple[Conversation, Embedded | None]],
    names: Sequence[str],
    *,
    words: bool = True,
    usual: Usual | None = None,
) -> Ranker:
    """A ranker of what can be answered."""
    plain, summed_up = (
        [
            sample
            for conversation, embedded in recorded
            for sample in samples_of(conversation, embedded, words=words, summed_up=with_them, usual=usual)
            if sample.category != ADVERSARIAL
        ]
        for with_them in (False, True)
    )
    return msgspec.structs.replace(with_summaries(fitted(plain, names, GIVEN), summed_up), usual=usual)


def _fitted_before() -> tuple[dict[str, Ranker], dict[str, Ranker]]:
    """The sets that are there; none, where they are of other signals."""
    try:
        before = msgspec.json.decode(WRITTEN.read_bytes(), type=Weights)
    except (FileNotFoundError, msgspec.MsgspecError) as error:
        print(f"all sets are fitted anew: {error}")
        return {}, {}
    return dict(before.hybrid), dict(before.dense)


def main() -> None:
    """Fits and writes."""
    recorded = conversations()
    lexical = fit([(one, None) for one in recorded], LEXICAL)
    hybrid, dense = _fitted_before()
    every: list[tuple[Conversation, Embedded | None]] = []
    names = {"wordllama": "wordllama"}
    if model := os.environ.get("MINILM"):
        names["all-MiniLM-L6-v2"] = f"sentence-transformers:{model}"
    for name, embedder_name in names.items():
        embedder = embedder_named(embedder_name)
        embedded = [embed(one, embedder) for one in recorded]
        pairs: list[tuple[Conversation, Embedded | None]] = list(zip(recorded, embedded, strict=True))
        usual = usual_for(embedded)
        hybrid[name] = fit(pairs, HYBRID, usual=usual)
        dense[name] = fit(pairs, DENSE, words=False, usual=usual)
        every += pairs
        print(f"{name}: similarities of {usual.mean} ± {usual.deviation}")
    if len(names) > 1 or not hybrid.keys() - names.keys():
        hybrid[OTHER] = fit(every, HYBRID)
        dense[OTHER] = fit(every, DENSE, words=False)
    written = msgspec.json.encode(Weights(VERSION, lexical, hybrid, dense))
    msgspec.json.decode(written, type=Weights)  # a scale that is not above 0 is an error
    WRITTEN.write_bytes(msgspec.json.format(written, indent=1) + b"\n")
    print(f"{WRITTEN}: {', '.join(sorted(hybrid))}")


if __name__ == "__main__":
    main()
