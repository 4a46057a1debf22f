"""Fits the weights of recall to questions whose answers are known: a listwise linear model, by Newton's method.

A question's loss is the cross-entropy between the softmax over its candidates and its evidence, in equal parts. It is
convex: the same questions always give the same weights. Two weights are given, not fitted. What the source asked about
counts: more would answer most questions better, and lead those astray that ask about the wrong one. And what a unit's
own words count: a fit puts it all on the windows, and a unit that says it should always come before the one beside it.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from runtime.memory.recall.memory_index import MemoryIndex
from runtime.memory.recall.query import Question
from runtime.memory.recall.ranking import OTHER, VERSION, Ranker, Weight, Weights
from runtime.memory.recall.signals import LIKE, MEANING, SIGNALS, SUMMARY, Usual

Matrix = NDArray[np.float64]

GIVEN = {"asked_source": 0.2, "words": 0.2}
RIDGE = 2.0
STEPS_MAX = 30
SCALE_MIN = 1e-3  # of a signal that is always the same
GAIN_MIN = 1e-3  # of the whole loss

HYBRID = tuple(name for name in SIGNALS if name not in SUMMARY)
LEXICAL = tuple(name for name in HYBRID if name not in MEANING)
DENSE = tuple(name for name in HYBRID if name in MEANING or name in LIKE)


class Sample(Struct, frozen=True):
    """A question's candidates: their signals by the columns of SIGNALS, and which are evidence."""

    conversation: str
    category: int
    sequences: NDArray[np.int64]
    signals: Matrix
    is_evidence: NDArray[np.bool_]
    evidence: int  # all there is of it, whether among the candidates or not


def neutral(usual: Usual | None = None) -> Weights:
    """Weights under which no candidate is preferred; `usual` are the similarities of the embedder."""
    ranker = Ranker({}, 1.0, 0.0, usual)
    return Weights(VERSION, ranker, {OTHER: ranker}, {OTHER: ranker})


def sampled(
    bank: MemoryIndex, question: Question, *, conversation: str, category: int, evidence: frozenset[int]
) -> Sample:
    """What the bank sees of a question."""
    looked = bank.look(question)
    if looked is None:
        nothing = np.empty(0, np.int64)
        return Sample(conversation, category, nothing, np.empty((0, len(SIGNALS))), nothing > 0, len(evidence))
    missing = np.full(len(looked.rows), np.nan)
    signals = np.stack([looked.signals.get(name, missing) for name in SIGNALS], axis=1).astype(np.float64)
    is_evidence = np.isin(looked.sequences, list(evidence))
    return Sample(conversation, category, looked.sequences, signals, is_evidence, len(evidence))


def fitted(samples: Sequence[Sample], names: Sequence[str], fixed: Mapping[str, float]) -> Ranker:
    """The ranker that finds the evidence of these questions best, by these signals."""
    answerable = [sample for sample in samples if sample.is_evidence.any()]
    columns = [SIGNALS.index(name) for name in names]
    signals = np.concatenate([sample.signals[:, columns] for sample in answerable])
    mean, scale = np.nanmean(signals, axis=0), np.maximum(np.nanstd(signals, axis=0), SCALE_MIN)
    signals = np.nan_to_num((signals - mean) / scale)
    weights = _listwise(signals, answerable, names, fixed)
    total = signals @ weights
    slope, intercept = _logistic(total, np.concatenate([sample.is_evidence for sample in answerable]))
    parts = zip(names, weights.tolist(), mean.tolist(), scale.tolist(), strict=True)
    return Ranker(
        {name: Weight(*(round(number, 5) for number in part)) for name, *part in parts},
        round(slope, 5),
        round(intercept, 5),
    )


def with_summaries(ranker: Ranker, samples: Sequence[Sample]) -> Ranker:
    """A ranker to which summaries count, too: all else counts what it did, where there are summaries or not."""
    known = {name: usual.weight for name, usual in ranker.signals.items()}
    names = [name for name in SUMMARY if "meaning" in ranker.signals or name not in MEANING]
    names = [name for name in names if "words" in ranker.signals or name in MEANING]
    wider = fitted(samples, [*known, *names], known)
    return replace(ranker, signals=ranker.signals | {name: wider.signals[name] for name in names})


def _listwise(
    signals: Matrix, answerable: Sequence[Sample], names: Sequence[str], fixed: Mapping[str, float]
) -> Matrix:
    counts = np.array([len(sample.is_evidence) for sample in answerable])
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    question = np.repeat(np.arange(len(answerable)), counts)
    wanted = np.concatenate([sample.is_evidence / sample.is_evidence.sum() for sample in answerable])
    weights = np.array([fixed.get(name, 0.0) for name in names])
    free = np.array([name not in fixed for name in names])

    def chances(at: Matrix) -> tuple[Matrix, float]:
        scores = signals @ at
        highest = np.maximum.reduceat(scores, starts)
        powers = np.exp(scores - highest[question])
        sums = np.add.reduceat(powers, starts)
        gain = float(wanted @ scores - (highest + np.log(sums)).sum() - RIDGE * (at @ at))
        return powers / sums[question], gain

    chance, gain = chances(weights)
    for _ in range(STEPS_MAX):
        slope = signals.T @ (wanted - chance) - 2 * RIDGE * weights
        means = np.add.reduceat(signals * chance[:, None], starts)
        curve = (signals * chance[:, None]).T @ signals - means.T @ means + 2 * RIDGE * np.eye(len(weights))
        step = np.zeros(len(weights))
        step[free] = np.linalg.solve(curve[np.ix_(free, free)], slope[free])
        reach, before = 1.0, gain
        while reach > 1e-6:
            chance, gain = chances(weights + reach * step)
            if gain >= before:
                break
            reach /= 2
        weights = weights + reach * step
        if gain - before < GAIN_MIN:
            break
    return weights


def _logistic(totals: Matrix, is_evidence: NDArray[np.bool_]) -> tuple[float, float]:
    """Slope and intercept that make a total the chance to be evidence."""
    design = np.stack([totals, np.ones_like(totals)], axis=1)
    at = np.array([1.0, -5.0])
    for _ in range(STEPS_MAX):
        chance = 1 / (1 + np.exp(-np.clip(design @ at, -30, 30)))
        curve = (design * (chance * (1 - chance))[:, None]).T @ design + 1e-6 * np.eye(2)
        at = at + np.clip(np.linalg.solve(curve, design.T @ (is_evidence - chance)), -1, 1)
    return float(at[0]), float(at[1])
