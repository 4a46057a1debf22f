"""Requests and responses about units and groups of a memory, and searches."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta

from api.schemas.base import Body, Id, Moment, PageView, View
from api.schemas.ids import ID_PATTERN
from runtime.state.recall_types import Trust

UNITS_MAX = 1_000
"""The greatest number of units in one request."""
UNIT_CHARS_MAX = 100_000
GROUP_CHARS_MAX = 200
NUMBERS_MAX = 8_192
"""The greatest number of dimensions of a vector."""
K_MAX = 1_000
NEIGHBOURS_MAX = 20
EXTERNAL_MAX = 20
DAYS_MAX = 36_500
COLLECTION = "notes"
"""The collection of units that are added without a group."""

Strategy: TypeAlias = Literal["hybrid", "lexical", "dense"]
Rank: TypeAlias = Literal[0, 1, 2]
GroupId: TypeAlias = Annotated[str, Meta(min_length=1, max_length=GROUP_CHARS_MAX, pattern=ID_PATTERN)]
Words: TypeAlias = Annotated[str, Meta(max_length=UNIT_CHARS_MAX)]
Vector: TypeAlias = Annotated[list[float], Meta(min_length=1, max_length=NUMBERS_MAX)]


class NewUnitBody(Body, frozen=True, kw_only=True):
    """A unit to add.

    `creationTime` is now by default, `vector` that of the embedder; `supersedes` names the unit that is invalid from
    then on. A `unitId` of your own makes it safe to send a unit again.
    """

    content: Words
    source: Annotated[str, Meta(max_length=200, pattern=ID_PATTERN)] = "user"
    creation_time: Moment | None = None
    end_time: Moment | None = None
    metadata: dict[str, Any] | None = {}
    never_delete: bool = False
    trust: Trust = "conversation"
    unit_id: Id | None = None
    vector: Vector | None = None
    supersedes: Id | None = None


def unit_fields(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a new unit in a mapping, whose None is the default of a field.

    In a message `{"role": ..., "content": ...}`, its `name`, or else its role, is the source.
    """
    fields = {name: each for name, each in value.items() if each is not None}
    if "role" in fields:
        role, name = fields.pop("role"), fields.pop("name", None)
        fields.setdefault("source", name or role)
    return fields


class NewUnits(Body, frozen=True, kw_only=True):
    """Units for one collection, which is created if it is missing; all of them are added, or none."""

    user_id: Id
    group: GroupId = COLLECTION
    units: Annotated[list[NewUnitBody], Meta(min_length=1, max_length=UNITS_MAX)]


class ChangedUnit(Body, frozen=True, kw_only=True):
    """Whether a unit is protected from being forgotten."""

    never_delete: bool


class DecayBody(Body, frozen=True, kw_only=True):
    """The decay of older units: their weight halves with each half-life, and never falls below the floor."""

    half_life_days: Annotated[float, Meta(ge=0.01, le=DAYS_MAX)]
    floor: Annotated[float, Meta(ge=0, le=1)] = 0.8


class NewMemorySearch(Body, frozen=True, kw_only=True):
    """A search by `text`, `vector`, or both.

    `group` is the session or collection that searches: its short-term memory is searched first, and with
    `excludeContext` the units of its context are left out, for a prompt that contains them already. `recallContext` is
    the number of neighbours on either side of a hit, true for one. `filters` is an object or a list of triples, such as
    `{"source": "user"}` or `[["source", "==", "user"]]`.
    """

    user_id: Id
    text: Words = ""
    vector: Vector | None = None
    k: Annotated[int, Meta(ge=1, le=K_MAX)] = 5
    strategy: Strategy = "hybrid"
    filters: Any = None
    min_score: Annotated[float, Meta(ge=0, le=1)] | None = None
    group: GroupId | None = None
    short_term_only: bool = False
    long_term_only: bool = False
    recall_context: bool | Annotated[int, Meta(ge=0, le=NEIGHBOURS_MAX)] = False
    exclude_context: bool = False
    add_to_short_term: bool = True
    decay: DecayBody | None = None
    as_of: Moment | None = None
    external: Annotated[list[str], Meta(max_length=EXTERNAL_MAX)] | None = []
    external_only: bool = False
    ranks: Annotated[list[Rank], Meta(min_length=1, max_length=3)] | None = None
    explain: bool = False


class StoredUnit(View, frozen=True, kw_only=True):
    """A unit as it is stored.

    `rank` 0: a message or note; 1: a summary within its group; 2: a summary of groups. `lastVisit` is the size that the
    memory had when the unit was last recalled. `isExtract`: a summary made without a model; `isStale`: a summary that
    must be rebuilt.
    """

    unit_id: str
    sequence: int
    content: str
    source: str
    creation_time: datetime
    end_time: datetime
    metadata: Mapping[str, Any]
    rank: int
    level: int
    group_id: str
    parent_id: str | None
    visit_count: int
    last_visit: int
    never_delete: bool
    trust: Trust
    is_extract: bool
    is_stale: bool
    valid_from: datetime | None
    valid_to: datetime | None
    superseded_by: str | None
    duplicate_of: str | None


class UnitView(StoredUnit, frozen=True, kw_only=True):
    """A unit with its neighbours: the units before and after it in its group, and those that it summarises."""

    pre_id: str | None
    next_id: str | None
    children_ids: Sequence[str]


class UnitAnswer(View, frozen=True, kw_only=True):
    """One unit."""

    unit: UnitView


class UnitsAdded(View, frozen=True, kw_only=True):
    """The added units in order, as they are stored."""

    data: Sequence[StoredUnit]


class UnitList(PageView, frozen=True, kw_only=True):
    """A page of units."""

    data: Sequence[UnitView]


class ChainUnit(StoredUnit, frozen=True, kw_only=True):
    """A recalled unit: a hit with its score, or a neighbour of one.

    `signals` explain the score of a hit, if requested. `count` is the number of units with the same content, including
    this one, and `times` are their times (the latest 20, the oldest first).
    """

    pre_id: str | None
    next_id: str | None
    is_hit: bool
    score: float | None
    signals: Mapping[str, float]
    count: int = 1
    times: Sequence[datetime] = ()


class ChainView(View, frozen=True, kw_only=True):
    """Consecutive units; `score` is that of the best hit. `external`: the memory they are from, null: this one."""

    score: float
    external: str | None
    units: Sequence[ChainUnit]


class RecalledView(View, frozen=True, kw_only=True):
    """The result of a search, the best chain first; `round` is the size of the memory."""

    chains: Sequence[ChainView]
    round: int


class GroupView(View, frozen=True, kw_only=True):
    """A session or collection: its units by rank, the size of its context and of its short-term memory.

    `shortTerm` is null without a short-term memory.
    """

    group_id: str
    session_id: str | None
    created_at: datetime
    units: int
    summaries: int
    context: int
    short_term: int | None


class GroupList(PageView, frozen=True, kw_only=True):
    """A page of sessions and collections, the oldest first."""

    data: Sequence[GroupView]


class NewGroup(Body, frozen=True, kw_only=True):
    """A collection to create or continue: `LATEST` is the group created last; without a name a new one is created.

    `shortTerm` is the capacity of its short-term memory in units, `contextLength` that of its context.
    """

    user_id: Id
    group: GroupId | None = None
    short_term: Annotated[int, Meta(ge=0, le=1_000)] | None = None
    context_length: Annotated[int, Meta(ge=1, le=1_000)] | None = None


class GroupAnswer(View, frozen=True, kw_only=True):
    """One session or collection."""

    group: GroupView


class ContextAnswer(View, frozen=True, kw_only=True):
    """The context of a group: its last units, oldest first."""

    units: Sequence[StoredUnit]


class Restoring(Body, frozen=True, kw_only=True):
    """The group whose last units are copied to short-term memory: `LATEST` is the last created of the others that have
    units.
    """

    user_id: Id
    source: GroupId = "LATEST"


class Restored(View, frozen=True, kw_only=True):
    """The number of units in short-term memory afterwards."""

    short_term: int
