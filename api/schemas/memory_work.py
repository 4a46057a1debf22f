"""Requests and responses about jobs, status and imports of a memory."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta

from api.schemas.base import Body, Id, PageView, View
from api.schemas.memory import GroupId, StoredUnit

HISTORY_CHARS_MAX = 20_000
Policy: TypeAlias = Literal["oldest", "relevance"]
Share: TypeAlias = Annotated[float, Meta(gt=0, le=1)]
GroupUnits: TypeAlias = Annotated[int, Meta(ge=2, le=1_000)]
GroupTokens: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000)]


class NewSummary(Body, frozen=True, kw_only=True):
    """A request to summarise one `group`; without one all groups are summarised, then all of them together.

    One summary covers at most `groupUnitsMax` units and about `groupTokensMax` tokens (default: the server's
    settings); `history` is background knowledge for the first summaries.
    """

    user_id: Id
    group: GroupId | None = None
    group_units_max: GroupUnits | None = None
    group_tokens_max: GroupTokens | None = None
    history: Annotated[str, Meta(max_length=HISTORY_CHARS_MAX)] = ""


class NewForgetting(Body, frozen=True, kw_only=True):
    """The `share` to forget of the units that may be forgotten. With `dryRun` the response only previews the units."""

    user_id: Id
    share: Share = 0.1
    policy: Policy = "oldest"
    dry_run: bool = False


class NewEmbedding(Body, frozen=True, kw_only=True):
    """A request to embed units without a vector of the server's embedder."""

    user_id: Id


class JobView(View, frozen=True, kw_only=True):
    """A requested job: `done` of `total` units, if known; the result, or the error of the last attempt, if it failed.

    A job that is `running` with an error is tried again.
    """

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
    """One job."""

    job: JobView


class JobList(PageView, frozen=True, kw_only=True):
    """A page of jobs, the newest first."""

    data: Sequence[JobView]


class WouldGo(View, frozen=True, kw_only=True):
    """The units that would be forgotten, the least important first; at most 1,000 of `total` are shown."""

    units: Sequence[StoredUnit]
    total: int


class ForgettingAnswer(View, frozen=True, kw_only=True):
    """The job, or with `dryRun` its preview."""

    job: JobView | None
    would_go: WouldGo | None


class UnitsByRank(View, frozen=True, kw_only=True):
    """The number of units: messages and notes, summaries within groups, summaries of groups."""

    said: int
    of_groups: int
    of_all: int


class EmbedderView(View, frozen=True, kw_only=True):
    """The embedder of the server and its state; `id` is null if it is not loaded or there is none."""

    id: str | None
    state: str


class StatusView(View, frozen=True, kw_only=True):
    """The status of a memory; a memory that never had a unit has no `memoryId`.

    `vectors` counts the vectors of each embedder. `withoutVector` units have no vector and are found by words only;
    `seenOtherwise` units have vectors of other embedders only. `offers` names useful jobs: `embed` (units lack a vector
    of the current embedder), `summarise` (a summary covers removed units). `jobs` are waiting or running.
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


class MemoryImportView(View, frozen=True, kw_only=True):
    """The result of an import, or with `dryRun` its preview.

    `leftOut` counts summaries of all groups that were skipped because the memory has one.
    """

    units: int
    groups: int
    vectors: int
    embedder: str | None
    left_out: int
    dry_run: bool
