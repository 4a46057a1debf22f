"""A memory is written in one transaction, and read back by its owner only."""

from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import msgspec
import pytest

from store.interface.errors import RowRefused
from store.interface.memory_rows import (
    Bounds,
    GroupRow,
    JobRow,
    MemoryChange,
    OwnerOf,
    OwnerRow,
    Relation,
    VectorRows,
    Visit,
)
from store.memory.changes import JOBS_STORED
from store.store import Store
from tests.support.store_rows import MOMENT, Conversation, unit_of

BOUNDS = Bounds(embeds=False, units_max=100, summarise_from=0)
EMBEDDING = Bounds(embeds=True, units_max=100, summarise_from=0)
CLINIC = ("clinic", "ana")


def change_of(**parts: Any) -> MemoryChange:
    return MemoryChange(tenant="clinic", user_id="ana", **parts)


async def test_memory_is_read_as_it_was_written_by_its_owner_only(store: Store) -> None:
    owner = OwnerRow(tenant="clinic", user_id="ana", memory_id="m", sequence=3, created_at=MOMENT)
    group = GroupRow(
        tenant="clinic", user_id="ana", group_id="diary", short_term=msgspec.Raw(b"[1,2]"), created_at=MOMENT
    )
    units = [unit_of(1), unit_of(2, metadata={"a": [1]}, trust="own"), unit_of(3, rank=1, level=1)]
    vectors = VectorRows("hashed:1", [1, 2], [None, None], [b"abcd", b""])
    await store.memory.change(change_of(owner=owner, groups=[group], units=units, vectors=vectors))
    assert await store.memory.owner(*CLINIC) == owner
    assert await store.memory.groups(*CLINIC) == [group]
    assert await store.memory.units(*CLINIC) == units
    assert await store.memory.units(*CLINIC, after=1, limit=1) == units[1:2]
    read = await store.memory.vectors(*CLINIC, "hashed:1")
    assert (read.sequences, read.vectors) == ([1, 2], [b"abcd", b""])
    assert await store.memory.embedders(*CLINIC) == {"hashed:1": 2}
    assert await store.memory.existing_ids(*CLINIC, ["unit-3", "unit-4", "unit\0"]) == {"unit-3"}
    for stranger in (("clinic", "ben"), ("other", "ana")):
        assert await store.memory.owner(*stranger) is None
        assert await store.memory.groups(*stranger) == []
        assert await store.memory.units(*stranger) == []
        assert (await store.memory.vectors(*stranger, "hashed:1")).sequences == []
        assert await store.memory.embedders(*stranger) == {}
        assert await store.memory.existing_ids(*stranger, ["unit-1"]) == set()


async def test_a_change_takes_the_place_of_what_was_and_removes(store: Store) -> None:
    owner = OwnerRow(tenant="clinic", user_id="ana", memory_id="m", sequence=2, created_at=MOMENT)
    vectors = VectorRows("hashed:1", [1, 2], [None, None], [b"old!", b"two!"])
    await store.memory.change(change_of(owner=owner, units=[unit_of(1), unit_of(2)], vectors=vectors))
    later = msgspec.structs.replace(owner, sequence=3, is_stale=True)
    said = Relation(
        sequence=2,
        parent_id="diary",
        never_delete=True,
        is_stale=False,
        valid_to=MOMENT + timedelta(days=1),
        superseded_by="unit-3",
        duplicate_of="unit-1",
    )
    await store.memory.change(
        change_of(owner=later, removed=[1], visits=[Visit(2, 5, 3)], relations=[said], units=[unit_of(3)])
    )
    assert await store.memory.owner(*CLINIC) == later
    second, third = await store.memory.units(*CLINIC)
    assert (second.visit_count, second.last_visit, third.sequence) == (5, 3, 3)
    assert {name: getattr(second, name) for name in msgspec.structs.asdict(said)} == msgspec.structs.asdict(said)
    assert (await store.memory.vectors(*CLINIC, "hashed:1")).sequences == [2]
    other = VectorRows("hashed:2", [3], [None], [b"12345678"])
    await store.memory.change(change_of(vectors=other))
    assert await store.memory.stale_embeddings(*CLINIC, "hashed:1") == [3]
    await store.memory.change(change_of(only_embedder="hashed:1"))
    assert await store.memory.embedders(*CLINIC) == {"hashed:1": 1}


async def test_stale_summary_loses_its_content_and_vectors(store: Store) -> None:
    vectors = VectorRows("hashed:1", [1, 2], [None, None], [b"one!", b"two!"])
    await store.memory.change(change_of(units=[unit_of(1), unit_of(2)], vectors=vectors))
    before = await store.memory.units(*CLINIC)
    stale = Relation(
        sequence=1,
        parent_id=None,
        never_delete=False,
        is_stale=True,
        valid_to=None,
        superseded_by=None,
        duplicate_of=None,
    )
    await store.memory.change(change_of(relations=[stale]))
    first, second = await store.memory.units(*CLINIC)
    assert (first.is_stale, first.content) == (True, "")
    assert second == before[1]
    assert (await store.memory.vectors(*CLINIC, "hashed:1")).sequences == [2]


async def test_a_change_with_a_row_of_another_memory_is_refused_whole(store: Store) -> None:
    with pytest.raises(RowRefused):
        await store.memory.change(change_of(units=[unit_of(1), unit_of(2, user_id="ben")]))
    assert await store.memory.units(*CLINIC) == []


async def test_a_unit_that_is_a_message_has_its_words_from_its_turn(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    turn = await conversation.say(store)
    session = conversation.session_id
    said = turn.messages[0]
    assert [(row.session_id, row.turn, row.turns) for row in await store.memory.pending_ingest(*CLINIC)] == [
        (session, -1, 1)
    ]
    found = await store.memory.admissible("clinic", session, after=0, limit=10)
    assert [row.turn for row in found] == [1]
    assert msgspec.json.decode(found[0].messages)[0]["content"] == said.content
    unit = unit_of(1, group_id=session, session_id=session, turn=1, message=said.seq, content=None)
    group = GroupRow(tenant="clinic", user_id="ana", group_id=session, session_id=session, turn=1, created_at=MOMENT)
    await store.memory.change(change_of(groups=[group], units=[unit, unit_of(2)]))
    assert [row.content for row in await store.memory.units(*CLINIC)] == [said.content, "note 2"]
    assert await store.memory.pending_ingest(*CLINIC) == []


@pytest.mark.database_file
async def test_the_view_has_words_and_neighbours_within_a_group(store: Store, tmp_path: Path) -> None:
    units = [unit_of(1), unit_of(2, group_id="other"), unit_of(3), unit_of(4, rank=1)]
    await store.memory.change(change_of(units=units))
    await store.close()
    with duckdb.connect(str(tmp_path / "cuebook.duckdb"), read_only=True) as connection:
        found = connection.execute(
            "SELECT sequence, content, pre_id, next_id FROM memory_units ORDER BY sequence"
        ).fetchall()
    assert found == [
        (1, "note 1", None, "unit-3"),
        (2, "note 2", None, None),
        (3, "note 3", "unit-1", None),
        (4, "note 4", None, None),
    ]


async def test_deleting_a_session_removes_what_sums_up_all(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    session = conversation.session_id
    owner = OwnerRow(tenant="clinic", user_id="ana", memory_id="m", sequence=4, created_at=MOMENT)
    groups = [
        GroupRow(tenant="clinic", user_id="ana", group_id=name, session_id=of, created_at=MOMENT)
        for name, of in ((session, session), ("diary", None))
    ]
    units = [
        unit_of(1, group_id=session, session_id=session, rank=1, unit_id=session, parent_id="m"),
        unit_of(2, rank=1, unit_id="diary", parent_id="m"),
        unit_of(3, rank=2, unit_id="m", group_id="m"),
        unit_of(4, parent_id="diary"),
    ]
    vectors = VectorRows("hashed:1", [1, 2, 3], [session, None, None], [b"1234"] * 3)
    await store.memory.change(change_of(owner=owner, groups=groups, units=units, vectors=vectors))
    assert await store.maintenance.delete_session("clinic", session)
    left = await store.memory.units(*CLINIC)
    assert [(unit.unit_id, unit.parent_id) for unit in left] == [("diary", None), ("unit-4", "diary")]
    assert (await store.memory.vectors(*CLINIC, "hashed:1")).sequences == [2]
    stale = await store.memory.owner(*CLINIC)
    assert stale is not None
    assert stale.is_stale
    assert await store.memory.owners_behind_of_all(10, BOUNDS) == [OwnerOf(*CLINIC)]


async def test_memories_with_work_to_do_are_found(store: Store, conversation: Conversation) -> None:
    owner = OwnerRow(tenant="clinic", user_id="ana", memory_id="m", sequence=1, created_at=MOMENT)
    await conversation.create(store)
    assert await store.memory.owners_behind_of_all(10, EMBEDDING) == []  # nobody has a memory yet
    group = GroupRow(
        tenant="clinic",
        user_id="ana",
        group_id=conversation.session_id,
        session_id=conversation.session_id,
        turn=0,
        created_at=MOMENT,
    )
    await store.memory.change(change_of(owner=owner, groups=[group], units=[unit_of(1)]))
    assert await store.memory.owners_behind_of_all(10, BOUNDS) == []
    assert len(await store.memory.owners_behind_of_all(10, EMBEDDING)) == 1
    await store.memory.change(change_of(vectors=VectorRows("hashed:1", [1], [None], [b"1234"])))
    assert await store.memory.owners_behind_of_all(10, EMBEDDING) == []
    await conversation.say(store)
    assert len(await store.memory.owners_behind_of_all(10, BOUNDS)) == 1


async def test_what_a_crash_left_to_do_is_found(store: Store) -> None:
    owner = OwnerRow(tenant="clinic", user_id="ana", memory_id="m", sequence=3, created_at=MOMENT)
    stale = unit_of(3, unit_id="diary", rank=1, is_stale=True)
    units = [unit_of(1), unit_of(2)]
    await store.memory.change(change_of(owner=owner, units=units))
    assert await store.memory.owners_behind_of_all(10, BOUNDS) == []
    for left in (
        Bounds(embeds=False, units_max=1, summarise_from=0),
        Bounds(embeds=False, units_max=9, summarise_from=2),
    ):
        assert await store.memory.owners_behind_of_all(10, left) == [OwnerOf(*CLINIC)]
    assert await store.memory.owners_behind_of_all(10, Bounds(embeds=False, units_max=2, summarise_from=3)) == []
    await store.memory.change(change_of(units=[stale]))
    assert await store.memory.owners_behind_of_all(10, BOUNDS) == [OwnerOf(*CLINIC)]


async def add_jobs(store: Store, jobs: list[JobRow]) -> None:
    """Store jobs as a server does: first they are queued."""
    await store.memory.change(change_of(jobs=[msgspec.structs.replace(job, status="queued") for job in jobs]))
    await store.memory.change(change_of(jobs=jobs))


async def test_the_newest_finished_jobs_are_retained(store: Store) -> None:
    jobs = [
        JobRow(
            tenant="clinic",
            user_id="ana",
            job_id=str(uuid4()),
            kind="forget",
            options={},
            status="queued" if number == 0 else "done",
            created_at=MOMENT + timedelta(minutes=number),
            updated_at=MOMENT,
        )
        for number in range(JOBS_STORED + 10)
    ]
    await add_jobs(store, jobs)
    retained = (await store.memory.jobs("clinic", limit=1_000)).rows
    assert retained == [*jobs[: -JOBS_STORED - 1 : -1], jobs[0]]


async def test_jobs_are_stored_and_unfinished_ones_found(store: Store) -> None:
    jobs = [
        JobRow(
            tenant="clinic",
            user_id="ana",
            job_id=str(uuid4()),
            kind="summarise",
            options={"group": "diary"},
            status=status,
            created_at=MOMENT + timedelta(minutes=number),
            updated_at=MOMENT,
        )
        for number, status in enumerate(("done", "running", "queued"))
    ]
    await add_jobs(store, jobs)
    assert await store.memory.unfinished_jobs_of_all(10) == jobs[1:]
    assert await store.memory.unfinished_jobs("clinic", "ana", 10) == jobs[1:]
    assert await store.memory.unfinished_jobs("clinic", "ana", 1) == jobs[1:2]
    assert await store.memory.unfinished_jobs("clinic", "ben", 10) == []
    first = await store.memory.jobs("clinic", limit=2)
    assert first.rows == jobs[:0:-1]
    assert (await store.memory.jobs("clinic", user_id="ana", limit=2, cursor=first.next)).rows == jobs[:1]
    assert (await store.memory.jobs("other")).rows == []
    assert await store.memory.job("clinic", jobs[0].job_id) == jobs[0]
    assert await store.memory.job("other", jobs[0].job_id) is None
    finished = msgspec.structs.replace(jobs[1], status="done", result={"units": 3})
    await store.memory.change(change_of(jobs=[finished]))
    assert await store.memory.job("clinic", finished.job_id) == finished
    assert await store.memory.unfinished_jobs_of_all(10) == jobs[2:]
