"""The memory of one user as a synchronous object with every use case."""

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias, TypeVar, overload

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from api.client.client import Loop
from api.memory.jobs import JobOptions, is_over
from api.memory.listing import UnitFilter
from api.memory.memories import CAPACITY_DEFAULT, LATEST
from api.memory.memory_system import MemorySystem
from api.memory.requests import UNITS_MAX, NewUnit, Query, Vector, new_unit
from api.schemas.memory import GroupView, RecalledView, UnitView
from api.schemas.memory_errors import InvalidMemoryRequest, WorkFailed
from api.schemas.memory_work import StatusView
from api.schemas.validation_messages import humanize_validation_error
from runtime.memory.forgetting import ForgetOptions, Policy
from runtime.memory.recall.query import Decay, Strategy, decay_of_days
from runtime.memory.units import MemoryUnit, Rank
from store.interface.memory_filters import parse
from store.interface.memory_rows import JobKind, JobRow
from store.interface.pages import PAGE_MAX, Page

UnitInput: TypeAlias = str | Mapping[str, Any] | NewUnit
"""Input for a unit: a text, a message or the fields of a unit as a mapping, or the unit."""

T = TypeVar("T", bound=Struct)
R = TypeVar("R")

WORK_S = 3_600.0  # longest wait for a job


class SessionRoom(Struct, frozen=True):
    """Capacities of new sessions, in units: of their context, and of their short-term memory (None: they have none)."""

    context_length: int
    short_term: int | None


class UserMemory:
    """One user's memory. The first added unit starts a session, or `start_session` does.

    Methods raise InvalidMemoryRequest, UnitIdExists and FilterInvalid for invalid requests, WorkFailed, and StoreError.
    """

    def __init__(
        self,
        loop: Loop,
        memory_system: MemorySystem,
        tenant: str,
        user_id: str,
        room: SessionRoom,
        closing: Callable[[], None] = lambda: None,
    ) -> None:
        self._loop = loop
        self._memory_system = memory_system
        self._memories = memory_system.memories
        self._listing = memory_system.listing
        self._owner = (tenant, user_id)
        self._room = room
        self._closing = closing  # called once, by `close`
        self._is_closed = False
        self._session = ""

    def _result(self, work: Coroutine[Any, Any, R]) -> R:
        """Return the result of work. Raises InvalidMemoryRequest if the memory is closed."""
        if self._is_closed or self._loop.is_closed:
            work.close()
            raise InvalidMemoryRequest("the memory is closed")
        return self._loop.result(work)

    # -- sessions -----------------------------------------------------------------------------------------------------

    @property
    def session_id(self) -> str:
        """Return the current session, to which units are added; start one if there is none."""
        return self._session or self.start_session()

    def start_session(self, session_id: str = "") -> str:
        """Continue a session, or create it, and return its id; `LATEST` is the newest session."""
        room = self._room
        self._session = self._result(
            self._memories.start_group(
                *self._owner, session_id, short_term=room.short_term or 0, context_length=room.context_length
            )
        ).group_id
        return self._session

    def restore(self, session_id: str = LATEST) -> int:
        """Copy the latest units of another session, or of the LATEST other one that has any, into short-term memory.

        Return the number of units in short-term memory.
        """
        return self._result(self._memories.restore(*self._owner, self.session_id, session_id))

    def enable_short_term(self, capacity: int = CAPACITY_DEFAULT, *, restore: str | None = None) -> None:
        """Give the current session and all new ones a short-term memory of `capacity` units.

        With `restore` it is filled with the latest units of that session, or of the `LATEST` other one.
        """
        self._set_room(replace(self._room, short_term=capacity))
        if restore is not None:
            self.restore(restore)

    def disable_short_term(self) -> None:
        """Disable the short-term memory of the current session and of all new ones."""
        self._set_room(replace(self._room, short_term=None))

    def _set_room(self, room: SessionRoom) -> None:
        self._result(self._memories.start_group(*self._owner, self.session_id, short_term=room.short_term or 0))
        self._room = room

    def remove_session(self, session_id: str) -> bool:
        """Remove a session with its units and summaries; return false if there is none."""
        removed = self._result(self._memories.remove_group(*self._owner, session_id))
        if session_id == self._session:
            self._session = ""
        return removed

    def sessions(self) -> list[GroupView]:
        """Return all sessions, oldest first."""
        return list(self._pages(lambda cursor: self._listing.groups(*self._owner, PAGE_MAX, cursor)))

    def _pages(self, read: Callable[[str | None], Coroutine[Any, Any, Page[T]]]) -> Iterator[T]:
        """Iterate over the rows of all pages of a list; `read` returns the page at a cursor."""
        cursor: str | None = None
        while True:
            page = self._result(read(cursor))
            yield from page.rows
            cursor = page.next
            if cursor is None:
                return

    def get_context(self, length: int | None = None) -> list[MemoryUnit]:
        """Return the latest units of the session, oldest first."""
        return self._result(self._memories.context(*self._owner, self.session_id, length))

    # -- units --------------------------------------------------------------------------------------------------------

    @overload
    def add(self, content: str, **fields: Any) -> MemoryUnit: ...

    @overload
    def add(self, content: Mapping[str, Any] | NewUnit) -> MemoryUnit: ...

    @overload
    def add(self, content: Sequence[Mapping[str, Any] | NewUnit]) -> list[MemoryUnit]: ...

    def add(self, content: UnitInput | Sequence[UnitInput], **fields: Any) -> MemoryUnit | list[MemoryUnit]:
        """Add a text or message as a unit, or messages as units, to the session; durable when this returns.

        `fields` of a text are those of NewUnit, such as `source` or `metadata`. Messages are texts, NewUnits, or
        mappings as `{"role": "user", "content": "..."}`, which may have fields of NewUnit too.
        """
        if isinstance(content, str):
            return self.add_many([{"content": content, **fields}])[0]
        if fields:
            raise InvalidMemoryRequest(f"fields such as {next(iter(fields))!r} belong into each of the messages")
        return self.add_many([content])[0] if isinstance(content, Mapping | NewUnit) else self.add_many(content)

    def add_many(self, units: Sequence[UnitInput]) -> list[MemoryUnit]:
        """Add units to the session in their order; each batch of 10,000 is added completely or not at all."""
        new = [self._new_unit(number, unit) for number, unit in enumerate(units, 1)]
        added: list[MemoryUnit] = []
        for start in range(0, len(new), UNITS_MAX):
            part = new[start : start + UNITS_MAX]
            added += self._result(self._memories.add(*self._owner, self.session_id, part))
        return added

    def _new_unit(self, number: int, unit: UnitInput) -> NewUnit:
        try:
            return new_unit(unit)
        except InvalidMemoryRequest as error:
            raise InvalidMemoryRequest(f"unit {number} {error}") from error

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
        decay: Decay | Mapping[str, float] | None = None,
        as_of: datetime | None = None,
        external: Sequence[str] = (),
        external_only: bool = False,
        ranks: Sequence[Rank] | None = None,
        explain: bool = False,
    ) -> RecalledView:
        """Search the memory for a text or vector: chains of units, the best first, each counted as visited.

        With `exclude_context` the context of the session is left out, for a prompt that contains it already. `ranks`
        are those of the units to find; None: messages and notes, or what `filters` select by `rank`.
        `decay` is as in `{"half_life_days": 30, "floor": 0.8}`.
        """
        query = Query(
            text=text,
            vector=vector,
            k=k,
            strategy=strategy,
            filters=None if filters is None else parse(filters),
            ranks=ranks,
            min_score=min_score,
            group=self.session_id if exclude_context or short_term_only else self._session,
            short_term_only=short_term_only,
            long_term_only=long_term_only,
            recall_context=recall_context,
            exclude_context=exclude_context,
            add_to_short_term=add_to_short_term,
            decay=_decay_of(decay) if isinstance(decay, Mapping) else decay,
            as_of=as_of,
            external=external,
            external_only=external_only,
            explain=explain,
        )
        return self._result(self._memories.query(*self._owner, query))

    def get(self, unit_id: str) -> UnitView | None:
        """Return a unit with its neighbours and the units that it summarises, or None if there is none."""
        return self._result(self._listing.unit(*self._owner, unit_id))

    def units(
        self, *, filters: object = None, session_id: str | None = None, rank: Rank | None = None
    ) -> Iterator[UnitView]:
        """Iterate over units in their order, read page by page."""
        which = UnitFilter(filters=None if filters is None else parse(filters), group=session_id, rank=rank)
        return self._pages(lambda cursor: self._listing.units(*self._owner, which, PAGE_MAX, cursor))

    def pin(self, unit_id: str, *, pinned: bool = True) -> MemoryUnit | None:
        """Pin or unpin a unit; return it, or None if there is none. A pinned unit is never forgotten."""
        return self._result(self._memories.pin(*self._owner, unit_id, pinned=pinned))

    def remove(self, unit_id: str) -> bool:
        """Remove a unit; return false if there is none."""
        return self._result(self._memories.remove(*self._owner, [unit_id])) > 0

    # -- maintenance --------------------------------------------------------------------------------------------------

    def summarise(
        self,
        session_id: str | None = None,
        *,
        group_units_max: int | None = None,
        group_tokens_max: int | None = None,
        history: str = "",
    ) -> int:
        """Update the summaries of a session, or of all sessions and of the whole memory; return the number written.

        One summary covers at most `group_units_max` units (2 to 1,000) and about `group_tokens_max` tokens (None: the
        limits of the settings); `history` is background for the first summaries.
        """
        options = JobOptions(
            group=session_id, group_units_max=group_units_max, group_tokens_max=group_tokens_max, history=history
        )
        try:
            msgspec.convert(msgspec.to_builtins(options), JobOptions)
        except msgspec.ValidationError as error:
            problem = humanize_validation_error(str(error))
            raise InvalidMemoryRequest(f"the limits of a summary are invalid: {problem}") from error
        if session_id is not None and self._result(self._listing.group(*self._owner, session_id)) is None:
            raise InvalidMemoryRequest(f"there is no session {session_id!r} in this memory")
        return self._result(self._run_job("summarise", options))

    def forget(self, share: float = 0.1, *, policy: Policy = "oldest", dry_run: bool = False) -> list[MemoryUnit]:
        """Remove a share of the removable units, least useful first, and return them; `dry_run` only returns them."""
        try:
            options = ForgetOptions(share, policy)
        except ValueError as error:
            raise InvalidMemoryRequest(str(error)) from error
        chosen = self._result(self._memory_system.maintenance.preview_forget(self._owner, options))
        if not dry_run:
            self._result(self._run_job("forget", JobOptions(share=share, policy=policy)))
        return chosen

    def embed(self) -> int:
        """Compute the missing vectors of the embedder, also for units with vectors of others; return their number."""
        return self._result(self._run_job("embed", JobOptions()))

    def close(self, *, summarise: bool = False) -> None:
        """Close the memory, with `summarise` after updating its summaries. A second call has no effect.

        Raises WorkFailed, after it closed the memory, if an attempt at a summary fails; more follow when the memory is
        opened again.
        """
        if self._is_closed:
            return
        try:
            if summarise:
                self._result(self._run_job("summarise", JobOptions(), _has_failed))
        finally:
            self._is_closed = True
            self._closing()

    def status(self) -> StatusView:
        """Return the statistics of the memory."""
        return self._result(self._listing.status(*self._owner))

    async def _run_job(self, kind: JobKind, options: JobOptions, until: Callable[[JobRow], bool] = is_over) -> int:
        """Run a job through the worker, which runs one job per memory at a time; return the number of units."""
        job = await self._memory_system.jobs.submit(*self._owner, kind, options)
        self._memory_system.worker.prioritise(*self._owner)
        job = await self._memory_system.jobs.wait(job, WORK_S, until)
        if job.status != "done":
            raise WorkFailed(job.error or f"the job is not done after {WORK_S:.0f} s; it continues in the background")
        return job.done


def _has_failed(job: JobRow) -> bool:
    """Return whether a job is over, or an attempt at it has failed."""
    return is_over(job) or job.error is not None


def _decay_of(fields: Mapping[str, float]) -> Decay | None:
    """Return a decay of days. Raises InvalidMemoryRequest."""
    try:
        return decay_of_days(**fields)
    except (TypeError, ValueError) as error:
        raise InvalidMemoryRequest("a decay has half_life_days, above 0, and a floor from 0 to 1") from error
