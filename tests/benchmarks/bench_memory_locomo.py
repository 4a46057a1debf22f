"""What memory finds of LoCoMo, through the public API, beside plain BM25 and plain cosines of the same run.

    LOCOMO=locomo10.zip make bench-memory

Recall at 5, 10 and 20 is the share of a question's evidence among the first so many units, the mean of all questions;
MRR is of the first unit that is evidence. No neighbours are called up with the hits, and no language model is asked.
The weights that Cuebook comes with are fitted on all ten conversations; in the rows "fitted on the others" each
conversation is answered with weights fitted on the other nine, which is what to expect of another conversation. MINILM
names all-MiniLM-L6-v2, or a folder of it, to be measured besides; the first NUMBER of LOCOMO_ONLY conversations only.
"""

import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from fit_recall import Embedded, embed, embedder_named, samples_of, usual_for
from locomo import ADVERSARIAL, Asked, Conversation, conversations
from msgspec import Struct
from recall_fitting import GIVEN, HYBRID, LEXICAL, Sample, fitted

from api.embedded_memory import open_memory
from api.memory.requests import NewUnit
from api.memory.user_memory import UserMemory
from runtime.memory.recall.query import Strategy
from runtime.memory.recall.ranking import Ranker
from runtime.memory.recall.signals import SIGNALS, Usual
from runtime.memory.recall.terms import plain_words
from store.embedders.embedder import Embedder

DEPTHS = (5, 10, 20)
Found = Sequence[int]
Answers = list[tuple[Asked, Found]]


class Score(Struct, frozen=True):
    """Recall at each depth, and MRR, in percent."""

    recall: Mapping[int, float]
    mrr: float


def score_of(answers: Answers) -> Score:
    """The mean of all questions."""
    recall = {
        depth: 100
        * statistics.mean(len(asked.evidence & {*found[:depth]}) / len(asked.evidence) for asked, found in answers)
        for depth in DEPTHS
    }
    ranks = [
        next((1 / at for at, one in enumerate(found, 1) if one in asked.evidence), 0.0) for asked, found in answers
    ]
    return Score(recall, 100 * statistics.mean(ranks))


def show(name: str, answers: Answers, times_s: Sequence[float] = ()) -> None:
    """Prints one row."""
    within = [answer for answer in answers if answer[0].category != ADVERSARIAL]
    of = {category: score_of([a for a in answers if a[0].category == category]) for category in range(1, 6)}
    all_of_them = score_of(within)
    line = " ".join(f"{all_of_them.recall[depth]:5.1f}" for depth in DEPTHS) + f" {all_of_them.mrr:5.1f}"
    line += " | " + " ".join(f"{of[category].recall[10]:5.1f}" for category in range(1, 5))
    line += " | " + " ".join(f"{of[ADVERSARIAL].recall[depth]:5.1f}" for depth in DEPTHS)
    if times_s:
        ordered = sorted(1e3 * took for took in times_s)
        line += f" | p50 {ordered[len(ordered) // 2]:.1f} ms, p95 {ordered[int(len(ordered) * 0.95)]:.1f} ms"
    print(f"{name:44} {line}", flush=True)


def plain_bm25(conversation: Conversation) -> Callable[[str], Found]:
    """Okapi BM25 over lower-cased words, as a first attempt would have it."""
    units = [Counter(plain_words(entry.content)) for entry in conversation.entries]
    lengths = np.array([sum(unit.values()) for unit in units])
    bound = 1.5 * (0.25 + 0.75 * lengths / lengths.mean())

    def search(text: str) -> Found:
        scores = np.zeros(len(units))
        for word in plain_words(text):
            counts = np.array([unit[word] for unit in units])
            having = np.count_nonzero(counts)
            scores += np.log(1 + (len(units) - having + 0.5) / (having + 0.5)) * counts * 2.5 / (counts + bound)
        return best(scores)

    return search


def best(scores: np.ndarray) -> Found:
    """The sequences of the highest scores."""
    return [int(at) + 1 for at in np.argsort(-scores, kind="stable")[: max(DEPTHS)]]


def plain_cosines(recorded: Sequence[Conversation], embedder: Embedder) -> Answers:
    """The nearest of what was said, and nothing else."""
    answers: Answers = []
    for conversation in recorded:
        units = embedder.embed([entry.content for entry in conversation.entries])
        questions = embedder.embed([asked.text for asked in conversation.questions])
        cosines = questions @ units.T
        answers += [(asked, best(row)) for asked, row in zip(conversation.questions, cosines, strict=True)]
    return answers


def fill(memory: UserMemory, conversation: Conversation) -> None:
    """Puts a conversation into a memory, session by session, and has the embedder see it."""
    for group in dict.fromkeys(entry.group for entry in conversation.entries):
        memory.start_session(f"{conversation.name}, {group}")
        memory.add_many(
            [
                NewUnit(
                    content=entry.content,
                    source=entry.source,
                    creation_time=entry.created_at,
                    unit_id=f"{conversation.name}/{entry.sequence}",
                )
                for entry in conversation.entries
                if entry.group == group
            ]
        )
    if memory.status().embedder:
        memory.embed()
    memory.start_session(f"{conversation.name}, questions")


def asked_of(memory: UserMemory, text: str, strategy: Strategy) -> Found:
    """The hits of a query, the best first."""
    recalled = memory.query(text, k=max(DEPTHS), strategy=strategy, add_to_short_term=False)
    hits = [unit for chain in recalled.chains for unit in chain.units if unit.score is not None]
    hits.sort(key=lambda hit: -(hit.score or 0.0))
    return [int(hit.unit_id.rpartition("/")[2]) for hit in hits]


def through_api(recorded: Sequence[Conversation], embedder: str, strategies: Sequence[Strategy]) -> None:
    """Prints a row for each strategy, with the weights as shipped."""
    answers: dict[Strategy, Answers] = {strategy: [] for strategy in strategies}
    times: dict[Strategy, list[float]] = {strategy: [] for strategy in strategies}
    with tempfile.TemporaryDirectory() as folder:
        for conversation in recorded:
            with open_memory(Path(folder) / "data", conversation.name, embedder=embedder) as memory:
                fill(memory, conversation)
                for asked in conversation.questions:
                    for strategy in strategies:
                        start = time.perf_counter()
                        found = asked_of(memory, asked.text, strategy)
                        times[strategy].append(time.perf_counter() - start)
                        answers[strategy].append((asked, found))
    for strategy in strategies:
        name = strategy if embedder == "none" else f"{strategy}, {embedder.rpartition('/')[2]}"
        show(f"{name}, as shipped", answers[strategy], times[strategy])


def left_out(
    recorded: Sequence[Conversation],
    embedded: Sequence[Embedded | None],
    names: Sequence[str],
    usual: Usual | None = None,
) -> Answers:
    """Each conversation, answered with weights fitted on the others."""
    by_conversation = [samples_of(one, vectors, usual=usual) for one, vectors in zip(recorded, embedded, strict=True)]
    answers: Answers = []
    for at, conversation in enumerate(recorded):
        others = [sample for other, samples in enumerate(by_conversation) if other != at for sample in samples]
        ranker = fitted([sample for sample in others if sample.category != ADVERSARIAL], names, GIVEN)
        samples = by_conversation[at]
        answers += [
            (asked, ranked(sample, ranker)) for asked, sample in zip(conversation.questions, samples, strict=True)
        ]
    return answers


def ranked(sample: Sample, ranker: Ranker) -> Found:
    """A question's candidates as a ranker orders them."""
    signals = {name: sample.signals[:, SIGNALS.index(name)].astype(np.float32) for name in ranker.signals}
    scores = ranker.scores(ranker.shares(signals))
    return [int(sample.sequences[at]) for at in np.argsort(-scores, kind="stable")[: max(DEPTHS)]]


def main() -> None:
    """Prints all rows."""
    recorded = conversations()[: int(os.environ.get("LOCOMO_ONLY", "10"))]
    embedders = ["wordllama"]
    if model := os.environ.get("MINILM"):
        embedders.append(f"sentence-transformers:{model}")
    print(f"{len(recorded)} conversations, {sum(len(one.entries) for one in recorded)} units", end=", ")
    print(f"{sum(len(one.questions) for one in recorded)} questions")
    print(f"{'':44} recall@5, @10, @20, MRR | R@10 by category 1-4  | category 5: @5, @10, @20 | a query")
    show(
        "plain BM25",
        [(asked, search(asked.text)) for one in recorded for search in [plain_bm25(one)] for asked in one.questions],
    )
    through_api(recorded, "none", ["lexical"])
    if len(recorded) > 1:
        show("lexical, fitted on the others", left_out(recorded, [None] * len(recorded), LEXICAL))
    for name in embedders:
        embedder = embedder_named(name)
        short = name.rpartition("/")[2]
        show(f"plain cosines, {short}", plain_cosines(recorded, embedder))
        through_api(recorded, name, ["dense", "hybrid"])
        if len(recorded) > 1:
            embedded = [embed(one, embedder) for one in recorded]
            show(f"hybrid, {short}, fitted on the others", left_out(recorded, embedded, HYBRID, usual_for(embedded)))


if __name__ == "__main__":
    main()
