"""What units of memory look like, how they are added and asked for."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, field

from api.ids import ID_PATTERN
from api.schemas.base import Body, Id, View

UNITS_MAX = 1_000
"""That are added in one request."""
UNIT_CHARS_MAX = 100_000
GROUP_CHARS_MAX = 200
NUMBERS_MAX = 8_192
"""Of a vector."""
K_MAX = 1_000
NEIGHBOURS_MAX = 20
EXTERNAL_MAX = 20
DAYS_MAX = 36_500
COLLECTION = "notes"
"""The collection of what is added without the name of one."""

Trust: TypeAlias = Literal["own", "told", "foreign"]
Strategy: TypeAlias = Literal["hybrid", "lexical", "dense"]
Rank: TypeAlias = Literal[0, 1, 2]
GroupId: TypeAlias = Annotated[str, Meta(min_length=1, max_length=GROUP_CHARS_MAX, pattern=ID_PATTERN)]
UserId: TypeAlias = Annotated[
    Id | None, Meta(description="Whose memory; a key that is bound to a user need not say it.")
]
Words: TypeAlias = Annotated[str, Meta(max_length=UNIT_CHARS_MAX)]
Vector: TypeAlias = Annotated[list[float], Meta(min_length=1, max_length=NUMBERS_MAX)]


class NewUnitBody(Body, frozen=True, kw_only=True):
    """Something to be remembered.

    `creationTime` is now where none is given; `vector` is the embedder's, where none is; `supersedes` names the unit
    that does not hold any more from then on. A `unitId` of your own makes it safe to send a unit again.
    """

    content: Words
    source: Annotated[str, Meta(max_length=200, pattern=ID_PATTERN)] = "user"
    creation_time: datetime | None = None
    end_time: datetime | None = None
    metadata: dict[str, Any] = {}
    never_delete: bool = False
    trust: Trust = "told"
    unit_id: Id | None = None
    vector: Vector | None = None
    supersedes: Id | None = None


class NewUnits(Body, frozen=True, kw_only=True):
    """Units for one collection, which is made where there is none; all of them are added, or none."""

    user_id: UserId = None
    group: GroupId = COLLECTION
    units: Annotated[list[NewUnitBody], Meta(min_length=1, max_length=UNITS_MAX)]


class ChangedUnit(Body, frozen=True, kw_only=True):
    """Whether a unit is kept from being forgotten."""

    never_delete: bool


class DecayBody(Body, frozen=True, kw_only=True):
    """How what is older counts for less: half of it after so many days, and never less than the floor."""

    half_life_days: Annotated[float, Meta(ge=0.01, le=DAYS_MAX)]
    floor: Annotated[float, Meta(ge=0, le=1)] = 0.8


class NewQuery(Body, frozen=True, kw_only=True):
    """What is to be recalled: by `text`, `vector`, or both.

    `group` is the session or collection that asks: its short-term memory is looked at first, and with `excludeContext`
    the units of its context are left out, for a prompt that holds them already. `recallContext` is how many neighbours
    come with a hit on either side, true for one. `filters` is an object or a list of triples, such as
    `{"source": "user"}` or `[["source", "==", "user"]]`.
    """

    user_id: UserId = None
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
    as_of: datetime | None = None
    external: Annotated[list[str], Meta(max_length=EXTERNAL_MAX)] = []
    external_only: bool = False
    ranks: Annotated[list[Rank], Meta(min_length=1, max_length=3)] = field(default_factory=lambda: [0])
    explain: bool = False


class StoredUnit(View, frozen=True, kw_only=True):
    """A unit as it is recorded.

    `rank` 0: something said or noted; 1: a summary within its group; 2: a summary of groups. `lastVisit` is how far
    the memory had grown when it was last recalled. `isExtract`: a summary made without a model; `isStale`: one that is
    to be made anew.
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
    """A unit with its neighbours: what was said before and after it in its group, and what it sums up."""

    pre_id: str | None
    next_id: str | None
    children_ids: Sequence[str]


class UnitAnswer(View, frozen=True, kw_only=True):
    """One unit."""

    unit: UnitView
    success: bool = True


class UnitsAdded(View, frozen=True, kw_only=True):
    """The units that were added, in their order, as they are recorded."""

    data: Sequence[StoredUnit]
    success: bool = True


class UnitList(View, frozen=True, kw_only=True):
    """A page of units."""

    data: Sequence[UnitView]
    next_cursor: str | None
    success: bool = True


class ChainUnit(StoredUnit, frozen=True, kw_only=True):
    """A unit that was recalled: a hit with its score, or what stands beside one.

    `signals` are what speaks for a hit, where that was asked for. `count` units say the same, itself included, at
    `times` (the latest 20, the oldest first).
    """

    pre_id: str | None
    next_id: str | None
    is_hit: bool
    score: float | None
    signals: Mapping[str, float]
    count: int = 1
    times: Sequence[datetime] = ()


class ChainView(View, frozen=True, kw_only=True):
    """Units that follow one another; `score` is that of the best hit. `external`: the memory it is from, null: this."""

    score: float
    external: str | None
    units: Sequence[ChainUnit]


class RecalledView(View, frozen=True, kw_only=True):
    """What came of a query, the best chain first; `round` is how far the memory has grown."""

    chains: Sequence[ChainView]
    round: int
    success: bool = True


class GroupView(View, frozen=True, kw_only=True):
    """A session or collection: its units by rank, what it has in its context, and in its short-term memory.

    `shortTerm` is null where it has none.
    """

    group_id: str
    session_id: str | None
    created_at: datetime
    units: int
    summaries: int
    context: int
    short_term: int | None


class GroupList(View, frozen=True, kw_only=True):
    """A page of sessions and collections, the oldest first."""

    data: Sequence[GroupView]
    next_cursor: str | None
    success: bool = True


class NewGroup(Body, frozen=True, kw_only=True):
    """A collection to begin or to go on with: `LATEST` is the group that was begun last; none given is a new one.

    With `shortTerm` it keeps that many units in its short-term memory, with `contextLength` in its context.
    """

    user_id: UserId = None
    group: GroupId | None = None
    short_term: Annotated[int, Meta(ge=0, le=1_000)] | None = None
    context_length: Annotated[int, Meta(ge=1, le=1_000)] | None = None


class GroupAnswer(View, frozen=True, kw_only=True):
    """One session or collection."""

    group: GroupView
    success: bool = True


class ContextAnswer(View, frozen=True, kw_only=True):
    """What is in the context of a group, oldest first: what was said last."""

    units: Sequence[StoredUnit]
    success: bool = True


class Restoring(Body, frozen=True, kw_only=True):
    """The group whose last units go into short-term memory: `LATEST` is the one that was begun last besides."""

    user_id: UserId = None
    source: GroupId = "LATEST"


class Restored(View, frozen=True, kw_only=True):
    """How many units are in short-term memory then."""

    short_term: int
    success: bool = True
