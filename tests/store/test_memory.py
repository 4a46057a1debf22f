"""A memory is written in one transaction, and read back by its owner only."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import duckdb
import msgspec
import pytest

from store.errors import RowRefused
from store.memory.changes import JOBS_KEPT
from store.memory.reading import Bounds, OwnerOf
from store.memory.rows import GroupRow, JobRow, MemoryChange, OwnerRow, Relation, VectorRows, Visit
from store.record import Record

BOUNDS = Bounds(embeds=False, units_max=100, summarise_from=0)
EMBEDDING = Bounds(embeds=True, units_max=100, summarise_from=0)
CLINIC = ("clinic", "ana")


def change_of(rows: Any, **parts: Any) -> MemoryChange:
    return MemoryChange(tenant="clinic", user_id="ana", **parts)


async def test_a_memory_comes_back_as_it_was_written_and_to_its_owner_only(record: Record, rows: Any) -> None:
    owner = OwnerRow(tenant="clinic", user_id="ana", memory_id="m", sequence=3, created_at=rows.MOMENT)
    group = GroupRow(
        tenant="clinic", user_id="ana", group_id="diary", short_term=msgspec.Raw(b"[1,2]"), created_at=rows.MOMENT
    )
    units = [rows.unit_of(1), rows.unit_of(2, metadata={"a": [1]}, trust="own"), rows.unit_of(3, rank=1, level=1)]
    vectors = VectorRows("hashed:1", [1, 2], [None, None], [b"abcd", b""])
    await record.memory.change(change_of(rows, owner=owner, groups=[group], units=units, vectors=vectors))
    assert await record.memory.owner(*CLINIC) == owner
    assert await record.memory.groups(*CLINIC) == [group]
    assert await record.memory.units(*CLINIC) == units
    assert await record.memory.units(*CLINIC, after=1, limit=1) == units[1:2]
    read = await record.memory.vectors(*CLINIC, "hashed:1")
    assert (read.sequences, read.vectors) == ([1, 2], [b"abcd", b""])
    assert await record.memory.embedders(*CLINIC) == {"hashed:1": 2}
    assert await record.memory.alive(*CLINIC, [3, 4]) == [3]
    for stranger in (("clinic", "ben"), ("other", "ana")):
        assert await record.memory.owner(*stranger) is None
        assert await record.memory.groups(*stranger) == []
        assert await record.memory.units(*stranger) == []
        assert (await record.memory.vectors(*stranger, "hashed:1")).sequences == []
        assert await record.memory.embedders(*stranger) == {}
        assert await record.memory.alive(*stranger, [1]) == []


async def test_a_change_takes_the_place_of_what_was_and_removes(record: Record, rows: Any) -> None:
    owner = OwnerRow(tenant="clinic", user_id="ana", memory_id="m", sequence=2, created_at=rows.MOMENT)
    vectors = VectorRows("hashed:1", [1, 2], [None, None], [b"old!", b"two!"])
    await record.memory.change(change_of(rows, owner=owner, units=[rows.unit_of(1), rows.unit_of(2)], vectors=vectors))
    later = msgspec.structs.replace(owner, sequence=3, is_stale=True)
    said = Relation(
        sequence=2,
        parent_id="diary",
        never_delete=True,
        is_stale=False,
        valid_to=rows.MOMENT + timedelta(days=1),
        superseded_by="unit-3",
        duplicate_of="unit-1",
    )
    await record.memory.change(
        change_of(rows, owner=later, removed=[1], visits=[Visit(2, 5, 3)], relations=[said], units=[rows.unit_of(3)])
    )
    assert await record.memory.owner(*CLINIC) == later
    second, third = await record.memory.units(*CLINIC)
    assert (second.visit_count, second.last_visit, third.sequence) == (5, 3, 3)
    assert {name: getattr(second, name) for name in msgspec.structs.asdict(said)} == msgspec.structs.asdict(said)
    assert (await record.memory.vectors(*CLINIC, "hashed:1")).sequences == [2]
    other = VectorRows("hashed:2", [3], [None], [b"12345678"])
    await record.memory.change(change_of(rows, vectors=other))
    assert await record.memory.seen_otherwise(*CLINIC, "hashed:1") == [3]
    await record.memory.change(change_of(rows, only_embedder="hashed:1"))
    assert await record.memory.embedders(*CLINIC) == {"hashed:1": 1}


async def test_stale_summary_loses_its_content_and_vectors(record: Record, rows: Any) -> None:
    vectors = VectorRows("hashed:1", [1, 2], [None, None], [b"one!", b"two!"])
    await record.memory.change(change_of(rows, units=[rows.unit_of(1), rows.unit_of(2)], vectors=vectors))
    before = await record.memory.units(*CLINIC)
    stale = Relation(
        sequence=1,
        parent_id=None,
        never_delete=False,
        is_stale=True,
        valid_to=None,
        superseded_by=None,
        duplicate_of=None,
    )
    await record.memory.change(change_of(rows, relations=[stale]))
    first, second = await record.memory.units(*CLINIC)
    assert (first.is_stale, first.content) == (True, "")
    assert second == before[1]
    assert (await record.memory.vectors(*CLINIC, "hashed:1")).sequences == [2]


async def test_a_change_with_a_row_of_another_memory_is_refused_whole(record: Record, rows: Any) -> None:
    with pytest.raises(RowRefused):
        await record.memory.change(change_of(rows, units=[rows.unit_of(1), rows.unit_of(2, user_id="ben")]))
    assert await record.memory.units(*CLINIC) == []


async def test_a_unit_that_is_a_message_has_its_words_from_its_turn(
    record: Record, rows: Any, conversation: Any
) -> None:
    await conversation.create(record)
    turn = await conversation.say(record)
    session = conversation.session_id
    said = turn.messages[0]
    assert [(row.session_id, row.turn, row.turns) for row in await record.memory.behind(*CLINIC)] == [(session, -1, 1)]
    found = await record.memory.admissible("clinic", session, after=0, limit=10)
    assert [row.turn for row in found] == [1]
    assert msgspec.json.decode(found[0].messages)[0]["content"] == said.content
    unit = rows.unit_of(1, group_id=session, session_id=session, turn=1, message=said.seq, content=None)
    group = GroupRow(
        tenant="clinic", user_id="ana", group_id=session, session_id=session, turn=1, created_at=rows.MOMENT
    )
    await record.memory.change(change_of(rows, groups=[group], units=[unit, rows.unit_of(2)]))
    assert [row.content for row in await record.memory.units(*CLINIC)] == [said.content, "note 2"]
    assert await record.memory.behind(*CLINIC) == []


async def test_the_view_has_words_and_neighbours_within_a_group(record: Record, rows: Any, tmp_path: Any) -> None:
    units = [rows.unit_of(1), rows.unit_of(2, group_id="other"), rows.unit_of(3), rows.unit_of(4, rank=1)]
    await record.memory.change(change_of(rows, units=units))
    await record.close()
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


async def test_deleting_a_session_removes_what_sums_up_all(record: Record, rows: Any, conversation: Any) -> None:
    await conversation.create(record)
    session = conversation.session_id
    owner = OwnerRow(tenant="clinic", user_id="ana", memory_id="m", sequence=4, created_at=rows.MOMENT)
    groups = [
        GroupRow(tenant="clinic", user_id="ana", group_id=name, session_id=of, created_at=rows.MOMENT)
        for name, of in ((session, session), ("diary", None))
    ]
    units = [
        rows.unit_of(1, group_id=session, session_id=session, rank=1, unit_id=session, parent_id="m"),
        rows.unit_of(2, rank=1, unit_id="diary", parent_id="m"),
        rows.unit_of(3, rank=2, unit_id="m", group_id="m"),
        rows.unit_of(4, parent_id="diary"),
    ]
    vectors = VectorRows("hashed:1", [1, 2, 3], [session, None, None], [b"1234"] * 3)
    await record.memory.change(change_of(rows, owner=owner, groups=groups, units=units, vectors=vectors))
    assert await record.delete_session("clinic", session)
    left = await record.memory.units(*CLINIC)
    assert [(unit.unit_id, unit.parent_id) for unit in left] == [("diary", None), ("unit-4", "diary")]
    assert (await record.memory.vectors(*CLINIC, "hashed:1")).sequences == [2]
    stale = await record.memory.owner(*CLINIC)
    assert stale is not None
    assert stale.is_stale
    assert await record.memory.owners_behind_of_all(10, BOUNDS) == [OwnerOf(*CLINIC)]


async def test_memories_with_work_to_do_are_found(record: Record, rows: Any, conversation: Any) -> None:
    owner = OwnerRow(tenant="clinic", user_id="ana", memory_id="m", sequence=1, created_at=rows.MOMENT)
    await conversation.create(record)
    assert await record.memory.owners_behind_of_all(10, EMBEDDING) == []  # nobody has a memory yet
    group = GroupRow(
        tenant="clinic",
        user_id="ana",
        group_id=conversation.session_id,
        session_id=conversation.session_id,
        turn=0,
        created_at=rows.MOMENT,
    )
    await record.memory.change(change_of(rows, owner=owner, groups=[group], units=[rows.unit_of(1)]))
    assert await record.memory.owners_behind_of_all(10, BOUNDS) == []
    assert len(await record.memory.owners_behind_of_all(10, EMBEDDING)) == 1
    await record.memory.change(change_of(rows, vectors=VectorRows("hashed:1", [1], [None], [b"1234"])))
    assert await record.memory.owners_behind_of_all(10, EMBEDDING) == []
    await conversation.say(record)
    assert len(await record.memory.owners_behind_of_all(10, BOUNDS)) == 1


async def test_what_a_crash_left_to_do_is_found(record: Record, rows: Any) -> None:
    owner = OwnerRow(tenant="clinic", user_id="ana", memory_id="m", sequence=3, created_at=rows.MOMENT)
    stale = rows.unit_of(3, unit_id="diary", rank=1, is_stale=True)
    units = [rows.unit_of(1), rows.unit_of(2)]
    await record.memory.change(change_of(rows, owner=owner, units=units))
    assert await record.memory.owners_behind_of_all(10, BOUNDS) == []
    for left in (
        Bounds(embeds=False, units_max=1, summarise_from=0),
        Bounds(embeds=False, units_max=9, summarise_from=2),
    ):
        assert await record.memory.owners_behind_of_all(10, left) == [OwnerOf(*CLINIC)]
    assert await record.memory.owners_behind_of_all(10, Bounds(embeds=False, units_max=2, summarise_from=3)) == []
    await record.memory.change(change_of(rows, units=[stale]))
    assert await record.memory.owners_behind_of_all(10, BOUNDS) == [OwnerOf(*CLINIC)]


async def test_of_jobs_that_are_done_the_newest_are_kept(record: Record, rows: Any) -> None:
    jobs = [
        JobRow(
            tenant="clinic",
            user_id="ana",
            job_id=str(uuid4()),
            kind="forget",
            options={},
            status="queued" if number == 0 else "done",
            created_at=rows.MOMENT + timedelta(minutes=number),
            updated_at=rows.MOMENT,
        )
        for number in range(JOBS_KEPT + 10)
    ]
    await record.memory.change(change_of(rows, jobs=jobs))
    kept = (await record.memory.jobs("clinic", limit=1_000)).rows
    assert kept == [*jobs[: -JOBS_KEPT - 1 : -1], jobs[0]]


async def test_jobs_are_kept_and_those_that_are_not_done_found(record: Record, rows: Any) -> None:
    jobs = [
        JobRow(
            tenant="clinic",
            user_id="ana",
            job_id=str(uuid4()),
            kind="summarise",
            options={"group": "diary"},
            status=status,
            created_at=rows.MOMENT + timedelta(minutes=number),
            updated_at=rows.MOMENT,
        )
        for number, status in enumerate(("done", "running", "queued"))
    ]
    await record.memory.change(change_of(rows, jobs=jobs))
    assert await record.memory.unfinished_jobs_of_all(10) == jobs[1:]
    assert await record.memory.unfinished_jobs("clinic", "ana", 10) == jobs[1:]
    assert await record.memory.unfinished_jobs("clinic", "ana", 1) == jobs[1:2]
    assert await record.memory.unfinished_jobs("clinic", "ben", 10) == []
    first = await record.memory.jobs("clinic", limit=2)
    assert first.rows == jobs[:0:-1]
    assert (await record.memory.jobs("clinic", user_id="ana", limit=2, cursor=first.next)).rows == jobs[:1]
    assert (await record.memory.jobs("other")).rows == []
    assert await record.memory.job("clinic", jobs[0].job_id) == jobs[0]
    assert await record.memory.job("other", jobs[0].job_id) is None
    finished = msgspec.structs.replace(jobs[1], status="done", result={"units": 3})
    await record.memory.change(change_of(rows, jobs=[finished]))
    assert await record.memory.job("clinic", finished.job_id) == finished
    assert await record.memory.unfinished_jobs_of_all(10) == jobs[2:]
