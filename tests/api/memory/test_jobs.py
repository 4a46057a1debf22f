"""Work that somebody asked for is bounded, done once, and done in the end."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import replace

from api.memory import maintenance
from api.memory.cache import MemoryCache
from api.memory.jobs import JOBS_MAX, JobOptions
from api.memory.worker import ATTEMPTS_MAX
from api.schemas.memory_errors import TooManyJobs
from runtime.memory.summaries import Summary, SummaryRequest
from runtime.state.ports import ModelFailed
from store.interface.errors import StoreUnavailable
from store.interface.memory_rows import MemoryChange
from tests.support.opened_memory import OpenMemory

OWNER = ("default", "ana")


async def jobs_of(memory: Any) -> list[Any]:
    return (await memory.store.memory.jobs(OWNER[0], user_id=OWNER[1], limit=200)).rows


async def add_many(memory: Any, count: int) -> None:
    await memory.memories.start_group(*OWNER, "diary", context_length=1)
    await memory.add("diary", *(f"note {number}" for number in range(count)))


@pytest.mark.gate
async def test_so_many_wait_and_no_more_and_all_of_them_are_done(open_memory: OpenMemory) -> None:
    async with open_memory(embedder="none") as memory:
        await add_many(memory, 2)
        await memory.wait_idle()  # so that nobody begins with them before all are there
        first = await memory.memory_system.jobs.submit(*OWNER, "summarise", JobOptions(group="group 0"))
        more = [
            replace(first, job_id=str(uuid4()), options={"group": f"group {number}"}) for number in range(1, JOBS_MAX)
        ]
        await memory.store.memory.change(MemoryChange(tenant=OWNER[0], user_id=OWNER[1], jobs=more))
        with pytest.raises(TooManyJobs):
            await memory.memory_system.jobs.submit(*OWNER, "forget", JobOptions())
        same = await memory.memory_system.jobs.submit(*OWNER, "summarise", JobOptions(group="group 0"))
        assert same == first
        assert len((await memory.memory_system.listing.status(*OWNER)).jobs) == JOBS_MAX
        memory.memory_system.worker.prioritise(*OWNER)
        await memory.wait_idle()
        assert {job.status for job in await jobs_of(memory)} == {"done"}
        assert len(await jobs_of(memory)) == JOBS_MAX


async def test_crash_during_forgetting_takes_no_more_than_requested(
    open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "FORGOTTEN_MAX", 3)
    async with open_memory(embedder="none") as memory:
        await add_many(memory, 21)
        await memory.wait_idle()  # else the worker may run the job as well
        job = await memory.memory_system.jobs.submit(*OWNER, "forget", JobOptions(share=0.5))
        write, written = MemoryCache.write, []

        async def write_twice(cache: Any, loaded: Any, change: Any) -> None:
            if len(written) == 2:
                raise StoreUnavailable("killed")
            written.append(change)
            await write(cache, loaded, change)

        with monkeypatch.context() as patch, pytest.raises(StoreUnavailable):
            patch.setattr(MemoryCache, "write", write_twice)
            await memory.memory_system.jobs.run(job)
        (half,) = await jobs_of(memory)
        assert (half.status, half.done, half.total) == ("running", 6, 10)
    async with open_memory(embedder="none") as memory:
        await memory.wait_idle()
        (over,) = await jobs_of(memory)
        assert (over.status, over.done, over.total, over.result) == ("done", 10, 10, {"units": 10})
        left = [unit.content for unit in await memory.store.memory.units(*OWNER)]
        assert left == [f"note {number}" for number in range(10, 21)]


async def test_forgetting_where_nothing_may_go_is_done_at_once(open_memory: OpenMemory) -> None:
    async with open_memory(embedder="none") as memory:
        job = await memory.memory_system.jobs.submit(*OWNER, "forget", JobOptions())
        await memory.memory_system.jobs.run(job)
        (over,) = await jobs_of(memory)
        assert (over.status, over.result) == ("done", {"units": 0})


async def test_an_embedder_that_fails_holds_nothing_else_up(open_memory: OpenMemory) -> None:
    wrong = {"embedder": "openai:none", "embedder_url": "http://127.0.0.1:9/v1", "embedder_timeout_s": 1}
    async with open_memory(memory_units_max=5, **wrong) as memory:
        await add_many(memory, 12)
        await memory.memory_system.jobs.submit(*OWNER, "summarise", JobOptions(group="diary"))
        await memory.wait_idle()
        assert {job.status for job in await jobs_of(memory)} == {"done"}
        assert len(await memory.store.memory.units(*OWNER)) <= 5
        assert memory.memory_system.worker.failed > 0


async def test_failures_of_other_work_do_not_count_as_job_attempts(
    open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.memory.worker.AGAIN_S", 0.001)
    monkeypatch.setattr("api.memory.worker.AGAIN_S_MAX", 0.01)
    monkeypatch.setattr("api.memory.embedding.REST_S", 0.001)
    monkeypatch.setattr("store.embedders.openai.ATTEMPTS_MAX", 1)
    wrong = {"embedder": "openai:none", "embedder_url": "http://127.0.0.1:9/v1", "embedder_timeout_s": 1}
    async with open_memory(**wrong) as memory:
        worker = memory.memory_system.worker
        await add_many(memory, 2)
        async with asyncio.timeout(60):
            while worker.failed < ATTEMPTS_MAX:
                await worker.wait_idle()
                await asyncio.sleep(0.01)
        job = await memory.memory_system.jobs.submit(*OWNER, "embed", JobOptions())
        worker.prioritise(*OWNER)
        await memory.wait_idle()
        assert (await memory.memory_system.jobs.wait(job, 0)).status != "failed"
        assert [each.status for each in await jobs_of(memory)] == ["running"]
        over = await memory.memory_system.jobs.wait(job, 60)
        assert over.status == "failed"


@pytest.mark.parametrize(("retryable", "status"), [(False, "failed"), (True, "running")])
async def test_a_job_shows_why_its_last_attempt_failed(
    open_memory: OpenMemory, *, retryable: bool, status: str
) -> None:
    async def refuse(request: SummaryRequest) -> Summary:
        raise ModelFailed("the key of the model is refused", retryable=retryable)

    async with open_memory(embedder="none", summarise=refuse) as memory:
        await add_many(memory, 2)
        await memory.memory_system.jobs.submit(*OWNER, "summarise", JobOptions())
        await memory.wait_idle()
        (job,) = await jobs_of(memory)
        assert (job.status, job.error) == (status, "the key of the model is refused")


@pytest.mark.slow
async def test_impossible_job_is_given_up_and_the_others_are_done(
    open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.memory.worker.AGAIN_S", 0.001)
    async with open_memory(embedder="none") as memory:
        await add_many(memory, 2)
        asked = await memory.memory_system.jobs.submit(*OWNER, "summarise", JobOptions())
        never = replace(asked, job_id=str(uuid4()), kind="forget", options={"policy": "none that there is"})
        await memory.store.memory.change(MemoryChange(tenant=OWNER[0], user_id=OWNER[1], jobs=[never]))
        memory.memory_system.worker.prioritise(*OWNER)
        over = [await memory.memory_system.jobs.wait(job, 60) for job in (asked, never)]
        assert [(job.status, job.error) for job in over] == [
            ("done", None),
            ("failed", "internal error; see the server's log"),
        ]


async def test_job_that_ends_after_its_users_erasure_leaves_nothing(open_memory: OpenMemory) -> None:
    async with open_memory(embedder="none") as memory:
        jobs = memory.memory_system.jobs
        job = await jobs.submit(*OWNER, "summarise", JobOptions())
        await memory.store.maintenance.erase_user(*OWNER, str(uuid4()), job.created_at)
        await jobs.run(job)
        await jobs.note_failure(job, "too late", is_over=True)
        assert (await memory.store.memory.jobs(OWNER[0])).rows == []
