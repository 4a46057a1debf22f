"""The weights of the signals: fitted, and read from `weights.json`.

A signal is standardised to mean 0 and scale 1 with the figures it had when the weights were fitted, then weighted;
the logistic function maps the sum to a value between 0 and 1. Embedders differ in the worth of meaning, so each has
its own set; an embedder without a fitted set uses one that was fitted to several.
The file is written by `tests/benchmarks/fit_recall.py`.
"""

import functools
from collections.abc import Mapping
from importlib.resources import files
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from runtime.memory.recall.inverted_index import Floats
from runtime.memory.recall.signals import Usual

VERSION: Literal[2] = 2
OTHER = "other"
"""The set for embedders without a set of their own."""


class Weight(Struct, frozen=True, forbid_unknown_fields=True):
    """The weight of one signal, and its usual mean and scale."""

    weight: float
    mean: float
    scale: Annotated[float, Meta(gt=0)]


class Ranker(Struct, frozen=True, forbid_unknown_fields=True):
    """A linear model over named signals.

    `slope` and `intercept` map its sum to a value between 0 and 1. `usual` are the similarities of the embedder, if it
    is known.
    """

    signals: dict[str, Weight]
    slope: Annotated[float, Meta(gt=0)]
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

    version: Literal[2]
    lexical: Ranker
    hybrid: dict[str, Ranker]
    dense: dict[str, Ranker]


@functools.cache
def shipped_weights() -> Weights:
    """Return the weights shipped with Cuebook."""
    return msgspec.json.decode(files("runtime.memory.recall").joinpath("weights.json").read_bytes(), type=Weights)


def set_of(embedder: str, rankers: Mapping[str, Ranker]) -> str:
    """Return the set of weights for an embedder: its own, or the one for all others."""
    bare = _bare(embedder)
    return next((name for name in rankers if name != OTHER and _bare(name) in bare), OTHER)


def _bare(name: str) -> str:
    """Return a name without signs: folders and packages write a model's name in different ways."""
    return "".join(character for character in name.casefold() if character.isalnum())
