"""The part of the record that is memory."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from store.fetch import Cursor, Page
from store.memory import bringing, calls, integrity, matching, reading
from store.memory.calls import MemoryCallRow
from store.memory.changes import MemoryWriting
from store.memory.filters import Filter
from store.memory.integrity import Finding
from store.memory.reading import Bounds, OwnerOf
from store.memory.rows import (
    AdmissionRow,
    BehindRow,
    GroupRow,
    JobRow,
    MemoryChange,
    OwnerRow,
    UnitRow,
    VectorsRead,
)
from store.readers import Readers

T = TypeVar("T")


class _Run(Protocol):
    """Runs statements in the writer's thread, in one transaction."""

    def __call__(self, statements: Callable[[Cursor], T], /) -> Awaitable[T]: ...


class MemoryRecord:
    """Memories, durably. Every read and write but those of `…_of_all` is of one tenant.

    Raises what the record raises.
    """

    def __init__(self, readers: Readers, run: _Run) -> None:
        self._readers = readers
        self._run = run
        self._writing = MemoryWriting()

    async def change(self, change: MemoryChange) -> None:
        """Write what happens to a memory; returns once it is durable. Raises RowRefused."""
        await self._run(lambda cursor: self._writing.apply(cursor, change))

    async def begin_call(self, call: MemoryCallRow) -> None:
        """Keep that a call of a language model is about to be made for a memory."""
        await self._run(lambda cursor: calls.begin_call(cursor, call))

    async def end_call(self, call: MemoryCallRow) -> None:
        """Keep what came of a call that was begun, in its place. Raises RowRefused."""
        await self._run(lambda cursor: calls.end_call(cursor, call))

    async def owner(self, tenant: str, user_id: str) -> OwnerRow | None:
        """The memory of a user."""
        return await self._readers.read(lambda cursor: reading.owner(cursor, tenant, user_id))

    async def groups(self, tenant: str, user_id: str) -> list[GroupRow]:
        """The groups of a memory, the oldest first."""
        return await self._readers.read(lambda cursor: reading.groups(cursor, tenant, user_id))

    async def units(self, tenant: str, user_id: str, *, after: int = 0, limit: int = 1_000) -> list[UnitRow]:
        """At most `limit` units above a number, with their words, in order."""
        return await self._readers.read(lambda cursor: reading.units(cursor, tenant, user_id, after, limit))

    async def alive(self, tenant: str, user_id: str, sequences: list[int]) -> list[int]:
        """Those of the units that there are."""
        return await self._readers.read(lambda cursor: reading.alive(cursor, tenant, user_id, sequences))

    async def matching(self, tenant: str, user_id: str, filter_: Filter) -> list[int]:
        """The numbers of the units of which a filter is true, in order."""
        return await self._readers.read(lambda cursor: matching.matching(cursor, tenant, user_id, filter_))

    async def vectors(self, tenant: str, user_id: str, embedder: str) -> VectorsRead:
        """All vectors of a memory that an embedder made, by the numbers of their units, in order."""
        return await self._readers.read(lambda cursor: reading.vectors(cursor, tenant, user_id, embedder))

    async def vectors_between(self, tenant: str, user_id: str, embedder: str, *, after: int, last: int) -> VectorsRead:
        """The vectors that an embedder made of the units above one number, up to another."""
        return await self._readers.read(
            lambda cursor: bringing.vectors_between(cursor, tenant, user_id, embedder, after, last)
        )

    async def stamp(self, tenant: str, user_id: str) -> str:
        """A text that is another one once units or groups of the memory came, went, or stand elsewhere in the tree."""
        return await self._readers.read(lambda cursor: bringing.stamp(cursor, tenant, user_id))

    async def ids_taken(self, tenant: str, user_id: str, ids: list[str]) -> set[str]:
        """Those of the ids that units of the memory have."""
        return await self._readers.read(lambda cursor: bringing.ids_taken(cursor, tenant, user_id, ids))

    async def bring(self, tenant: str, user_id: str, expected: str, changes: Iterable[MemoryChange]) -> None:
        """Write changes that were made for the stamp of a memory, all or none. Raises MemoryMoved, RowRefused.

        They are iterated in the writer's thread: it ends if they raise.
        """
        await self._run(lambda cursor: bringing.bring(cursor, self._writing, tenant, user_id, expected, changes))

    async def seen_otherwise(self, tenant: str, user_id: str, embedder: str) -> list[int]:
        """The units that have vectors of other embedders, but none of this one."""
        return await self._readers.read(lambda cursor: reading.seen_otherwise(cursor, tenant, user_id, embedder))

    async def embedders(self, tenant: str, user_id: str) -> dict[str, int]:
        """The embedders that made vectors of a memory, and how many."""
        return await self._readers.read(lambda cursor: reading.embedders(cursor, tenant, user_id))

    async def behind(self, tenant: str, user_id: str) -> list[BehindRow]:
        """The sessions of a user of which turns are still to be admitted, the oldest first."""
        return await self._readers.read(lambda cursor: reading.behind(cursor, tenant, user_id))

    async def admissible(self, tenant: str, session_id: str, *, after: int, limit: int) -> list[AdmissionRow]:
        """What at most `limit` turns of a session after turn `after` have for memory, in order."""
        return await self._readers.read(lambda cursor: reading.admissible(cursor, tenant, session_id, after, limit))

    async def jobs(
        self, tenant: str, *, user_id: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[JobRow]:
        """A page of jobs of a tenant, or of one of its users, the newest first. Raises CursorInvalid."""
        return await self._readers.read(lambda reader: reading.jobs(reader, tenant, user_id, limit, cursor))

    async def job(self, tenant: str, job_id: str) -> JobRow | None:
        """One job."""
        return await self._readers.read(lambda cursor: reading.job(cursor, tenant, job_id))

    async def unfinished_jobs(self, tenant: str, user_id: str, limit: int) -> list[JobRow]:
        """The oldest jobs on a memory that are not done."""
        return await self._readers.read(lambda cursor: reading.unfinished_jobs(cursor, tenant, user_id, limit))

    async def unfinished_jobs_of_all(self, limit: int) -> list[JobRow]:
        """The oldest jobs of every tenant that are not done, for the server itself."""
        return await self._readers.read(lambda cursor: reading.unfinished_jobs_of_all(cursor, limit))

    async def owners_of_all(self) -> list[OwnerOf]:
        """Memories of every tenant, for what is outside of the record."""
        return await self._readers.read(reading.owners_of_all)

    async def owners_behind_of_all(self, limit: int, bounds: Bounds) -> list[OwnerOf]:
        """Memories of every tenant on which there is work to do by itself, for the server itself."""
        return await self._readers.read(lambda cursor: reading.owners_behind_of_all(cursor, bounds, limit))

    async def check(
        self, *, tenant: str | None = None, user_id: str | None = None, embedder: str | None = None
    ) -> list[Finding]:
        """What is wrong with a memory, with those of a tenant, or with all: a bounded number of findings of each kind.

        With an embedder, memories with units that it has not seen are told as well.
        """
        return [
            finding
            for check in integrity.checks(tenant, user_id, embedder)
            for finding in await self._readers.read(check)
        ]

    async def repair(self, findings: Sequence[Finding]) -> None:
        """Mend what was found, in one transaction. What lay behind it is found by the next check."""
        await self._run(lambda cursor: integrity.repair(cursor, findings))
