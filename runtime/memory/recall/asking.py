"""What goes into a bank, what is asked of it, and what it finds."""

from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

DAY_S = 86_400.0
FOUND_MAX = 1_000  # hits of one question

Strategy: TypeAlias = Literal["hybrid", "lexical", "dense"]
"""What a question is answered by: words and meaning, words alone, or meaning alone."""


class Entry(Struct, frozen=True, kw_only=True):
    """A unit as a bank keeps it. `parent` is the sequence of the summary it is told in, `duplicate_of` that of an
    earlier unit which says nearly the same.
    """

    sequence: int
    group: str
    rank: int = 0
    source: str = ""
    created_at: datetime | None = None
    content: str
    parent: int | None = None
    duplicate_of: int | None = None
    has_attachment: bool = False
    is_pinned: bool = False  # does not fade with time

    @property
    def index_text(self) -> str:
        """The unit's words with when and by whom they were said: what is embedded."""
        return index_text(self.content, self.source, self.created_at)


def index_text(content: str, source: str = "", created_at: datetime | None = None) -> str:
    """A unit's content as it is embedded and indexed: `[8 May 2023] Ana: I have moved to Lisbon.`"""
    said = f"{source}: {content}" if source else content
    return f"{date_of(created_at)} {said}" if created_at is not None else said


def date_of(moment: datetime) -> str:
    """A day as it stands in an index text: `[8 May 2023]`."""
    return f"[{moment.day} {_MONTHS[moment.month - 1]} {moment.year}]"


_MONTHS = (  # in every locale
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


class Decay(Struct, frozen=True):
    """How units fade: a score is halved every `half_life_s`, and never falls below the part `floor` of itself."""

    half_life_s: float
    floor: float = 0.8

    def __post_init__(self) -> None:
        if not self.half_life_s > 0 or not 0 <= self.floor <= 1:
            raise ValueError("a decay takes a half_life_s above 0 and a floor from 0 to 1")


def decay_of_days(half_life_days: float | None, floor: float) -> Decay | None:
    """A decay with its half-life in days; None for none. Raises ValueError."""
    return None if half_life_days is None else Decay(half_life_days * DAY_S, floor)


class Question(Struct, frozen=True, kw_only=True):
    """What is looked for: by its words, by its meaning (`vector`, of length 1), or by both.

    `allowed` are the sequences that may be found (None: all of them); `excluded` are left out besides.
    Fillers, such as `ok`, are found only `with_fillers`.
    """

    text: str = ""
    vector: NDArray[np.float32] | None = None
    k: int = 10
    allowed: NDArray[np.int64] | Set[int] | None = None
    excluded: Set[int] = frozenset()
    strategy: Strategy = "hybrid"
    decay: Decay | None = None
    now: datetime | None = None  # of the decay
    min_score: float | None = None
    explain: bool = False
    with_fillers: bool = False


class Found(Struct, frozen=True):
    """A hit. `score` is from 0 to 1, comparable within one embedder: about how likely the unit is an answer.

    `signals`, where they were asked for, are what the score is made of: each named signal's share in it, before it is
    brought between 0 and 1. `faded` is what time left of the score. `same` are the other units that say the same, of
    those that might have been found: the hit is the one of them that fits best.
    """

    sequence: int
    score: float
    signals: Mapping[str, float] = {}
    same: tuple[int, ...] = ()


class Nearest(Protocol):
    """An index of vectors that knows the nearest without looking at every one."""

    def search(
        self, vector: NDArray[np.float32], k: int, allowed: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Up to `k` sequences with their cosine similarities, the nearest first; of `allowed` alone, where given."""
        ...


def sequences_of(wanted: NDArray[np.int64] | Set[int] | Sequence[int]) -> NDArray[np.int64]:
    """Sequences as a sorted array."""
    if isinstance(wanted, np.ndarray):
        return np.unique(wanted.astype(np.int64, copy=False))
    return np.unique(np.fromiter(wanted, np.int64, len(wanted)))
