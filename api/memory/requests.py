"""Requests to a memory: new units and queries."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from numbers import Integral, Real
from typing import Any, get_args

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from api.schemas.ids import has_control
from api.schemas.memory import K_MAX, NEIGHBOURS_MAX, UNIT_CHARS_MAX, unit_fields
from api.schemas.memory_errors import InvalidMemoryRequest
from runtime.memory.recall.query import Decay, Strategy
from runtime.state.recall_types import Trust
from scripts.expressions.values import Value, ValueRefused, is_unicode, to_value
from scripts.model.base import ID_CHARS_MAX
from store.interface.memory_filters import Filter, fields_of

SOURCE_CHARS_MAX = 200
UNITS_MAX = 10_000  # per request

Vector = NDArray[np.float32]


_UNIT_KINDS: Mapping[str, tuple[Any, str]] = {
    "content": (str, "a text"),
    "source": (str, "a text"),
    "unit_id": (str, "a text"),
    "supersedes": (str | None, "the id of a unit"),
    "creation_time": (datetime | None, "a time, such as datetime.now(UTC)"),
    "end_time": (datetime | None, "a time, such as datetime.now(UTC)"),
}
"""The types of fields of a new unit, and what an error says that they must be."""


class NewUnit(Struct, frozen=True, kw_only=True):
    """A unit to add: a message or a note."""

    content: str
    source: str = "user"
    creation_time: datetime | None = None  # None: now, or `end_time` if that is earlier
    end_time: datetime | None = None  # None: `creation_time`
    metadata: Mapping[str, Value] = {}
    never_delete: bool = False
    trust: Trust = "conversation"
    unit_id: str = ""  # empty: a generated one
    vector: Vector | None = None  # None: the embedder computes it later
    supersedes: str = ""  # the unit that this one replaces

    def check(self) -> "NewUnit":
        """Return the unit with metadata that can be stored. Raises InvalidMemoryRequest if it is invalid; the message
        is a predicate, to follow a subject.
        """
        _require_kinds(self, _UNIT_KINDS, "has an invalid field: ")
        if not self.content.strip():
            raise InvalidMemoryRequest("has no text")
        if len(self.content) > UNIT_CHARS_MAX:
            raise InvalidMemoryRequest(f"has more than {UNIT_CHARS_MAX:,} characters")
        if not all(map(is_unicode, (self.content, self.source, self.unit_id))):
            raise InvalidMemoryRequest("is not valid Unicode")
        if has_control(self.unit_id):
            raise InvalidMemoryRequest("has an id with a control character or a line break")
        if has_control(self.source):
            raise InvalidMemoryRequest("has a source with a control character or a line break")
        if len(self.unit_id) > ID_CHARS_MAX:
            raise InvalidMemoryRequest(f"has an id of more than {ID_CHARS_MAX} characters")
        if len(self.source) > SOURCE_CHARS_MAX:
            raise InvalidMemoryRequest(f"has a source of more than {SOURCE_CHARS_MAX} characters")
        if self.trust not in get_args(Trust):
            raise InvalidMemoryRequest(f"has an unknown trust level; it must be one of {', '.join(get_args(Trust))}")
        times = [time for time in (self.creation_time, self.end_time) if time is not None]
        if any(time.tzinfo is None for time in times):
            raise InvalidMemoryRequest("has a time without a time zone; use e.g. datetime.now(UTC)")
        if not all(map(is_within_utc, times)):
            raise InvalidMemoryRequest("has a time that is not within the years 1 to 9999 of UTC")
        if times != sorted(times):
            raise InvalidMemoryRequest("ends before it begins")
        try:
            metadata = to_value(self.metadata)
        except ValueRefused as error:
            raise InvalidMemoryRequest(f"has metadata that cannot be stored: {error}") from error
        if not isinstance(metadata, dict):
            raise InvalidMemoryRequest("has metadata that is not a mapping")
        return replace(self, metadata=metadata)


_FIELDS = frozenset(NewUnit.__struct_fields__)
_CHECKED_LATER = frozenset({"metadata", "trust", "vector"})  # `check` names what is wrong with them


def new_unit(value: "NewUnit | Mapping[str, Any] | str") -> NewUnit:
    """Convert a text or a mapping to a NewUnit; return a NewUnit unchanged.

    A mapping has the fields of NewUnit, or is a message `{"role": ..., "content": ...}` whose `name`, or else its role,
    is the source; None is the default of each field. Raises InvalidMemoryRequest.
    """
    if isinstance(value, NewUnit):
        return value
    if isinstance(value, str):
        return NewUnit(content=value)
    if not isinstance(value, Mapping):
        raise InvalidMemoryRequest(f"must be a text, a mapping or a NewUnit, not {type(value).__name__}")
    fields = unit_fields(value)
    if unknown := sorted(set(map(str, fields)) - _FIELDS):
        raise InvalidMemoryRequest(
            f"has no field {unknown[0]!r}; the fields are role, name, {', '.join(sorted(_FIELDS))}"
        )
    if not isinstance(fields.get("content"), str):
        raise InvalidMemoryRequest("has no `content` that is a text")
    later = {name: fields.pop(name) for name in _CHECKED_LATER & fields.keys()}
    try:
        return replace(msgspec.convert(fields, NewUnit), **later)
    except msgspec.ValidationError as error:
        raise InvalidMemoryRequest(f"has an invalid field: {error}") from error


_OF_SUMMARIES = frozenset({"rank", "level", "is_extract"})
"""Fields by which a filter tells summaries from messages and notes."""


_QUERY_KINDS: Mapping[str, tuple[Any, str]] = {
    "text": (str, "a text"),
    "k": (Integral, f"a whole number from 1 to {K_MAX:,}"),
    "ranks": (Collection | None, "a list of ranks"),
    "min_score": (Real | None, "a number from 0 to 1"),
    "group": (str, "the name of a session or collection"),
    "recall_context": (Integral, f"a boolean, or a whole number from 0 to {NEIGHBOURS_MAX}"),
    "decay": (Decay | None, "a mapping such as {'half_life_days': 30, 'floor': 0.8}"),
    "as_of": (datetime | None, "a time with a time zone, such as datetime.now(UTC)"),
    "external": (Collection, "a list of names of external memories"),
}
"""The types of fields of a query, and what an error says that they must be. Programs may compute them with NumPy."""


class Query(Struct, frozen=True, kw_only=True):
    """A search of a memory."""

    text: str = ""
    vector: Vector | None = None
    k: int = 5
    strategy: Strategy = "hybrid"
    filters: Filter | None = None
    ranks: Sequence[int] | None = None  # None: messages and notes, or what `filters` select by rank
    min_score: float | None = None
    group: str = ""  # the current session or collection: its short-term memory is searched first
    exclude_context: bool = False  # leave out the context of the group, which a prompt already contains
    short_term_only: bool = False
    long_term_only: bool = False
    add_to_short_term: bool = True
    recall_context: int = 0  # neighbours on either side of each hit
    decay: Decay | None = None
    as_of: datetime | None = None  # None: now
    external: Sequence[str] = ()
    external_only: bool = False
    explain: bool = False

    @property
    def searched_ranks(self) -> Sequence[int]:
        """Return the ranks of the units that can be found; a filter on fields of summaries finds summaries."""
        if self.ranks is not None:
            return self.ranks
        chosen = set() if self.filters is None else fields_of(self.filters)
        return (0, 1, 2) if chosen & _OF_SUMMARIES else (0,)

    def check(self) -> None:
        """Raise InvalidMemoryRequest if the query contradicts itself or exceeds a limit."""
        _require_kinds(self, _QUERY_KINDS)
        if not self.text.strip() and self.vector is None:
            raise InvalidMemoryRequest("a query needs a text or a vector")
        if len(self.text) > UNIT_CHARS_MAX:
            raise InvalidMemoryRequest(f"the text of a query must have at most {UNIT_CHARS_MAX:,} characters")
        if not 1 <= self.k <= K_MAX:
            raise InvalidMemoryRequest(f"k must be {_QUERY_KINDS['k'][1]}")
        if self.strategy not in get_args(Strategy):
            raise InvalidMemoryRequest(f"strategy must be one of {', '.join(get_args(Strategy))}")
        if self.strategy == "lexical" and not self.text.strip():
            raise InvalidMemoryRequest("a lexical query needs a text")
        if self.as_of is not None and self.as_of.tzinfo is None:
            raise InvalidMemoryRequest(f"as_of must be {_QUERY_KINDS['as_of'][1]}")
        if self.short_term_only and self.long_term_only:
            raise InvalidMemoryRequest("a query is short-term only or long-term only, not both")
        if self.short_term_only and not self.group:
            raise InvalidMemoryRequest("a short-term memory belongs to a session or collection: name it with `group`")
        if self.exclude_context and not self.group:
            raise InvalidMemoryRequest("a context belongs to a session or collection: name it with `group`")
        if self.external_only and not self.external:
            raise InvalidMemoryRequest("the query is external only, but names no external memory")
        if self.external_only and (self.short_term_only or self.long_term_only):
            raise InvalidMemoryRequest("a query is external only or of the user's own memory, not both")
        if not 0 <= self.recall_context <= NEIGHBOURS_MAX:
            raise InvalidMemoryRequest(f"a hit can have at most {NEIGHBOURS_MAX} neighbours on either side")
        if self.ranks is not None and not (self.ranks and all(rank in (0, 1, 2) for rank in self.ranks)):
            raise InvalidMemoryRequest(
                "ranks are 0 (messages and notes), 1 (summaries of groups), 2 (summaries of the memory)"
            )
        if self.min_score is not None and not 0 <= self.min_score <= 1:
            raise InvalidMemoryRequest(f"min_score must be {_QUERY_KINDS['min_score'][1]}")


def _require_kinds(struct: Struct, kinds: Mapping[str, tuple[Any, str]], before: str = "") -> None:
    """Raise InvalidMemoryRequest if a field has not its type; the message begins with `before`."""
    for name, (kind, what) in kinds.items():
        if not isinstance(getattr(struct, name), kind):
            raise InvalidMemoryRequest(f"{before}{name} must be {what}")


def is_within_utc(time: datetime) -> bool:
    """Return whether a time with a zone can be converted to UTC, in which the database stores it."""
    try:
        time.astimezone(UTC)
    except OverflowError:
        return False
    return True
