"""What work on memories looks like, and how a memory stands."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta

from api.schemas.base import Body, View
from api.schemas.memory import GroupId, StoredUnit, UserId

HISTORY_CHARS_MAX = 20_000
Policy: TypeAlias = Literal["oldest", "relevance"]
Share: TypeAlias = Annotated[float, Meta(gt=0, le=1)]


class NewSummary(Body, frozen=True, kw_only=True):
    """One `group` is to be summed up; without one all are, and then all of them together.

    One summary tells of at most `groupUnitsMax` units and about `groupTokensMax` tokens (default: the server's
    settings); `history` is what was known before everything, as background of the first ones.
    """

    user_id: UserId = None
    group: GroupId | None = None
    group_units_max: Annotated[int, Meta(ge=2, le=1_000)] | None = None
    group_tokens_max: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    history: Annotated[str, Meta(max_length=HISTORY_CHARS_MAX)] = ""


class NewForgetting(Body, frozen=True, kw_only=True):
    """The `share` that is to be forgotten of what may be. With `dryRun` it is only told what would go."""

    user_id: UserId = None
    share: Share = 0.1
    policy: Policy = "oldest"
    dry_run: bool = False


class NewEmbedding(Body, frozen=True, kw_only=True):
    """Units are to have vectors of the server's embedder, also those that only others have seen."""

    user_id: UserId = None


class JobView(View, frozen=True, kw_only=True):
    """Work that somebody asked for: `done` of `total` units, where that is known; what came of it, or why it failed."""

    job_id: str
    user_id: str
    kind: Literal["summarise", "forget", "embed"]
    options: Mapping[str, Any]
    status: Literal["queued", "running", "done", "failed"]
    done: int
    total: int
    result: Mapping[str, Any] | None
    error: str | None
    created_at: datetime
    updated_at: datetime


class JobAnswer(View, frozen=True, kw_only=True):
    """One piece of work."""

    job: JobView
    success: bool = True


class JobList(View, frozen=True, kw_only=True):
    """A page of work, the newest first."""

    data: Sequence[JobView]
    next_cursor: str | None
    success: bool = True


class WouldGo(View, frozen=True, kw_only=True):
    """The units that would be forgotten, what matters least first; no more than 1,000 of `total` are shown."""

    units: Sequence[StoredUnit]
    total: int


class ForgettingAnswer(View, frozen=True, kw_only=True):
    """The work, or with `dryRun` what it would do."""

    job: JobView | None
    would_go: WouldGo | None
    success: bool = True


class UnitsByRank(View, frozen=True, kw_only=True):
    """How many units there are: said or noted, summaries within groups, summaries of groups."""

    said: int
    of_groups: int
    of_all: int


class EmbedderView(View, frozen=True, kw_only=True):
    """The embedder of the server, and how it is; `id` is null where it is not loaded, or there is none."""

    id: str | None
    state: str


class StatusView(View, frozen=True, kw_only=True):
    """How a memory stands; one in which nothing has ever been has no `memoryId`.

    `vectors` are those of each embedder; `withoutVector` units have one of none and are found by their words until they
    do, `seenOtherwise` units have vectors of other embedders only. `offers` names what would help: `embed` (a new
    embedder is to see the units), `summarise` (a summary tells of what is gone). `jobs` are waiting or under way.
    """

    user_id: str
    memory_id: str | None
    round: int
    units: UnitsByRank
    groups: int
    is_stale: bool
    embedder: EmbedderView
    vectors: Mapping[str, int]
    without_vector: int
    seen_otherwise: int
    offers: Sequence[Literal["embed", "summarise"]]
    jobs: Sequence[JobView]
    success: bool = True
