"""The memories of users over HTTP: add to one, recall, look at it, and have work done on it."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

import msgspec

from api.client.wire import Wire
from api.paths import in_path
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
    NewQuery,
    NewUnitBody,
    NewUnits,
    Rank,
    RecalledView,
    Restored,
    Restoring,
    StoredUnit,
    Strategy,
    Trust,
    UnitAnswer,
    UnitList,
    UnitsAdded,
    UnitView,
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

WAIT_S = 30
"""How long an answer waits for work, each time it is looked at."""


class Memory:
    """The memories of a server, one for each user. Everything raises CuebookError."""

    def __init__(self, wire: Wire) -> None:
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
        metadata: Mapping[str, Any] | None = None,
        never_delete: bool = False,
        trust: Trust = "told",
        unit_id: str | None = None,
        vector: Iterable[float] | None = None,
        supersedes: str | None = None,
    ) -> StoredUnit:
        """Adds one unit to a collection."""
        unit = NewUnitBody(
            content=content,
            source=source,
            creation_time=creation_time,
            metadata=dict(metadata or {}),
            never_delete=never_delete,
            trust=trust,
            unit_id=unit_id,
            vector=_numbers(vector),
            supersedes=supersedes,
        )
        return (await self.add_many(user_id, [unit], group=group))[0]

    async def add_many(
        self, user_id: str, units: Sequence[NewUnitBody], *, group: str = COLLECTION
    ) -> list[StoredUnit]:
        """Adds units in their order, as many in one request as there may be; those of one request all or none.

        Each gets an id here where it has none, so that what is sent again is added once.
        """
        added: list[StoredUnit] = []
        for start in range(0, len(units), UNITS_MAX):
            part = [
                unit if unit.unit_id else msgspec.structs.replace(unit, unit_id=str(uuid4()))
                for unit in units[start : start + UNITS_MAX]
            ]
            body = NewUnits(user_id=user_id, group=group, units=part)
            added += (await self._wire.ask("POST", "/api/memory/units", UnitsAdded, body=body)).data
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
        decay: DecayBody | None = None,
        as_of: datetime | None = None,
        external: Sequence[str] = (),
        external_only: bool = False,
        ranks: Sequence[Rank] = (0,),
        explain: bool = False,
    ) -> RecalledView:
        """What comes to mind of a text or a vector: chains of units, the best first."""
        body = NewQuery(
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
            decay=decay,
            as_of=as_of,
            external=list(external),
            external_only=external_only,
            ranks=list(ranks),
            explain=explain,
        )
        return await self._wire.ask("POST", "/api/memory/search", RecalledView, body=body)

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
        """A page of units, the oldest first."""
        parameters = {
            "userId": user_id,
            "filters": None if filters is None else msgspec.json.encode(filters).decode(),
            "group": group,
            "rank": rank,
            "limit": limit,
            "cursor": cursor,
        }
        return await self._wire.ask("GET", "/api/memory/units", UnitList, parameters=parameters)

    async def unit(self, user_id: str, unit_id: str) -> UnitView:
        """One unit."""
        return (await self._wire.ask("GET", _unit(unit_id), UnitAnswer, parameters={"userId": user_id})).unit

    async def pin(self, user_id: str, unit_id: str, *, pinned: bool = True) -> UnitView:
        """Keeps a unit from being forgotten, or no longer."""
        body = ChangedUnit(never_delete=pinned)
        path, parameters = _unit(unit_id), {"userId": user_id}
        return (await self._wire.ask("PATCH", path, UnitAnswer, body=body, parameters=parameters)).unit

    async def remove(self, user_id: str, unit_id: str) -> None:
        """Removes a unit; one that is not there is an error."""
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
        """A collection to begin or to go on with; `LATEST` is the group that was begun last."""
        body = NewGroup(user_id=user_id, group=group, short_term=short_term, context_length=context_length)
        return (await self._wire.ask("POST", "/api/memory/groups", GroupAnswer, body=body)).group

    async def groups(self, user_id: str, *, limit: int = 50, cursor: str | None = None) -> GroupList:
        """A page of sessions and collections, the oldest first."""
        parameters = {"userId": user_id, "limit": limit, "cursor": cursor}
        return await self._wire.ask("GET", "/api/memory/groups", GroupList, parameters=parameters)

    async def group(self, user_id: str, group: str) -> GroupView:
        """One session or collection."""
        return (await self._wire.ask("GET", _group(group), GroupAnswer, parameters={"userId": user_id})).group

    async def remove_group(self, user_id: str, group: str) -> None:
        """Removes a session or collection from memory; one that is not there is an error."""
        await self._wire.ask("DELETE", _group(group), type(None), parameters={"userId": user_id})

    async def context(self, user_id: str, group: str, *, length: int | None = None) -> Sequence[StoredUnit]:
        """What was said last in a session or collection, oldest first."""
        parameters = {"userId": user_id, "length": length}
        return (await self._wire.ask("GET", _group(group, "context"), ContextAnswer, parameters=parameters)).units

    async def restore(self, user_id: str, group: str, source: str = "LATEST") -> int:
        """Has a group bear in mind what was said last in another; how many units it does then."""
        body = Restoring(user_id=user_id, source=source)
        return (await self._wire.ask("POST", _group(group, "restore"), Restored, body=body)).short_term

    # -- work ---------------------------------------------------------------------------------------------------------

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
        """Brings the summaries up to date, of one group or of all; waited for at most so long."""
        body = NewSummary(
            user_id=user_id,
            group=group,
            group_units_max=group_units_max,
            group_tokens_max=group_tokens_max,
            history=history,
        )
        return (await self._wire.ask("POST", "/api/memory/summarise", JobAnswer, body=body, headers=_wait(wait_s))).job

    async def forget(
        self, user_id: str, share: float = 0.1, *, policy: Policy = "oldest", wait_s: int = WAIT_S
    ) -> JobView | None:
        """Forgets a share of what may be forgotten; waited for at most so long."""
        body = NewForgetting(user_id=user_id, share=share, policy=policy)
        answer = await self._wire.ask("POST", "/api/memory/forget", ForgettingAnswer, body=body, headers=_wait(wait_s))
        return answer.job

    async def would_forget(self, user_id: str, share: float = 0.1, *, policy: Policy = "oldest") -> WouldGo | None:
        """The units that would be forgotten; nothing is done to them."""
        body = NewForgetting(user_id=user_id, share=share, policy=policy, dry_run=True)
        return (await self._wire.ask("POST", "/api/memory/forget", ForgettingAnswer, body=body)).would_go

    async def embed(self, user_id: str, *, wait_s: int = WAIT_S) -> JobView:
        """Has the server's embedder see what only others have seen; waited for at most so long."""
        body = NewEmbedding(user_id=user_id)
        return (await self._wire.ask("POST", "/api/memory/embed", JobAnswer, body=body, headers=_wait(wait_s))).job

    async def jobs(self, user_id: str | None = None, *, limit: int = 50, cursor: str | None = None) -> JobList:
        """A page of what was asked for, the newest first."""
        parameters = {"userId": user_id, "limit": limit, "cursor": cursor}
        return await self._wire.ask("GET", "/api/memory/jobs", JobList, parameters=parameters)

    async def job(self, job_id: str, *, wait_s: int = 0) -> JobView:
        """How far a piece of work is; waited for at most so long."""
        path = f"/api/memory/jobs/{in_path(job_id)}"
        return (await self._wire.ask("GET", path, JobAnswer, headers=_wait(wait_s))).job

    async def status(self, user_id: str) -> StatusView:
        """How a memory stands."""
        return await self._wire.ask("GET", "/api/memory/status", StatusView, parameters={"userId": user_id})


def _numbers(vector: Iterable[float] | None) -> list[float] | None:
    """A vector as requests have it, also one of numpy's."""
    return None if vector is None else [float(number) for number in vector]


def _unit(unit_id: str) -> str:
    return f"/api/memory/units/{in_path(unit_id)}"


def _group(group: str, *further: str) -> str:
    return "/".join(["/api/memory/groups", in_path(group), *further])


def _wait(wait_s: int) -> dict[str, str]:
    return {"Prefer": f"wait={wait_s}"} if wait_s else {}
