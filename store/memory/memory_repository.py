"""What the store offers of the memories of users: their rows, vectors, jobs and calls of language models."""

from abc import ABC, abstractmethod

from store.interface.memory_filters import Filter
from store.memory import changes, queries
from store.sql.repository import Repository, reads, writes


class MemoryRepository(Repository, ABC):
    """Read and write memories. Every method except `…_of_all` concerns one tenant."""

    @abstractmethod
    async def matching(self, tenant: str, user_id: str, filter_: Filter) -> list[int]:
        """Return the sequence numbers of the units that a filter matches, ascending."""

    change = writes(changes.apply_change)
    import_units = writes(changes.import_units)
    begin_call = writes(changes.begin_call)
    end_call = writes(changes.end_call)
    owner = reads(queries.owner)
    groups = reads(queries.groups)
    units = reads(queries.units)
    vectors = reads(queries.vectors)
    stamp = reads(queries.stamp)
    existing_ids = reads(queries.existing_ids)
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
