"""What may be asked of a memory and put into it, and what comes of it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, get_args

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from api.memory.refusals import MemoryRefused
from runtime.memory.recall.asking import Decay, Strategy
from runtime.memory.units import MemoryUnit, Trust
from scripts.nodes import ID_CHARS_MAX
from scripts.values import Value, ValueRefused, bounded, is_unicode
from store.memory.filters import Filter

K_MAX = 1_000
TEXT_CHARS_MAX = 100_000
GROUP_CHARS_MAX = 200
SOURCE_CHARS_MAX = 200
AROUND_MAX = 20
TIMES_MAX = 20
UNITS_MAX = 10_000  # that may be added at a time

Vector = NDArray[np.float32]


class NewUnit(Struct, frozen=True, kw_only=True):
    """A unit to be added: something that was said or is to be known."""

    content: str
    source: str = "user"
    creation_time: datetime | None = None  # None: now, or when it ended
    end_time: datetime | None = None  # None: as it began
    metadata: Mapping[str, Value] = {}
    never_delete: bool = False
    trust: Trust = "told"
    unit_id: str = ""  # empty: a new one
    vector: Vector | None = None  # None: the embedder's, as soon as it comes to it
    supersedes: str = ""  # the unit in whose place it holds

    def check(self) -> None:
        """Raises MemoryRefused where it cannot be a unit: why, without which it is."""
        if not self.content.strip():
            raise MemoryRefused("has no text")
        if len(self.content) > TEXT_CHARS_MAX:
            raise MemoryRefused(f"has more than {TEXT_CHARS_MAX:,} characters")
        if not all(map(is_unicode, (self.content, self.source, self.unit_id))):
            raise MemoryRefused("is not valid Unicode")
        if len(self.unit_id) > ID_CHARS_MAX:
            raise MemoryRefused(f"has an id of more than {ID_CHARS_MAX} characters")
        if len(self.source) > SOURCE_CHARS_MAX:
            raise MemoryRefused(f"has a source of more than {SOURCE_CHARS_MAX} characters")
        if self.trust not in get_args(Trust):
            raise MemoryRefused(f"has a trust that is none of {', '.join(get_args(Trust))}")
        times = [time for time in (self.creation_time, self.end_time) if time is not None]
        if any(time.tzinfo is None for time in times):
            raise MemoryRefused("has a time without its zone; give one such as datetime.now(UTC)")
        if not all(map(is_within_utc, times)):
            raise MemoryRefused("has a time that is not within the years 1 to 9999 of UTC")
        if times != sorted(times):
            raise MemoryRefused("ends before it begins")
        try:
            bounded(self.metadata)
        except ValueRefused as error:
            raise MemoryRefused(f"has metadata that cannot be kept: {error}") from error


_FIELDS = frozenset(NewUnit.__struct_fields__)


def new_unit(given: "NewUnit | Mapping[str, Any] | str") -> NewUnit:
    """Return a unit of what a program gives: a unit, a text, or a mapping.

    A mapping has the fields of NewUnit, or is a message `{"role": ..., "content": ...}` whose `name`, or else its role,
    is the source. Raises MemoryRefused.
    """
    if isinstance(given, NewUnit):
        return given
    if isinstance(given, str):
        return NewUnit(content=given)
    if not isinstance(given, Mapping):
        raise MemoryRefused(f"is a text, a mapping or a NewUnit, not {type(given).__name__}")
    fields = dict(given)
    if "role" in fields:
        role, name = fields.pop("role"), fields.pop("name", None)
        fields.setdefault("source", name or role)
    if unknown := sorted(set(map(str, fields)) - _FIELDS):
        raise MemoryRefused(f"has no field {unknown[0]!r}; the fields are role, name, {', '.join(sorted(_FIELDS))}")
    if not isinstance(fields.get("content"), str):
        raise MemoryRefused("has no `content` that is a text")
    return NewUnit(**fields)


class Query(Struct, frozen=True, kw_only=True):
    """What is to be recalled."""

    text: str = ""
    vector: Vector | None = None
    k: int = 5
    strategy: Strategy = "hybrid"
    filters: Filter | None = None
    ranks: Sequence[int] = (0,)
    min_score: float | None = None
    group: str = ""  # the session or collection that asks: its short-term memory is looked at first
    exclude_context: bool = False  # leave out the context of the group, which a prompt already holds
    short_term_only: bool = False
    long_term_only: bool = False
    add_to_short_term: bool = True
    recall_context: int = 0  # how many neighbours on either side come with a hit
    decay: Decay | None = None
    as_of: datetime | None = None  # None: now
    external: Sequence[str] = ()
    external_only: bool = False
    explain: bool = False

    def check(self) -> None:
        """Raises MemoryRefused where it contradicts itself or asks too much."""
        if not self.text.strip() and self.vector is None:
            raise MemoryRefused("a query needs a text or a vector")
        if len(self.text) > TEXT_CHARS_MAX:
            raise MemoryRefused(f"the text of a query has at most {TEXT_CHARS_MAX:,} characters")
        if not 1 <= self.k <= K_MAX:
            raise MemoryRefused(f"k is a number from 1 to {K_MAX:,}")
        if self.strategy not in get_args(Strategy):
            raise MemoryRefused(f"strategy is one of {', '.join(get_args(Strategy))}")
        if self.strategy == "lexical" and not self.text.strip():
            raise MemoryRefused("a query by words alone needs a text")
        if self.as_of is not None and self.as_of.tzinfo is None:
            raise MemoryRefused("as_of is a time with its zone, such as datetime.now(UTC)")
        if self.short_term_only and self.long_term_only:
            raise MemoryRefused("a query is short-term only or long-term only, not both")
        if self.short_term_only and not self.group:
            raise MemoryRefused("short-term memory is a session's or collection's: say which with `group`")
        if self.exclude_context and not self.group:
            raise MemoryRefused("a context is a session's or collection's: say which with `group`")
        if self.external_only and not self.external:
            raise MemoryRefused("external only, but no external memory is named")
        if self.external_only and (self.short_term_only or self.long_term_only):
            raise MemoryRefused("a query is external only or of the user's own memory, not both")
        if not 0 <= self.recall_context <= AROUND_MAX:
            raise MemoryRefused(f"at most {AROUND_MAX} neighbours on either side come with a hit")
        if not set(self.ranks) <= {0, 1, 2} or not self.ranks:
            raise MemoryRefused("ranks are 0 (said or noted), 1 (summaries of groups), 2 (summaries of all)")
        if self.min_score is not None and not 0 <= self.min_score <= 1:
            raise MemoryRefused("min_score is a number from 0 to 1")


def is_within_utc(time: datetime) -> bool:
    """Whether a time with a zone is one in UTC as well, which is how the record keeps it."""
    try:
        time.astimezone(UTC)
    except OverflowError:
        return False
    return True


class RecalledUnit(Struct, frozen=True, kw_only=True):
    """A unit that came of a query: a hit with its score and what speaks for it, or the neighbour of one.

    `count` units say the same as a hit, itself included, at `times`, the oldest first and the latest `TIMES_MAX`.
    """

    unit: MemoryUnit
    score: float | None = None
    signals: Mapping[str, float] = {}
    count: int = 1
    times: Sequence[datetime] = ()
    pre_id: str | None = None
    next_id: str | None = None


class RecalledChain(Struct, frozen=True, kw_only=True):
    """Units that follow one another, with at least one hit among them."""

    score: float
    units: Sequence[RecalledUnit]
    external: str = ""  # the memory it comes from; empty: the user's own


class Recalled(Struct, frozen=True):
    """What came of a query, the best chain first."""

    chains: Sequence[RecalledChain]
    round: int
