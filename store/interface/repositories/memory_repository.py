"""The memories of users: their rows, vectors, jobs and calls of language models."""

from collections.abc import Iterable
from typing import Protocol

from store.interface.memory_filters import Filter
from store.interface.memory_rows import (
    SEQUENCE_MAX,
    AdmissionRow,
    BehindRow,
    Bounds,
    GroupRow,
    JobRow,
    MemoryCallRow,
    MemoryChange,
    OwnerOf,
    OwnerRow,
    UnitRow,
    VectorsRead,
)
from store.interface.pages import Page


class MemoryRepository(Protocol):
    """Read and write memories. Every method except `…_of_all` concerns one tenant.

    Raises the same errors as `Store`.
    """

    async def change(self, change: MemoryChange) -> int:
        """Write a change of a memory; return its version after it is on disk, 0 where no other server changes it.

        Raises RowRefused, MemoryMoved.
        """

    async def begin_call(self, call: MemoryCallRow) -> None:
        """Store a call of a language model for a memory before it is made."""

    async def end_call(self, call: MemoryCallRow) -> None:
        """Replace a stored call with its result. Raises RowRefused."""

    async def owner(self, tenant: str, user_id: str) -> OwnerRow | None:
        """Return the memory of a user."""

    async def groups(self, tenant: str, user_id: str) -> list[GroupRow]:
        """Return the groups of a memory, the oldest first."""

    async def units(self, tenant: str, user_id: str, *, after: int = 0, limit: int = 1_000) -> list[UnitRow]:
        """Return at most `limit` units with sequence numbers above `after`, with their texts, in order."""

    async def matching(self, tenant: str, user_id: str, filter_: Filter) -> list[int]:
        """Return the sequence numbers of the units that a filter matches, ascending."""

    async def vectors(
        self, tenant: str, user_id: str, embedder: str, *, after: int = 0, last: int = SEQUENCE_MAX
    ) -> VectorsRead:
        """Return the vectors of an embedder for units with numbers above `after` and up to `last`, in order."""

    async def stamp(self, tenant: str, user_id: str) -> str:
        """Return a fingerprint of a memory that changes if units or groups are added, removed or moved in the tree."""

    async def existing_ids(self, tenant: str, user_id: str, ids: list[str]) -> set[str]:
        """Return those of the ids that units of the memory already have."""

    async def import_units(self, tenant: str, user_id: str, expected: str, changes: Iterable[MemoryChange]) -> None:
        """Write changes that were computed for the stamp `expected`, all or none. Raises MemoryMoved, RowRefused.

        `changes` is iterated in the writer's thread and must not raise, because that would end the thread.
        """

    async def stale_embeddings(self, tenant: str, user_id: str, embedder: str) -> list[int]:
        """Return the units that have vectors of other embedders, but none of this one."""

    async def embedders(self, tenant: str, user_id: str) -> dict[str, int]:
        """Return the number of vectors of each embedder in a memory."""

    async def pending_ingest(self, tenant: str, user_id: str) -> list[BehindRow]:
        """Return the sessions of a user with turns that are not ingested yet, the oldest first."""

    async def admissible(self, tenant: str, session_id: str, *, after: int, limit: int) -> list[AdmissionRow]:
        """Return the parts for memory of at most `limit` turns of a session after turn `after`, in order."""

    async def jobs(
        self, tenant: str, *, user_id: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[JobRow]:
        """Return a page of the jobs of a tenant, or of one of its users, the newest first. Raises CursorInvalid."""

    async def job(self, tenant: str, job_id: str) -> JobRow | None:
        """Return one job."""

    async def unfinished_jobs(self, tenant: str, user_id: str, limit: int) -> list[JobRow]:
        """Return the oldest jobs of a memory that are not finished."""

    async def unfinished_jobs_of_all(self, limit: int) -> list[JobRow]:
        """Return the oldest jobs of all tenants that are not finished, for the server itself."""

    async def owners_of_all(self) -> list[OwnerOf]:
        """Return the owners of the memories of all tenants, for data that is stored outside the database."""

    async def owners_behind_of_all(self, limit: int, bounds: Bounds) -> list[OwnerOf]:
        """Return the owners of memories of all tenants that need automatic maintenance, for the server itself."""
