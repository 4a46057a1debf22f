"""Damage to the rows of a memory is found; what is derived is rebuilt, and the rows that are the truth stay."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from store.duckdb_store import DuckDBStore
from store.interface.findings import FOUND_MAX, remedies
from store.interface.memory_rows import GroupRow, MemoryChange, OwnerRow, UnitRow, VectorRows
from store.open_store import open_store
from store.postgres_store import PostgresStore
from store.sql.connection import Connection
from store.store import Store
from store.verification.memory_rules import MEMORY_RULES
from tests.support.memory_findings import memory_findings
from tests.support.store_rows import MOMENT, Conversation, unit_of

GONE = "44444444-0000-4000-8000-000000000000"
SHORT_TERM = '{"working":{"context":[2,77],"short_term":[78,1,4]},"room":{"capacity":5}}'
OWN = "tenant = 'clinic' AND user_id = 'ana'"
TRUTH = """SELECT user_id, sequence, unit_id, group_id, session_id, turn, message, rank, level, content, source
    FROM memory_unit_rows ORDER BY user_id, sequence, unit_id"""


def vector(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}f", *numbers)


async def remember(store: Store, conversation: Any, user_id: str) -> None:
    """Write a whole memory: messages and a note of a session, a collection, summaries of both, and one above them."""
    conversation.user_id = user_id
    await conversation.create(store)
    session = conversation.session_id
    plain = [
        unit_of(number, user_id=user_id, group_id=session, session_id=session, turn=0, message=number)
        for number in (1, 2)
    ]
    units = [
        *(msgspec.structs.replace(unit, content=None, unit_id=f"{session}:{unit.message}") for unit in plain),
        unit_of(3, user_id=user_id, group_id=session, session_id=session, turn=0, content="a note"),
        unit_of(4, user_id=user_id),
        unit_of(5, user_id=user_id),
        summary(6, session, 1, session, user_id=user_id, session_id=session, parent_id="all"),
        summary(7, "part", 1, "diary", user_id=user_id, parent_id="diary"),
        summary(8, "diary", 2, "diary", user_id=user_id, parent_id="all"),
        summary(9, "all", 1, "all", user_id=user_id, rank=2),
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
        created_at=MOMENT,
    )
    diary = GroupRow(tenant="clinic", user_id=user_id, group_id="diary", created_at=MOMENT)
    sequences = [unit.sequence for unit in units]
    sessions = [unit.session_id for unit in units]
    vectors = [b"", *[vector(0.6, -0.8)] * 8]
    await store.memory.change(
        MemoryChange(
            tenant="clinic",
            user_id=user_id,
            owner=OwnerRow(tenant="clinic", user_id=user_id, memory_id="all", sequence=9, created_at=MOMENT),
            groups=[session_group, diary],
            units=units,
            vectors=VectorRows("hashed:2", sequences, sessions, vectors),
        )
    )


def summary(sequence: int, unit_id: str, level: int, group_id: str, **changes: Any) -> UnitRow:
    return unit_of(
        sequence,
        **{"unit_id": unit_id, "level": level, "group_id": group_id, "rank": 1, "source": "summary"} | changes,
    )


@pytest.fixture
async def memory(store: Store, conversation: Conversation) -> Any:
    """Return the same memory of two users, of which the first is damaged in the tests."""
    await remember(store, Conversation(), "ben")
    await remember(store, conversation, "ana")
    return store.memory


@pytest.fixture
def check(store: Store) -> Callable[[], Any]:
    """Return all findings in memories."""

    return lambda: memory_findings(store)


@pytest.fixture
def fix(store: Store) -> Callable[[], Any]:
    """Fix ana's memory by all rules, in their order."""

    async def fix() -> None:
        await store.verification.refresh()
        for rule in MEMORY_RULES:
            if rule.fix:
                await store.verification.fix(rule, "clinic", "ana")

    return fix


@pytest.fixture
async def spoil(store: Store) -> Callable[..., Any]:
    """Run SQL that no part of the program would run: ``await spoil("DELETE …")``."""

    async def spoil(*statements: str) -> Any:
        def run(connection: Connection) -> Any:
            for statement in statements:
                found = execute(connection, statement)
            return found

        assert isinstance(store, DuckDBStore | PostgresStore)
        return await store._engine.write(run)

    def execute(connection: Connection, statement: str) -> Any:
        if statement.startswith("SELECT"):
            return connection.rows(statement)
        return connection.change(statement.replace("BLOB", "BYTEA") if isinstance(store, PostgresStore) else statement)

    return spoil


TWICE = {
    "memory_twice memory_owners": f"""INSERT INTO memory_owners
        SELECT * REPLACE (9 AS sequence) FROM memory_owners WHERE {OWN}""",
    "memory_twice memory_groups": f"""INSERT INTO memory_groups
        SELECT * REPLACE (-1 AS turn) FROM memory_groups WHERE {OWN}""",
    "memory_twice memory_unit_rows number": f"UPDATE memory_unit_rows SET sequence = 4 WHERE sequence = 5 AND {OWN}",
}
"""Damage that the keys of tables in PostgreSQL prevent, by its code and table."""

REPORTED = {
    "memory_twice memory_unit_rows id": f"UPDATE memory_unit_rows SET unit_id = 'unit-4' WHERE sequence = 5 AND {OWN}",
    "memory_missing memory_owners": f"DELETE FROM memory_owners WHERE {OWN}",
    "memory_missing memory_groups": f"DELETE FROM memory_groups WHERE {OWN}",
    "memory_orphaned memory_unit_rows session": f"DELETE FROM session_starts WHERE {OWN}",
    "memory_orphaned memory_unit_rows message": f"UPDATE memory_unit_rows SET message = 9 WHERE sequence = 2 AND {OWN}",
    "memory_group_differs memory_unit_rows": f"UPDATE memory_owners SET memory_id = 'other' WHERE {OWN}",
}
"""Other damage to rows that are the truth."""

FIXED = {
    "memory_number_behind": f"UPDATE memory_owners SET sequence = 8 WHERE {OWN}",
    "memory_past_end": f"UPDATE memory_groups SET turn = 7 WHERE session_id IS NOT NULL AND {OWN}",
    "memory_parent_invalid": f"UPDATE memory_unit_rows SET parent_id = 'nobody' WHERE sequence = 4 AND {OWN}",
    "vector_invalid": f"UPDATE memory_vectors SET vector = '\\x00'::BLOB WHERE sequence = 4 AND {OWN}",
    "short_term_memory_missing": f"""UPDATE memory_groups SET short_term = '{SHORT_TERM}'
        WHERE session_id IS NOT NULL AND {OWN}""",
}
"""Damage to derived rows."""


async def test_consistent_memories_have_no_findings(check: Any, memory: Any) -> None:
    assert await check() == []


@pytest.mark.gate
@pytest.mark.database_file
@pytest.mark.parametrize("code", REPORTED)
async def test_damage_to_the_truth_is_reported_and_stays(
    memory: Any, check: Any, fix: Any, spoil: Any, code: str
) -> None:
    await reported(code, REPORTED[code], check, fix, spoil)


@pytest.mark.gate
@pytest.mark.database_file
@pytest.mark.parametrize("code", TWICE)
async def test_rows_that_exist_twice_are_reported_and_stay(
    memory: Any, check: Any, fix: Any, spoil: Any, code: str
) -> None:
    await reported(code, TWICE[code], check, fix, spoil)


async def reported(code: str, damage: str, check: Any, fix: Any, spoil: Any) -> None:
    """Expect findings of a code and table in ana's memory only, which no fix changes."""
    await spoil(damage)
    truth = await spoil(TRUTH)
    findings = await check()
    assert code.split()[:2] in [[finding.code, finding.table] for finding in findings]
    assert {(finding.tenant, finding.user_id) for finding in findings} == {("clinic", "ana")}
    assert all(finding.what and finding.remedy for finding in findings)
    await fix()
    assert await spoil(TRUTH) == truth
    assert code.split()[0] in {finding.code for finding in await check()}


@pytest.mark.slow
@pytest.mark.parametrize("code", FIXED)
async def test_damage_to_derived_rows_is_fixed(memory: Any, check: Any, fix: Any, spoil: Any, code: str) -> None:
    truth, others = await spoil(TRUTH), await memory.units("clinic", "ben")
    await spoil(FIXED[code])
    findings = await check()
    assert {(finding.code, finding.tenant, finding.user_id) for finding in findings} == {(code, "clinic", "ana")}
    assert all(finding.what and "--fix" in finding.remedy for finding in findings)
    await fix()
    assert await check() == []
    assert await spoil(TRUTH) == truth
    assert await memory.units("clinic", "ben") == others


@pytest.mark.gate
async def test_another_server_reads_a_memory_again_once_it_is_fixed(
    memory: Any, store: Store, fix: Any, spoil: Any
) -> None:
    if store.shared is None:
        return  # there is no other server
    before = await store.shared.memory_version("clinic", "ana")
    await fix()
    assert await store.shared.memory_version("clinic", "ana") == before
    for damage in FIXED.values():
        await spoil(damage)
        await fix()
        after = await store.shared.memory_version("clinic", "ana")
        assert after > before
        before = after


async def test_counters_are_set_to_the_rows_they_count(memory: Any, fix: Any, spoil: Any) -> None:
    before = await memory.owner("clinic", "ana"), await memory.groups("clinic", "ana")
    await spoil(FIXED["memory_number_behind"], FIXED["memory_past_end"])
    await fix()
    assert (await memory.owner("clinic", "ana"), await memory.groups("clinic", "ana")) == before


def test_every_rule_is_tested() -> None:
    assert {rule.code for rule in MEMORY_RULES if rule.fix} == FIXED.keys()
    assert {f"{rule.code} {rule.table}" for rule in MEMORY_RULES if not rule.fix} == {
        " ".join(code.split()[:2]) for code in (*TWICE, *REPORTED)
    }
    assert {rule.code for rule in MEMORY_RULES} <= remedies().keys()


@pytest.mark.gate
async def test_parent_is_above_its_unit_and_a_root_only_in_the_memory(
    memory: Any, check: Any, fix: Any, spoil: Any
) -> None:
    wrong = {
        "itself": "UPDATE memory_unit_rows SET parent_id = unit_id WHERE sequence = 7",
        "below": "UPDATE memory_unit_rows SET parent_id = 'part' WHERE sequence = 8",
        "beside": "UPDATE memory_unit_rows SET parent_id = 'unit-5' WHERE sequence = 4",
        "other group": "UPDATE memory_unit_rows SET parent_id = 'diary' WHERE sequence = 3",
        "leaf in memory": "UPDATE memory_unit_rows SET parent_id = 'all' WHERE sequence = 5",
        "part in memory": "UPDATE memory_unit_rows SET parent_id = 'all' WHERE sequence = 7",
    }
    for statement in wrong.values():
        await spoil(f"{statement} AND {OWN}")
        assert {finding.code for finding in await check()} == {"memory_parent_invalid"}, statement
        await fix()
        assert await check() == []


async def test_a_cycle_of_parents_is_cut(memory: Any, check: Any, fix: Any, spoil: Any) -> None:
    await spoil(
        f"UPDATE memory_unit_rows SET parent_id = 'diary', level = 2 WHERE sequence = 7 AND {OWN}",
        f"UPDATE memory_unit_rows SET parent_id = 'part' WHERE sequence = 8 AND {OWN}",
    )
    await fix()
    assert await check() == []


@pytest.mark.gate
@pytest.mark.parametrize("numbers", [(0.6, float("nan")), (float("-inf"), 0.8), (0.6,), (0.1, 0.2, 0.3)])
async def test_an_invalid_vector_is_found(memory: Any, check: Any, fix: Any, numbers: tuple[float, ...]) -> None:
    bad = VectorRows("hashed:2", [4], [None], [vector(*numbers)])
    await memory.change(MemoryChange(tenant="clinic", user_id="ana", vectors=bad))
    assert [finding.code for finding in await check()] == ["vector_invalid"]
    await fix()
    assert (await memory.vectors("clinic", "ana", "hashed:2")).sequences == [1, 2, 3, 5, 6, 7, 8, 9]


@pytest.mark.gate
@pytest.mark.parametrize(
    ("change", "left", "problem"),
    [
        ("sequence = 99", [1, 2, 3, 5, 6, 7, 8, 9], "does not exist"),
        (f"session_id = '{GONE}'", [1, 2, 3, 5, 6, 7, 8, 9], "another session"),
    ],
)
async def test_a_vector_belongs_to_one_unit(
    memory: Any, check: Any, fix: Any, spoil: Any, change: str, left: list[int], problem: str
) -> None:
    await spoil(f"UPDATE memory_vectors SET {change} WHERE sequence = 4 AND {OWN}")
    [finding] = await check()
    assert (finding.code, finding.table) == ("vector_invalid", "memory_vectors")
    assert problem in finding.what
    await fix()
    assert (await memory.vectors("clinic", "ana", "hashed:2")).sequences == left


@pytest.mark.database_file
async def test_vectors_that_exist_twice_are_removed(memory: Any, check: Any, fix: Any, spoil: Any) -> None:
    await spoil(f"UPDATE memory_vectors SET sequence = 5 WHERE sequence = 4 AND {OWN}")
    [finding] = await check()
    assert "exists twice" in finding.what
    await fix()
    assert (await memory.vectors("clinic", "ana", "hashed:2")).sequences == [1, 2, 3, 6, 7, 8, 9]


async def test_a_vector_that_was_replaced_after_the_check_stays(memory: Any, store: Store) -> None:
    def of_unit(numbers: bytes) -> MemoryChange:
        vectors = VectorRows("hashed:2", [4], [None], [numbers])
        return MemoryChange(tenant="clinic", user_id="ana", vectors=vectors)

    rule = next(rule for rule in MEMORY_RULES if rule.code == "vector_invalid")
    await memory.change(of_unit(vector(0.6)))
    assert len(await memory_findings(store)) == 1
    await memory.change(of_unit(vector(0.8, 0.6)))
    await store.verification.fix(rule, "clinic", "ana")
    assert (await memory.vectors("clinic", "ana", "hashed:2")).sequences == [*range(1, 10)]


async def test_short_term_memory_stays_but_for_missing_units(memory: Any, fix: Any, spoil: Any) -> None:
    await spoil(FIXED["short_term_memory_missing"])
    await fix()
    group = next(group for group in await memory.groups("clinic", "ana") if group.session_id)
    assert msgspec.json.decode(group.short_term) == {
        "working": {"context": [2], "short_term": [1, 4]},
        "room": {"capacity": 5},
    }


@pytest.mark.database_file
async def test_findings_are_bounded(memory: Any, check: Any, fix: Any) -> None:
    units = [unit_of(number, parent_id="nobody") for number in range(10, FOUND_MAX + 110)]
    owner = msgspec.structs.replace(await memory.owner("clinic", "ana"), sequence=FOUND_MAX + 200)
    await memory.change(MemoryChange(tenant="clinic", user_id="ana", owner=owner, units=units))
    assert len(await check()) == FOUND_MAX
    await fix()
    assert await check() == []


@pytest.mark.database_file
async def test_a_read_only_database_is_checked_too(memory: Any, store: Store, tmp_path: Path) -> None:
    await store.close()
    reading = open_store(tmp_path, read_only=True)
    assert await memory_findings(reading) == []
    await reading.close()
    with duckdb.connect(str(tmp_path / "cuebook.duckdb"), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM memory_units").fetchall() == [(18,)]
