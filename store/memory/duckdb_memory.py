"""The repository of memories over DuckDB. What each method does is said in the protocol `MemoryRepository`."""

from collections.abc import Iterable

from store.duckdb.readers import Readers
from store.duckdb.repository import Repository, reads, writes
from store.duckdb.writer import Writer
from store.interface.memory_rows import MemoryChange
from store.memory import calls, filters_sql, imports, queries
from store.memory.changes import MemoryWriting


class DuckDBMemory(Repository):
    """Read and write memories."""

    def __init__(self, readers: Readers, writer: Writer | None) -> None:
        super().__init__(readers, writer)
        self._writing = MemoryWriting()

    async def change(self, change: MemoryChange) -> None:
        """Write a change of a memory in one transaction."""
        await self._writer.run(lambda cursor: self._writing.apply(cursor, change))

    async def import_units(self, tenant: str, user_id: str, expected: str, changes: Iterable[MemoryChange]) -> None:
        """Write changes in one transaction; they are iterated in the writer's thread."""
        await self._writer.run(
            lambda cursor: imports.import_units(cursor, self._writing, tenant, user_id, expected, changes)
        )

    begin_call = writes(calls.begin_call)
    end_call = writes(calls.end_call)
    owner = reads(queries.owner)
    groups = reads(queries.groups)
    units = reads(queries.units)
    matching = reads(filters_sql.matching)
    vectors = reads(queries.vectors)
    stamp = reads(imports.stamp)
    existing_ids = reads(imports.existing_ids)
    stale_embeddings = reads(queries.stale_embeddings)
    embedders = reads(queries.embedders)
    pending_ingest = reads(queries.pending_ingest)
    admissible = reads(queries.admissible)
    jobs = reads(queries.jobs)
    job = reads(queries.job)
    unfinished_jobs = reads(queries.unfinished_jobs)
    unfinished_jobs_of_all = reads(queries.unfinished_jobs_of_all)
    owners_of_all = reads(queries.owners_of_all)
    owners_behind_of_all = reads(queries.owners_behind_of_all)
