"""The memory of one user as a plain object: every use case, waited for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias, overload

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from api.client.sync import Loop
from api.memory.asked import UNITS_MAX, NewUnit, Query, Recalled, Vector, new_unit
from api.memory.house import House
from api.memory.jobs import JobOptions
from api.memory.listing import Group, PlacedUnit, Standing, Which
from api.memory.memories import LATEST
from api.memory.minds import CAPACITY_DEFAULT
from api.memory.refusals import MemoryRefused, WorkFailed
from runtime.memory.forgetting import Forgetting, Policy
from runtime.memory.recall.asking import Decay, Strategy
from runtime.memory.units import MemoryUnit, Rank
from store.fetch import PAGE_MAX
from store.memory.filters import parse
from store.memory.rows import JobKind

Given: TypeAlias = str | Mapping[str, Any] | NewUnit
"""What becomes a unit: a text, a message or fields of a unit as a mapping, or the unit."""

WORK_S = 3_600.0  # that are waited for work


class SessionRoom(Struct, frozen=True):
    """How much new sessions keep in mind: in their context, and in short-term memory; None: they have none."""

    context_length: int
    short_term: int | None


class UserMemory:
    """One user's memory. A session is begun by the first unit that is added, or by `start_session`.

    Raises MemoryRefused, UnitTaken, FilterInvalid for what cannot be done, WorkFailed, and StoreError.
    """

    def __init__(
        self,
        loop: Loop,
        house: House,
        tenant: str,
        user_id: str,
        room: SessionRoom,
        closing: Callable[[], None] = lambda: None,
    ) -> None:
        self._loop = loop
        self._house = house
        self._owner = (tenant, user_id)
        self._room = room
        self._closing = closing  # what is done once when it is closed
        self._is_closed = False
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

    def enable_short_term(self, capacity: int = CAPACITY_DEFAULT, *, restore: str | None = None) -> None:
        """Give the session, and those that are begun from now on, a short-term memory of so many units.

        With `restore` it is filled with what was said last in that session, or in the `LATEST` other one.
        """
        self._set_room(replace(self._room, short_term=capacity))
        if restore is not None:
            self.restore(restore)

    def disable_short_term(self) -> None:
        """Let the session, and those that are begun from now on, have no short-term memory."""
        self._set_room(replace(self._room, short_term=None))

    def _set_room(self, room: SessionRoom) -> None:
        self._loop.result(
            self._house.memories.start_group(*self._owner, self.session_id, short_term=room.short_term or 0)
        )
        self._room = room

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

    @overload
    def add(self, content: str, **fields: Any) -> MemoryUnit: ...

    @overload
    def add(self, content: Sequence[Mapping[str, Any] | NewUnit]) -> list[MemoryUnit]: ...

    def add(self, content: str | Sequence[Given], **fields: Any) -> MemoryUnit | list[MemoryUnit]:
        """Add a text as a unit, or messages as units, to the session; durable when this returns.

        `fields` of a text are those of NewUnit, such as `source` or `metadata`. Messages are texts, NewUnits, or
        mappings as `{"role": "user", "content": "..."}`, which may have fields of NewUnit too.
        """
        if isinstance(content, str):
            return self.add_many([{"content": content, **fields}])[0]
        if fields:
            raise MemoryRefused(f"fields such as {next(iter(fields))!r} belong into each of the messages")
        return self.add_many(content)

    def add_many(self, units: Sequence[Given]) -> list[MemoryUnit]:
        """Add units to the session, in their order; each part of 10,000 all or none."""
        new = [self._new_unit(number, unit) for number, unit in enumerate(units, 1)]
        added: list[MemoryUnit] = []
        for start in range(0, len(new), UNITS_MAX):
            part = new[start : start + UNITS_MAX]
            added += self._loop.result(self._house.memories.add(*self._owner, self.session_id, part))
        return added

    def _new_unit(self, number: int, unit: Given) -> NewUnit:
        try:
            return new_unit(unit)
        except MemoryRefused as error:
            raise MemoryRefused(f"unit {number} {error}") from error

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

    def summarise(
        self,
        session_id: str | None = None,
        *,
        group_units_max: int | None = None,
        group_tokens_max: int | None = None,
        history: str = "",
    ) -> int:
        """Brings the summaries of a session up to date, or those of all and of all together; how many were made.

        One summary tells of at most `group_units_max` units (2 to 1,000) and about `group_tokens_max` tokens, else of
        as many as the settings say; `history` is what was known before everything, background of the first ones.
        """
        options = JobOptions(
            group=session_id, group_units_max=group_units_max, group_tokens_max=group_tokens_max, history=history
        )
        try:
            msgspec.convert(msgspec.to_builtins(options), JobOptions)
        except msgspec.ValidationError as error:
            raise MemoryRefused(f"these limits of a summary cannot be: {error}") from error
        return self._loop.result(self._done("summarise", options))

    def forget(self, share: float = 0.1, *, policy: Policy = "oldest", dry_run: bool = False) -> list[MemoryUnit]:
        """Forgets a share of what may be forgotten, what matters least first; with `dry_run` it is only told."""
        chosen = self._loop.result(self._house.care.would_forget(self._owner, Forgetting(share, policy)))
        if not dry_run:
            self._loop.result(self._done("forget", JobOptions(share=share, policy=policy)))
        return chosen

    def embed(self) -> int:
        """Has the embedder see every unit it has not seen, also those that others have; how many."""
        return self._loop.result(self._done("embed", JobOptions()))

    def close(self, *, summarise: bool = False) -> None:
        """Close the memory, with `summarise` after its summaries were brought up to date; again does nothing."""
        if summarise and not self._is_closed:
            self.summarise()
        if not self._is_closed:
            self._is_closed = True
            self._closing()

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
