"""The memory of one user as a plain object: every use case, waited for."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from api.client.sync import Loop
from api.memory.asked import UNITS_MAX, NewUnit, Query, Recalled, Vector
from api.memory.house import House
from api.memory.jobs import JobOptions
from api.memory.listing import Group, PlacedUnit, Standing, Which
from api.memory.memories import LATEST
from api.memory.refusals import WorkFailed
from runtime.memory.forgetting import Forgetting, Policy
from runtime.memory.recall.asking import Decay, Strategy
from runtime.memory.units import MemoryUnit, Rank, Trust
from store.fetch import PAGE_MAX
from store.memory.filters import parse
from store.memory.rows import JobKind

WORK_S = 3_600.0  # that are waited for work


class SessionRoom(Struct, frozen=True):
    """How much new sessions keep in mind: in their context, and in short-term memory; None: they have none."""

    context_length: int
    short_term: int | None


class UserMemory:
    """One user's memory. A session is begun by the first unit that is added, or by `start_session`.

    Raises MemoryRefused, UnitTaken, FilterInvalid for what cannot be done, WorkFailed, and StoreError.
    """

    def __init__(self, loop: Loop, house: House, tenant: str, user_id: str, room: SessionRoom) -> None:
        self._loop = loop
        self._house = house
        self._owner = (tenant, user_id)
        self._room = room
        self._session = ""

    # -- sessions -----------------------------------------------------------------------------------------------------

    @property
    def session_id(self) -> str:
        """The session that units are added to, begun if there is none."""
        return self._session or self.start_session()

    def start_session(self, session_id: str = "") -> str:
        """Goes on with a session, made if it is new, and its id; `LATEST` is the one that was begun last."""
        room = self._room
        self._session = self._loop.result(
            self._house.memories.start_group(
                *self._owner, session_id, short_term=room.short_term or 0, context_length=room.context_length
            )
        )
        return self._session

    def restore(self, session_id: str = LATEST) -> int:
        """Bears in mind what was said last in another session, or in the LATEST other one; how many units."""
        return self._loop.result(self._house.memories.restore(*self._owner, self.session_id, session_id))

    def remove_session(self, session_id: str) -> bool:
        """Forgets a session with its summaries; false where there is none."""
        removed = self._loop.result(self._house.memories.remove_group(*self._owner, session_id))
        if session_id == self._session:
            self._session = ""
        return removed

    def sessions(self) -> list[Group]:
        """All sessions, the oldest first."""
        found: list[Group] = []
        cursor: str | None = None
        while True:
            page = self._loop.result(self._house.listing.groups(*self._owner, PAGE_MAX, cursor))
            found += page.groups
            cursor = page.next
            if cursor is None:
                return found

    def get_context(self, length: int | None = None) -> list[MemoryUnit]:
        """What was said last in the session, oldest first."""
        return self._loop.result(self._house.memories.context(*self._owner, self.session_id, length))

    # -- units --------------------------------------------------------------------------------------------------------

    def add(
        self,
        content: str,
        *,
        source: str = "user",
        creation_time: datetime | None = None,
        end_time: datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
        never_delete: bool = False,
        trust: Trust = "told",
        unit_id: str = "",
        vector: Vector | None = None,
        supersedes: str = "",
    ) -> MemoryUnit:
        """Adds a unit to the session; it is on disk when this returns."""
        unit = NewUnit(
            content=content,
            source=source,
            creation_time=creation_time,
            end_time=end_time,
            metadata=metadata or {},
            never_delete=never_delete,
            trust=trust,
            unit_id=unit_id,
            vector=vector,
            supersedes=supersedes,
        )
        return self.add_many([unit])[0]

    def add_many(self, units: Sequence[NewUnit]) -> list[MemoryUnit]:
        """Adds units to the session, in their order; each part of 10,000 all or none."""
        added: list[MemoryUnit] = []
        for start in range(0, len(units), UNITS_MAX):
            part = units[start : start + UNITS_MAX]
            added += self._loop.result(self._house.memories.add(*self._owner, self.session_id, part))
        return added

    def query(
        self,
        text: str = "",
        *,
        vector: Vector | None = None,
        k: int = 5,
        strategy: Strategy = "hybrid",
        filters: object = None,
        min_score: float | None = None,
        short_term_only: bool = False,
        long_term_only: bool = False,
        recall_context: bool | int = False,
        exclude_context: bool = False,
        add_to_short_term: bool = True,
        decay: Decay | None = None,
        as_of: datetime | None = None,
        external: Sequence[str] = (),
        external_only: bool = False,
        ranks: Sequence[Rank] = (0,),
        explain: bool = False,
    ) -> Recalled:
        """Search the memory for a text or vector: chains of units, the best first, each counted as visited.

        Everything is searched. With `exclude_context` the context of the session is left out, for a prompt that holds
        it already.
        """
        query = Query(
            text=text,
            vector=vector,
            k=k,
            strategy=strategy,
            filters=None if filters is None else parse(filters),
            ranks=ranks,
            min_score=min_score,
            group=self.session_id if exclude_context else self._session,
            short_term_only=short_term_only,
            long_term_only=long_term_only,
            recall_context=int(recall_context),
            exclude_context=exclude_context,
            add_to_short_term=add_to_short_term,
            decay=decay,
            as_of=as_of,
            external=external,
            external_only=external_only,
            explain=explain,
        )
        return self._loop.result(self._house.memories.query(*self._owner, query))

    def get(self, unit_id: str) -> PlacedUnit | None:
        """A unit with its neighbours and what it sums up; None where there is none."""
        return self._loop.result(self._house.listing.unit(*self._owner, unit_id))

    def units(
        self, *, filters: object = None, session_id: str | None = None, rank: Rank | None = None
    ) -> Iterator[PlacedUnit]:
        """Units in their order, page by page."""
        which = Which(filters=None if filters is None else parse(filters), group=session_id, rank=rank)
        cursor: str | None = None
        while True:
            page = self._loop.result(self._house.listing.units(*self._owner, which, PAGE_MAX, cursor))
            yield from page.units
            cursor = page.next
            if cursor is None:
                return

    def pin(self, unit_id: str, *, pinned: bool = True) -> MemoryUnit | None:
        """Keeps a unit from being forgotten, or no longer; None where there is none."""
        return self._loop.result(self._house.memories.pin(*self._owner, unit_id, pinned=pinned))

    def remove(self, unit_id: str) -> bool:
        """Forgets this unit; false where there is none."""
        return self._loop.result(self._house.memories.remove(*self._owner, [unit_id])) > 0

    # -- work ---------------------------------------------------------------------------------------------------------

    def summarise(self, session_id: str | None = None) -> int:
        """Brings the summaries of a session up to date, or those of all and of all together; how many were made."""
        return self._loop.result(self._done("summarise", JobOptions(group=session_id)))

    def forget(self, share: float = 0.1, *, policy: Policy = "oldest", dry_run: bool = False) -> list[MemoryUnit]:
        """Forgets a share of what may be forgotten, what matters least first; with `dry_run` it is only told."""
        chosen = self._loop.result(self._house.care.would_forget(self._owner, Forgetting(share, policy)))
        if not dry_run:
            self._loop.result(self._done("forget", JobOptions(share=share, policy=policy)))
        return chosen

    def embed(self) -> int:
        """Has the embedder see every unit it has not seen, also those that others have; how many."""
        return self._loop.result(self._done("embed", JobOptions()))

    def status(self) -> Standing:
        """How the memory stands."""
        return self._loop.result(self._house.listing.standing(*self._owner))

    async def _done(self, kind: JobKind, options: JobOptions) -> int:
        """Has work done in its turn, as only one thing is done to a memory at a time; how many units it was."""
        job = await self._house.jobs.ask(*self._owner, kind, options)
        self._house.work.hurry(*self._owner)
        job = await self._house.jobs.finished(job, WORK_S)
        if job.status != "done":
            raise WorkFailed(job.error or f"it is not done after {WORK_S:.0f} s, and goes on")
        return job.done
