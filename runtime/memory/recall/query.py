"""Entries, queries and hits of a memory index."""

from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

DAY_S = 86_400.0
FOUND_MAX = 1_000  # hits of one question

Strategy: TypeAlias = Literal["hybrid", "lexical", "dense"]
"""The basis of a search: words and meaning, words alone, or meaning alone."""


class IndexEntry(Struct, frozen=True, kw_only=True):
    """A unit as an index stores it. `parent` is the sequence of the summary that covers it."""

    sequence: int
    group: str
    rank: int = 0
    source: str = ""
    created_at: datetime | None = None
    content: str
    parent: int | None = None
    has_attachment: bool = False
    is_pinned: bool = False  # its score does not decay

    @property
    def index_text(self) -> str:
        """Return the text to embed: the unit's words with their date and speaker."""
        return index_text(self.content, self.source, self.created_at)


def index_text(content: str, source: str = "", created_at: datetime | None = None) -> str:
    """Return a unit's content in the form that is embedded and indexed: `[8 May 2023] Ana: I have moved to Lisbon.`"""
    said = f"{source}: {content}" if source else content
    return f"{date_of(created_at)} {said}" if created_at is not None else said


def date_of(moment: datetime) -> str:
    """Return a day in the form of an index text: `[8 May 2023]`."""
    return f"[{moment.day} {_MONTHS[moment.month - 1]} {moment.year}]"


_MONTHS = (  # in every locale
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


class Decay(Struct, frozen=True):
    """The decay of scores: a score is halved every `half_life_s`, and never falls below `floor` times itself."""

    half_life_s: float
    floor: float = 0.8

    def __post_init__(self) -> None:
        if not self.half_life_s > 0 or not 0 <= self.floor <= 1:
            raise ValueError("a decay takes a half_life_s above 0 and a floor from 0 to 1")


def decay_of_days(half_life_days: float | None, floor: float = 0.8) -> Decay | None:
    """Return a decay with its half-life in days; None without one. Raises ValueError."""
    return None if half_life_days is None else Decay(half_life_days * DAY_S, floor)


class Question(Struct, frozen=True, kw_only=True):
    """A query: by words, by meaning (`vector`, of length 1), or by both.

    `allowed` are the sequences that may be returned (None: all); `excluded` are not returned even if allowed.
    Fillers, such as `ok`, are returned only `with_fillers`.
    """

    text: str = ""
    vector: NDArray[np.float32] | None = None
    k: int = 10
    allowed: NDArray[np.int64] | Set[int] | None = None
    excluded: Set[int] = frozenset()
    strategy: Strategy = "hybrid"
    decay: Decay | None = None
    now: datetime | None = None  # for the decay
    min_score: float | None = None
    explain: bool = False
    with_fillers: bool = False


class IndexHit(Struct, frozen=True):
    """A hit. `score` is from 0 to 1, comparable within one embedder: about the probability that the unit is an answer.

    `signals`, if requested, are the parts of the score: each named signal's share in it, before the logistic function.
    `faded` is the decay factor. `same` are the duplicates of the unit among those that might have been returned: the
    hit is the best one of them.
    """

    sequence: int
    score: float
    signals: Mapping[str, float] = {}
    same: tuple[int, ...] = ()


class Nearest(Protocol):
    """A vector index that finds the nearest vectors without comparing all."""

    def search(
        self, vector: NDArray[np.float32], k: int, allowed: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return up to `k` sequences, of `allowed` if given, with their cosine similarities, the nearest first."""
        ...


def sequences_of(wanted: NDArray[np.int64] | Set[int] | Sequence[int]) -> NDArray[np.int64]:
    """Return sequences as a sorted array."""
    if isinstance(wanted, np.ndarray):
        return np.unique(wanted.astype(np.int64, copy=False))
    return np.unique(np.fromiter(wanted, np.int64, len(wanted)))
