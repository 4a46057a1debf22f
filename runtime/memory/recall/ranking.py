"""The weights of the signals: fitted, read from `weights.json` and validated.

A signal is standardised to mean 0 and scale 1 with the figures it had when the weights were fitted, then weighted;
the logistic function maps the sum to a value between 0 and 1. Embedders differ in the worth of meaning, so each has
its own set; an embedder without a fitted set uses one that was fitted to several.
The file is written by `tests/benchmarks/fit_recall.py`.
"""

import functools
import math
from collections.abc import Mapping, Set
from importlib.resources import files

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from runtime.memory.recall.inverted_index import Floats
from runtime.memory.recall.signals import ASKED, LIKE, MEANING, SIGNALS, Usual

VERSION = 2
OTHER = "other"


class Weight(Struct, frozen=True, forbid_unknown_fields=True):
    """The weight of one signal, and its usual mean and scale."""

    weight: float
    mean: float
    scale: float


class Ranker(Struct, frozen=True, forbid_unknown_fields=True):
    """A linear model over named signals.

    `slope` and `intercept` map its sum to a value between 0 and 1. `usual` are the similarities of the embedder, if it
    is known.
    """

    signals: dict[str, Weight]
    slope: float
    intercept: float
    usual: Usual | None = None

    def shares(self, signals: Mapping[str, Floats]) -> dict[str, Floats]:
        """Return each signal's share for each candidate: 0 if the signal is unknown."""
        shares = {}
        nothing = np.full(len(next(iter(signals.values()))), np.nan, np.float32)
        for name, usual in self.signals.items():
            share = (signals.get(name, nothing) - np.float32(usual.mean)) * np.float32(usual.weight / usual.scale)
            share[np.isnan(share)] = 0
            shares[name] = share
        return shares

    def scores(self, shares: Mapping[str, Floats]) -> NDArray[np.float64]:
        """Return a score from 0 to 1 for each candidate."""
        total = np.sum(np.stack([*shares.values()]), axis=0, dtype=np.float64)
        scores: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(self.slope * total + self.intercept, -60, 60)))
        return scores


class Weights(Struct, frozen=True, forbid_unknown_fields=True):
    """The rankers: for words alone, and by embedder for words and meaning and for meaning alone."""

    version: int
    lexical: Ranker
    hybrid: dict[str, Ranker]
    dense: dict[str, Ranker]


def read_weights(text: bytes) -> Weights:
    """Return weights from JSON. Raises ValueError for invalid data or another version."""
    try:
        weights = msgspec.json.decode(text, type=Weights)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"these are not weights of recall: {error}") from error
    if weights.version != VERSION:
        raise ValueError(f"weights of recall have version {VERSION}, not {weights.version}; fit them again")
    _check(weights.lexical, "lexical", {*SIGNALS} - {*MEANING})
    for kind, rankers in (("hybrid", weights.hybrid), ("dense", weights.dense)):
        if OTHER not in rankers:
            raise ValueError(f"{kind} weights of recall need a set {OTHER!r}, for embedders without a set of their own")
        for name, ranker in rankers.items():
            _check(ranker, f"{kind} of {name}", {*SIGNALS} if kind == "hybrid" else {*MEANING, *LIKE, *ASKED})
    return weights


def _check(ranker: Ranker, which: str, known: Set[str]) -> None:
    if strange := ranker.signals.keys() - known:
        raise ValueError(f"weights of recall, {which}: there is no signal {sorted(strange)[0]!r}")
    numbers = [ranker.slope, ranker.intercept]
    if ranker.usual is not None:
        numbers += [ranker.usual.mean, ranker.usual.deviation]
    for weight in ranker.signals.values():
        numbers += [weight.weight, weight.mean, weight.scale]
    if not all(map(math.isfinite, numbers)) or ranker.slope <= 0:
        raise ValueError(f"weights of recall, {which}: a number is not finite, or the slope is not above 0")
    scales = [weight.scale for weight in ranker.signals.values()]
    if any(scale <= 0 for scale in scales) or (ranker.usual is not None and ranker.usual.deviation <= 0):
        raise ValueError(f"weights of recall, {which}: a scale or deviation is not above 0")


@functools.cache
def shipped_weights() -> Weights:
    """Return the weights shipped with Cuebook."""
    return read_weights(files("runtime.memory.recall").joinpath("weights.json").read_bytes())


def set_of(embedder: str, rankers: Mapping[str, Ranker]) -> str:
    """Return the set of weights for an embedder: its own, or the one for all others."""
    bare = _bare(embedder)
    return next((name for name in rankers if name != OTHER and _bare(name) in bare), OTHER)


def _bare(name: str) -> str:
    """Return a name without signs: folders and packages write a model's name in different ways."""
    return "".join(character for character in name.casefold() if character.isalnum())
