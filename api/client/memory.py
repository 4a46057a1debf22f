"""Memories of users over HTTP: add units, search, list, and run maintenance jobs."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

import msgspec

from api.client.transport import HttpTransport, waiting
from api.schemas.ids import in_path
from api.schemas.memory import (
    COLLECTION,
    UNITS_MAX,
    ChangedUnit,
    ContextAnswer,
    DecayBody,
    GroupAnswer,
    GroupList,
    GroupView,
    NewGroup,
    NewMemorySearch,
    NewUnitBody,
    NewUnits,
    Rank,
    RecalledView,
    Restored,
    Restoring,
    StoredUnit,
    Strategy,
    UnitAnswer,
    UnitList,
    UnitsAdded,
    UnitView,
    unit_fields,
)
from api.schemas.memory_work import (
    ForgettingAnswer,
    JobAnswer,
    JobList,
    JobView,
    NewEmbedding,
    NewForgetting,
    NewSummary,
    Policy,
    StatusView,
    WouldGo,
)
from runtime.state.recall_types import Trust

WAIT_S = 30
"""How long one request waits for a job, in seconds."""


class Memory:
    """The memories of a server, one per user. All methods raise CuebookError."""

    def __init__(self, wire: HttpTransport) -> None:
        self._wire = wire

    # -- units --------------------------------------------------------------------------------------------------------

    async def add(
        self,
        user_id: str,
        content: str,
        *,
        group: str = COLLECTION,
        source: str = "user",
        creation_time: datetime | None = None,
        end_time: datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
        never_delete: bool = False,
        trust: Trust = "conversation",
        unit_id: str | None = None,
        vector: Iterable[float] | None = None,
        supersedes: str | None = None,
    ) -> StoredUnit:
        """Add one unit to a collection."""
        unit = NewUnitBody(
            content=content,
            source=source,
            creation_time=creation_time,
            end_time=end_time,
            metadata=dict(metadata or {}),
            never_delete=never_delete,
            trust=trust,
            unit_id=unit_id,
            vector=_numbers(vector),
            supersedes=supersedes,
        )
        return (await self.add_many(user_id, [unit], group=group))[0]

    async def add_many(
        self, user_id: str, units: Sequence[NewUnitBody | Mapping[str, Any] | str], *, group: str = COLLECTION
    ) -> list[StoredUnit]:
        """Add units in order, in requests of the greatest size; each request adds all its units or none.

        A unit is a text, or a mapping: a message as `{"role": "user", "content": "…"}`, or the arguments of `add`.
        Units without an id get one here, so that a repeated request adds them once.
        """
        new = [_new_unit(unit) for unit in units]
        added: list[StoredUnit] = []
        for start in range(0, len(new), UNITS_MAX):
            part = [
                unit if unit.unit_id else msgspec.structs.replace(unit, unit_id=str(uuid4()))
                for unit in new[start : start + UNITS_MAX]
            ]
            body = NewUnits(user_id=user_id, group=group, units=part)
            added += (await self._wire.post("/api/memory/units", UnitsAdded, body)).data
        return added

    async def search(
        self,
        user_id: str,
        text: str = "",
        *,
        vector: Iterable[float] | None = None,
        k: int = 5,
        strategy: Strategy = "hybrid",
        filters: object = None,
        min_score: float | None = None,
        group: str | None = None,
        short_term_only: bool = False,
        long_term_only: bool = False,
        recall_context: bool | int = False,
        exclude_context: bool = False,
        add_to_short_term: bool = True,
        decay: DecayBody | Mapping[str, float] | None = None,
        as_of: datetime | None = None,
        external: Sequence[str] = (),
        external_only: bool = False,
        ranks: Sequence[Rank] | None = None,
        explain: bool = False,
    ) -> RecalledView:
        """Search with a text or a vector; return chains of units, the best first.

        `decay` is as in `{"half_life_days": 30, "floor": 0.8}`.
        """
        body = NewMemorySearch(
            user_id=user_id,
            text=text,
            vector=_numbers(vector),
            k=k,
            strategy=strategy,
            filters=filters,
            min_score=min_score,
            group=group,
            short_term_only=short_term_only,
            long_term_only=long_term_only,
            recall_context=recall_context,
            exclude_context=exclude_context,
            add_to_short_term=add_to_short_term,
            decay=DecayBody(**decay) if isinstance(decay, Mapping) else decay,
            as_of=as_of,
            external=list(external),
            external_only=external_only,
            ranks=None if ranks is None else list(ranks),
            explain=explain,
        )
        return await self._wire.post("/api/memory/search", RecalledView, body)

    async def units(
        self,
        user_id: str,
        *,
        filters: object = None,
        group: str | None = None,
        rank: Rank | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> UnitList:
        """Return a page of units, the oldest first."""
        written = None if filters is None else msgspec.json.encode(filters).decode()
        which = {"userId": user_id, "filters": written, "group": group, "rank": rank}
        return await self._wire.get("/api/memory/units", UnitList, **which, limit=limit, cursor=cursor)

    async def unit(self, user_id: str, unit_id: str) -> UnitView:
        """Return one unit."""
        return (await self._wire.get(_unit(unit_id), UnitAnswer, userId=user_id)).unit

    async def pin(self, user_id: str, unit_id: str, *, pinned: bool = True) -> UnitView:
        """Protect a unit from being forgotten, or end the protection."""
        body = ChangedUnit(never_delete=pinned)
        path, parameters = _unit(unit_id), {"userId": user_id}
        return (await self._wire.ask("PATCH", path, UnitAnswer, body=body, parameters=parameters)).unit

    async def remove(self, user_id: str, unit_id: str) -> None:
        """Remove a unit; a missing unit is an error."""
        await self._wire.ask("DELETE", _unit(unit_id), type(None), parameters={"userId": user_id})

    # -- sessions and collections -------------------------------------------------------------------------------------

    async def start_group(
        self,
        user_id: str,
        group: str | None = None,
        *,
        short_term: int | None = None,
        context_length: int | None = None,
    ) -> GroupView:
        """Create or continue a collection; `LATEST` is the group created last."""
        body = NewGroup(user_id=user_id, group=group, short_term=short_term, context_length=context_length)
        return (await self._wire.post("/api/memory/groups", GroupAnswer, body)).group

    async def groups(self, user_id: str, *, limit: int = 50, cursor: str | None = None) -> GroupList:
        """Return a page of sessions and collections, the oldest first."""
        return await self._wire.get("/api/memory/groups", GroupList, userId=user_id, limit=limit, cursor=cursor)

    async def group(self, user_id: str, group: str) -> GroupView:
        """Return one session or collection."""
        return (await self._wire.get(_group(group), GroupAnswer, userId=user_id)).group

    async def remove_group(self, user_id: str, group: str) -> None:
        """Remove a session or collection from memory; a missing one is an error."""
        await self._wire.ask("DELETE", _group(group), type(None), parameters={"userId": user_id})

    async def context(self, user_id: str, group: str, *, length: int | None = None) -> Sequence[StoredUnit]:
        """Return the last units of a session or collection, oldest first."""
        return (await self._wire.get(_group(group, "context"), ContextAnswer, userId=user_id, length=length)).units

    async def restore(self, user_id: str, group: str, source: str = "LATEST") -> int:
        """Copy another group's last units to this group's short-term memory; return how many it contains then."""
        body = Restoring(user_id=user_id, source=source)
        return (await self._wire.post(_group(group, "restore"), Restored, body)).short_term

    # -- jobs ---------------------------------------------------------------------------------------------------------

    async def summarise(
        self,
        user_id: str,
        group: str | None = None,
        *,
        group_units_max: int | None = None,
        group_tokens_max: int | None = None,
        history: str = "",
        wait_s: int = WAIT_S,
    ) -> JobView:
        """Update the summaries of one group or of all; wait at most `wait_s` for the job."""
        body = NewSummary(
            user_id=user_id,
            group=group,
            group_units_max=group_units_max,
            group_tokens_max=group_tokens_max,
            history=history,
        )
        return (await self._wire.post("/api/memory/summarise", JobAnswer, body, headers=waiting(wait_s))).job

    async def forget(
        self, user_id: str, share: float = 0.1, *, policy: Policy = "oldest", wait_s: int = WAIT_S
    ) -> JobView | None:
        """Forget a share of the units that may be forgotten; wait at most `wait_s` for the job."""
        body = NewForgetting(user_id=user_id, share=share, policy=policy)
        return (await self._wire.post("/api/memory/forget", ForgettingAnswer, body, headers=waiting(wait_s))).job

    async def preview_forget(self, user_id: str, share: float = 0.1, *, policy: Policy = "oldest") -> WouldGo | None:
        """Return the units that would be forgotten, without a change."""
        body = NewForgetting(user_id=user_id, share=share, policy=policy, dry_run=True)
        return (await self._wire.post("/api/memory/forget", ForgettingAnswer, body)).would_go

    async def embed(self, user_id: str, *, wait_s: int = WAIT_S) -> JobView:
        """Embed the units that lack a vector of the server's embedder; wait at most `wait_s` for the job."""
        body = NewEmbedding(user_id=user_id)
        return (await self._wire.post("/api/memory/embed", JobAnswer, body, headers=waiting(wait_s))).job

    async def jobs(self, user_id: str | None = None, *, limit: int = 50, cursor: str | None = None) -> JobList:
        """Return a page of jobs, the newest first."""
        return await self._wire.get("/api/memory/jobs", JobList, userId=user_id, limit=limit, cursor=cursor)

    async def job(self, job_id: str, *, wait_s: int = 0) -> JobView:
        """Return a job; wait at most `wait_s` for its end."""
        path = f"/api/memory/jobs/{in_path(job_id)}"
        return (await self._wire.ask("GET", path, JobAnswer, headers=waiting(wait_s))).job

    async def status(self, user_id: str) -> StatusView:
        """Return the status of a memory."""
        return await self._wire.get("/api/memory/status", StatusView, userId=user_id)


def _numbers(vector: Iterable[float] | None) -> list[float] | None:
    """Convert a vector, which may be a numpy array, to the format of requests."""
    return None if vector is None else [float(number) for number in vector]


def _new_unit(unit: NewUnitBody | Mapping[str, Any] | str) -> NewUnitBody:
    """Convert a text, a message or the arguments of `add`. Raises TypeError for fields that do not exist."""
    if isinstance(unit, NewUnitBody):
        return unit
    fields = unit_fields({"content": unit} if isinstance(unit, str) else unit)
    return NewUnitBody(**fields | {"vector": _numbers(fields.get("vector"))})


def _unit(unit_id: str) -> str:
    return f"/api/memory/units/{in_path(unit_id)}"


def _group(group: str, *further: str) -> str:
    return "/".join(["/api/memory/groups", in_path(group), *further])
