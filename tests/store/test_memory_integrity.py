"""Damage to the rows of a memory is found, told and mended; what is whole is left alone, and no words are lost."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from store.memory.damages import DAMAGES
from store.memory.integrity import FOUND_MAX
from store.memory.rows import GroupRow, MemoryChange, OwnerRow, UnitRow, VectorRows
from store.record import Record

GONE = "44444444-0000-4000-8000-000000000000"
ROUNDS_MAX = 3
MIND = '{"working":{"context":[2,77],"short_term":[78,1,4]},"room":{"capacity":5}}'
OWN = "tenant = 'clinic' AND user_id = 'ana'"
NOTES_AND_SUMMARIES = "SELECT list(content ORDER BY content) FROM memory_unit_rows WHERE content IS NOT NULL"


def vector(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}f", *numbers)


async def remember(record: Record, rows: Any, conversation: Any, user_id: str) -> None:
    """A whole memory: two messages and a note of a session, a collection, summaries of both, and one above them."""
    conversation.user_id = user_id
    await conversation.create(record)
    session = conversation.session_id
    plain = [
        rows.unit_of(number, user_id=user_id, group_id=session, session_id=session, turn=0, message=number)
        for number in (1, 2)
    ]
    units = [
        *(msgspec.structs.replace(unit, content=None, unit_id=f"{session}:{unit.message}") for unit in plain),
        rows.unit_of(3, user_id=user_id, group_id=session, session_id=session, turn=0, content="a note"),
        rows.unit_of(4, user_id=user_id),
        rows.unit_of(5, user_id=user_id),
        summary(rows, 6, session, 1, session, user_id=user_id, session_id=session, parent_id="all"),
        summary(rows, 7, "part", 1, "diary", user_id=user_id, parent_id="diary"),
        summary(rows, 8, "diary", 2, "diary", user_id=user_id, parent_id="all"),
        summary(rows, 9, "all", 1, "all", user_id=user_id, rank=2),
    ]
    parents = {1: session, 2: session, 3: session, 4: "part", 5: "diary"}
    units = [msgspec.structs.replace(unit, parent_id=parents.get(unit.sequence, unit.parent_id)) for unit in units]
    session_group = GroupRow(
        tenant="clinic",
        user_id=user_id,
        group_id=session,
        session_id=session,
        turn=0,
        short_term=msgspec.Raw(b'{"working":{"context":[2],"short_term":[4,1]},"room":{"capacity":3}}'),
        created_at=rows.MOMENT,
    )
    diary = GroupRow(tenant="clinic", user_id=user_id, group_id="diary", created_at=rows.MOMENT)
    sequences = [unit.sequence for unit in units]
    sessions = [unit.session_id for unit in units]
    vectors = [b"", *[vector(0.6, -0.8)] * 8]
    await record.memory.change(
        MemoryChange(
            tenant="clinic",
            user_id=user_id,
            owner=OwnerRow(tenant="clinic", user_id=user_id, memory_id="all", sequence=9, created_at=rows.MOMENT),
            groups=[session_group, diary],
            units=units,
            vectors=VectorRows("hashed:2", sequences, sessions, vectors),
        )
    )


def summary(rows: Any, sequence: int, unit_id: str, level: int, group_id: str, **changes: Any) -> UnitRow:
    return rows.unit_of(
        sequence,
        **{"unit_id": unit_id, "level": level, "group_id": group_id, "rank": 1, "source": "summary"} | changes,
    )


@pytest.fixture
async def memory(record: Record, rows: Any, conversation: Any) -> Any:
    """The same memory of two users, of which the first is damaged in the tests."""
    await remember(record, rows, rows.Conversation(), "ben")
    await remember(record, rows, conversation, "ana")
    return record.memory


@pytest.fixture
async def spoil(record: Record) -> Callable[..., Any]:
    """Runs SQL that no part of the program would run: ``await spoil("DELETE …")``."""

    async def spoil(*statements: str) -> Any:
        def run(cursor: Any) -> Any:
            return [cursor.execute(statement).fetchall() for statement in statements][-1]

        return await record._run(run)

    return spoil


SPOILT = {
    "owner_twice": [f"INSERT INTO memory_owners SELECT * REPLACE (3 AS sequence) FROM memory_owners WHERE {OWN}"],
    "owner_missing": [f"DELETE FROM memory_owners WHERE {OWN}"],
    "owner_behind": [f"UPDATE memory_owners SET sequence = 8 WHERE {OWN}"],
    "group_twice": [f"INSERT INTO memory_groups SELECT * REPLACE (-1 AS turn) FROM memory_groups WHERE {OWN}"],
    "group_missing": [f"DELETE FROM memory_groups WHERE {OWN}"],
    "session_gone": [f"DELETE FROM session_starts WHERE {OWN}", f"DELETE FROM turns WHERE {OWN}"],
    "admitted_past_end": [f"UPDATE memory_groups SET turn = 7 WHERE session_id IS NOT NULL AND {OWN}"],
    "sequence_twice": [f"UPDATE memory_unit_rows SET sequence = 4 WHERE sequence = 5 AND {OWN}"],
    "unit_twice": [
        f"UPDATE memory_unit_rows SET unit_id = 'unit-4' WHERE sequence = 5 AND {OWN}",
        f"""INSERT INTO memory_unit_rows SELECT * REPLACE (10 AS sequence) FROM memory_unit_rows
        WHERE sequence IN (1, 3) AND {OWN}""",
        f"UPDATE memory_owners SET sequence = 10 WHERE {OWN}",
    ],
    "account_elsewhere": [f"UPDATE memory_owners SET memory_id = 'other' WHERE {OWN}"],
    "message_missing": [f"UPDATE memory_unit_rows SET message = 9 WHERE sequence = 2 AND {OWN}"],
    "parent_missing": [f"UPDATE memory_unit_rows SET parent_id = 'nobody' WHERE sequence = 4 AND {OWN}"],
    "parent_wrong": [f"UPDATE memory_unit_rows SET parent_id = 'unit-5' WHERE sequence = 4 AND {OWN}"],
    "vector_astray": [f"UPDATE memory_vectors SET sequence = 99 WHERE sequence = 4 AND {OWN}"],
    "vector_twice": [f"UPDATE memory_vectors SET sequence = 5 WHERE sequence = 4 AND {OWN}"],
    "vector_damaged": [f"UPDATE memory_vectors SET vector = '\\x00'::BLOB WHERE sequence = 4 AND {OWN}"],
    "vector_elsewhere": [f"UPDATE memory_vectors SET session_id = '{GONE}' WHERE sequence = 4 AND {OWN}"],
    "mind_gone": [
        f"UPDATE memory_groups SET short_term = '{MIND}' WHERE session_id IS NOT NULL AND {OWN}",
    ],
}


async def test_a_memory_that_is_whole_has_nothing_wrong(memory: Any) -> None:
    assert await memory.check() == []
    assert await memory.check(tenant="clinic", user_id="ana", embedder="hashed:2") == []


@pytest.mark.parametrize("code", SPOILT)
async def test_damage_is_found_mended_and_found_no_more(memory: Any, spoil: Any, code: str) -> None:
    words = await spoil(NOTES_AND_SUMMARIES)
    others = await memory.units("clinic", "ben")
    await spoil(*SPOILT[code])
    findings = await memory.check(tenant="clinic")
    assert code in {finding.code for finding in findings}
    assert {(finding.tenant, finding.user_id) for finding in findings} == {("clinic", "ana")}
    assert all(finding.means and finding.mended for finding in findings)
    assert await memory.check(tenant="other") == await memory.check(tenant="clinic", user_id="ben") == []
    for _ in range(ROUNDS_MAX):
        await memory.repair(findings)
        findings = await memory.check()
        if not any(finding.mended for finding in findings):
            break
    assert {finding.code for finding in findings} <= {"summary_stale"}
    assert set((await spoil(NOTES_AND_SUMMARIES))[0][0]) == set(words[0][0])
    assert await memory.units("clinic", "ben") == others


def test_every_damage_that_can_be_mended_is_tried() -> None:
    assert SPOILT.keys() == {damage.code for damage in DAMAGES if damage.repair}


async def test_a_parent_stands_higher_in_the_same_group_and_a_root_only_in_the_memory(memory: Any, spoil: Any) -> None:
    wrong = {
        "itself": "UPDATE memory_unit_rows SET parent_id = unit_id WHERE sequence = 7",
        "below": "UPDATE memory_unit_rows SET parent_id = 'part' WHERE sequence = 8",
        "other group": "UPDATE memory_unit_rows SET parent_id = 'diary' WHERE sequence = 3",
        "leaf in memory": "UPDATE memory_unit_rows SET parent_id = 'all' WHERE sequence = 5",
        "part in memory": "UPDATE memory_unit_rows SET parent_id = 'all' WHERE sequence = 7",
    }
    for statement in wrong.values():
        await spoil(f"{statement} AND {OWN}")
        findings = await memory.check()
        assert {finding.code for finding in findings} == {"parent_wrong"}, statement
        await memory.repair(findings)
        assert await memory.check() == []


async def test_a_circle_of_parents_is_cut(memory: Any, spoil: Any) -> None:
    await spoil(
        f"UPDATE memory_unit_rows SET parent_id = 'diary', level = 2 WHERE sequence = 7 AND {OWN}",
        f"UPDATE memory_unit_rows SET parent_id = 'part' WHERE sequence = 8 AND {OWN}",
    )
    await memory.repair(await memory.check())
    assert await memory.check() == []


async def test_what_was_said_in_a_session_that_is_gone_goes_and_its_notes_stay(memory: Any, spoil: Any) -> None:
    await spoil(*SPOILT["session_gone"])
    await memory.repair(await memory.check())
    units = {unit.sequence: unit for unit in await memory.units("clinic", "ana")}
    assert units.keys() == {3, 4, 5, 6, 7, 8, 9}
    assert (units[3].content, units[3].session_id, units[6].is_stale) == ("a note", None, True)
    assert (await memory.owner("clinic", "ana")).is_stale
    assert {group.session_id for group in await memory.groups("clinic", "ana")} == {None}
    stale = [finding for finding in await memory.check() if not finding.mended]
    assert {(finding.code, finding.sequence) for finding in stale} == {("summary_stale", 6), ("summary_stale", None)}


async def test_a_number_given_twice_is_given_anew_as_the_newest(memory: Any, spoil: Any) -> None:
    await spoil(*SPOILT["sequence_twice"])
    await memory.repair(await memory.check())
    units = {unit.unit_id: unit.sequence for unit in await memory.units("clinic", "ana")}
    assert (units["unit-4"], units["unit-5"]) in {(4, 10), (10, 4)}
    assert (await memory.owner("clinic", "ana")).sequence == 10
    missing = await memory.check(embedder="hashed:2")
    assert [(finding.code, finding.subject, finding.mended) for finding in missing] == [
        ("vector_missing", "2 units", "")
    ]


async def test_of_units_with_one_id_copies_go_and_others_get_an_id(memory: Any, spoil: Any) -> None:
    await spoil(*SPOILT["unit_twice"])
    await memory.repair(await memory.check())
    units = await memory.units("clinic", "ana")
    assert [unit.unit_id for unit in units if unit.content.startswith("note")][:2] == ["unit-4", "unit-4~5"]
    assert [unit.sequence for unit in units] == list(range(1, 10))


@pytest.mark.parametrize("numbers", [(0.6, float("nan")), (float("-inf"), 0.8), (0.6,), (0.1, 0.2, 0.3)])
async def test_a_vector_that_is_none_is_found(memory: Any, rows: Any, numbers: tuple[float, ...]) -> None:
    bad = VectorRows("hashed:2", [4], [None], [vector(*numbers)])
    await memory.change(MemoryChange(tenant="clinic", user_id="ana", vectors=bad))
    findings = await memory.check()
    assert [(finding.code, finding.sequence) for finding in findings] == [("vector_damaged", 4)]
    await memory.repair(findings)
    assert (await memory.vectors("clinic", "ana", "hashed:2")).sequences == [1, 2, 3, 5, 6, 7, 8, 9]


async def test_what_is_in_mind_is_kept_but_for_units_that_are_gone(memory: Any, spoil: Any) -> None:
    await spoil(*SPOILT["mind_gone"])
    await memory.repair(await memory.check())
    group = next(group for group in await memory.groups("clinic", "ana") if group.session_id)
    assert msgspec.json.decode(group.short_term) == {
        "working": {"context": [2], "short_term": [1, 4]},
        "room": {"capacity": 5},
    }


async def test_a_memory_is_made_anew_around_its_units(memory: Any, spoil: Any) -> None:
    before = await memory.owner("clinic", "ana"), await memory.groups("clinic", "ana")
    await spoil(*SPOILT["owner_missing"], *SPOILT["group_missing"])
    await memory.repair(await memory.check())
    owner = await memory.owner("clinic", "ana")
    assert (owner.memory_id, owner.sequence) == (before[0].memory_id, before[0].sequence)
    groups = {(group.group_id, group.session_id, group.turn) for group in await memory.groups("clinic", "ana")}
    assert groups == {(group.group_id, group.session_id, group.turn) for group in before[1]}


async def test_findings_are_bounded(memory: Any, rows: Any) -> None:
    units = [rows.unit_of(number, parent_id="nobody") for number in range(10, FOUND_MAX + 110)]
    owner = msgspec.structs.replace(await memory.owner("clinic", "ana"), sequence=FOUND_MAX + 200)
    await memory.change(MemoryChange(tenant="clinic", user_id="ana", owner=owner, units=units))
    findings = await memory.check()
    assert len(findings) == FOUND_MAX
    await memory.repair(findings)
    assert await memory.check() == []


async def test_a_record_that_is_only_read_is_checked_too(memory: Any, record: Record, tmp_path: Path) -> None:
    await record.close()
    reading = Record.open(tmp_path, read_only=True)
    assert await reading.memory.check() == []
    await reading.close()
    with duckdb.connect(str(tmp_path / "cuebook.duckdb"), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM memory_units").fetchall() == [(18,)]
