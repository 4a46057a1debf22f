"""A memory is exported and imported unchanged; an invalid file is refused as a whole, with the place of the error."""

import asyncio
import base64
import json
import sqlite3
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.memory.transfers import as_json, as_parquet, as_sqlite
from api.memory.transfers.export_memory import export_memory
from api.memory.transfers.import_memory import IdsExist, ImportTarget, import_memory
from api.memory.transfers.memory_document import DocumentInvalid, Form, GroupPart, Header, UnitPart
from store.interface.memory_rows import GroupRow, MemoryChange, OwnerRow, UnitRow, VectorRows
from store.open_store import open_store
from store.store import Store
from tests.support.effort import repeats
from tests.support.fixture_types import OpenApp
from tests.support.memory_findings import memory_findings

MOMENT = datetime(2025, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
FORMS: tuple[Form, ...] = ("json", "parquet", "sqlite")
JSON = {"Content-Type": "application/json"}
PLACED = ("sequence", "last_visit", "tells_from")


def unit(sequence: int, **changes: Any) -> UnitRow:
    row = UnitRow(
        tenant="clinic",
        user_id="ana",
        unit_id=f"unit-{sequence}",
        sequence=sequence,
        group_id="diary",
        content=f"note {sequence}, 'quoted' 你好 \n😀",
        source="user",
        creation_time=MOMENT + timedelta(minutes=sequence),
        end_time=MOMENT + timedelta(minutes=sequence, microseconds=1),
        last_visit=sequence,
        trust="conversation",
        valid_from=MOMENT,
    )
    return msgspec.structs.replace(row, **changes)


def vector(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}f", *numbers)


def memory_of(user_id: str = "ana") -> MemoryChange:
    """Return two collections, one with summaries on two levels and a forgotten unit, and a summary of everything."""
    units = [
        unit(1, parent_id="part", metadata={"mood": ["sad", 2.5, None, {"deep": True}]}, trust="own"),
        unit(2, parent_id="part", visit_count=3, last_visit=9, never_delete=True),
        unit(4, parent_id="diary", valid_to=MOMENT, superseded_by="unit-2", duplicate_of="gone"),
        unit(6, group_id="work", content=""),
        unit(7, unit_id="part", rank=1, level=1, source="summary", parent_id="diary", tells_from=1, is_extract=True),
        unit(8, unit_id="diary", rank=1, level=2, source="summary", parent_id="all", tells_from=1, last_visit=9),
        unit(9, unit_id="all", rank=2, level=1, group_id="all", source="summary", tells_from=3, is_stale=True),
    ]
    groups = [
        GroupRow(tenant="clinic", user_id=user_id, group_id=name, created_at=MOMENT + timedelta(seconds=place))
        for place, name in enumerate(("work", "diary"))
    ]
    return MemoryChange(
        tenant="clinic",
        user_id=user_id,
        owner=OwnerRow(tenant="clinic", user_id=user_id, memory_id="all", sequence=9, created_at=MOMENT),
        groups=groups,
        units=[msgspec.structs.replace(each, user_id=user_id) for each in units],
        vectors=VectorRows("hashed:2", [1, 2, 6], [None] * 3, [vector(0.6, -0.8), vector(0, 1), b""]),
    )


def target(user_id: str = "ben", **changes: Any) -> ImportTarget:
    default = ImportTarget(tenant="clinic", user_id=user_id, memory_id=f"memory-{user_id}", now=MOMENT, is_trusted=True)
    return msgspec.structs.replace(default, **changes)


@pytest.fixture
async def store(tmp_path: Path) -> Any:
    store = open_store(tmp_path / "data")
    await store.memory.change(memory_of())
    yield store
    await store.close()


async def exported(store: Store, path: Path, form: Form, user_id: str = "ana") -> Path:
    assert await export_memory(store.memory, "clinic", user_id, path, form, embedder="hashed:2")
    return path


def shape(units: list[UnitRow], memory_id: str) -> list[dict[str, Any]]:
    """Return units without what differs in another memory: the owner, numbers and the id of the memory."""
    numbers = [each.sequence for each in units]
    shown = []
    for each in units:
        row = msgspec.structs.asdict(each) | {"user_id": None}
        row |= {name: sum(number <= row[name] for number in numbers) for name in PLACED}
        row |= {"tells_from": sum(number < each.tells_from for number in numbers) if each.tells_from else None}
        shown.append({name: "the memory" if value == memory_id else value for name, value in row.items()})
    return shown


@pytest.mark.parametrize("form", FORMS)
async def test_units_edges_order_groups_and_vectors_come_back_equal(store: Store, tmp_path: Path, form: Form) -> None:
    path = await exported(store, tmp_path / "memory", form)
    done = await import_memory(store.memory, target(), path, form)
    assert (done.units, done.groups, done.vectors, done.embedder) == (7, 2, 3, "hashed:2")
    assert done.left_out == 0
    before, after = [await store.memory.units("clinic", user_id) for user_id in ("ana", "ben")]
    expected = shape(before, "all")
    expected[2]["duplicate_of"] = None  # of a unit that is gone
    assert shape(after, "memory-ben") == expected
    assert [each.sequence for each in after] == list(range(1, 8))
    assert [each.last_visit for each in after] == [1, 7, 3, 4, 5, 7, 7]
    owner = await store.memory.owner("clinic", "ben")
    assert owner is not None
    assert (owner.memory_id, owner.sequence) == ("memory-ben", 7)
    assert [group.group_id for group in await store.memory.groups("clinic", "ben")] == ["work", "diary"]
    vectors = await store.memory.vectors("clinic", "ben", "hashed:2")
    assert (vectors.sequences, vectors.vectors) == ([1, 2, 4], [vector(0.6, -0.8), vector(0, 1), b""])
    assert await memory_findings(store) == []


async def test_every_form_has_the_same_memory(store: Store, tmp_path: Path) -> None:
    for before, form in zip(("ana", "json", "parquet"), FORMS, strict=True):
        path = await exported(store, tmp_path / form, form, before)
        await import_memory(store.memory, target(form), path, form)
    ana, last = [await store.memory.units("clinic", user_id) for user_id in ("ana", "sqlite")]
    expected = shape(ana, "all")
    expected[2]["duplicate_of"] = None
    assert shape(last, "memory-sqlite") == expected
    assert left_in(tmp_path) == ["data", *FORMS]


async def test_who_has_no_memory_has_no_file(store: Store, tmp_path: Path) -> None:
    assert not await export_memory(store.memory, "clinic", "nobody", tmp_path / "none", "json")
    assert not await export_memory(store.memory, "other", "ana", tmp_path / "none", "json")
    assert not (tmp_path / "none").exists()


async def test_without_an_embedder_there_are_no_vectors(store: Store, tmp_path: Path) -> None:
    assert await export_memory(store.memory, "clinic", "ana", tmp_path / "m", "json")
    done = await import_memory(store.memory, target(), tmp_path / "m", "json")
    assert (done.units, done.vectors, done.embedder) == (7, 0, None)


async def test_imported_units_are_foreign_unless_trusted(store: Store, tmp_path: Path) -> None:
    path = await exported(store, tmp_path / "m", "json")
    await import_memory(store.memory, target(is_trusted=False), path, "json")
    assert {each.trust for each in await store.memory.units("clinic", "ben")} == {"foreign"}


async def test_taken_ids_are_refused_and_nothing_is_written(store: Store, tmp_path: Path) -> None:
    path = await exported(store, tmp_path / "m", "json")
    before = await store.memory.units("clinic", "ana")
    with pytest.raises(IdsExist, match="'work', 'diary', 'unit-1'") as refused:
        await import_memory(store.memory, target("ana"), path, "json")
    assert "unit-6" in refused.value.ids
    assert await store.memory.units("clinic", "ana") == before


async def test_export_waits_for_a_memory_that_changes(store: Store, tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def change() -> None:
        for sequence in range(100, 160):
            owner = OwnerRow(tenant="t", user_id="busy", memory_id="m", sequence=sequence, created_at=MOMENT)
            await store.memory.change(MemoryChange(tenant="t", user_id="busy", owner=owner))
            begun.set()

    changing = asyncio.create_task(change())
    await begun.wait()
    assert await export_memory(store.memory, "t", "busy", tmp_path / "m", "json")
    await changing


async def test_the_words_of_messages_go_with_them(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "data") as api:
        session = (await api.post("/api/sessions", json={"scriptId": "chat", "userId": "ana"})).json()["sessionId"]
        await api.post(f"/api/sessions/{session}/messages", json={"content": "I live in Graz"})
    store = open_store(tmp_path / "data")
    said = unit(1, unit_id=f"{session}:1", group_id=session, session_id=session, turn=1, message=1, content=None)
    units = [said, msgspec.structs.replace(said, unit_id=f"{session}:2", sequence=2, message=2)]
    owner = OwnerRow(tenant="default", user_id="ana", memory_id="m", sequence=2, created_at=MOMENT)
    group = GroupRow(tenant="default", user_id="ana", group_id=session, session_id=session, turn=1, created_at=MOMENT)
    units = [msgspec.structs.replace(each, tenant="default") for each in units]
    await store.memory.change(MemoryChange(tenant="default", user_id="ana", owner=owner, groups=[group], units=units))
    words = [each.content for each in await store.memory.units("default", "ana")]
    assert "I live in Graz" in words
    await export_memory(store.memory, "default", "ana", tmp_path / "m", "json")
    with pytest.raises(IdsExist, match=session):
        await import_memory(store.memory, target("ana", tenant="default"), tmp_path / "m", "json")
    await import_memory(store.memory, target("ben", tenant="default"), tmp_path / "m", "json")
    imported = await store.memory.units("default", "ben")
    assert [each.content for each in imported] == words
    assert {each.session_id for each in imported} == {None}
    assert await memory_findings(store) == []
    await store.close()


async def test_imported_groups_have_a_context(app: OpenApp, tmp_path: Path) -> None:
    units, ben = "/api/memory/units", {"userId": "ben"}
    async with app(tmp_path / "data") as api:
        for name in ("old", "new"):
            texts = [{"content": f"the {name} boat {number}"} for number in range(12)]
            await api.post(units, json={"userId": "ana", "group": name, "units": texts})
        file = (await api.get("/api/memory/export", params={"userId": "ana"})).content
        await api.post("/api/memory/import", params=ben, headers=JSON, content=file)
        context = (await api.get("/api/memory/groups/old/context", params=ben)).json()["units"]
        assert [each["content"] for each in context] == [f"the old boat {number}" for number in range(2, 12)]
        would_go = await api.post("/api/memory/forget", json={**ben, "share": 1, "dryRun": True})
        assert would_go.json()["wouldGo"]["total"] == 14  # the context of the newest group stays


async def test_superseded_fact_stays_so_without_the_later_one(app: OpenApp, tmp_path: Path) -> None:
    ana, ben, wait = {"userId": "ana"}, {"userId": "ben"}, {"Prefer": "wait=30"}
    facts = [
        {"content": "Ana lives in Graz", "unitId": "graz", "neverDelete": True},
        {"content": "Ana lives in Faro", "supersedes": "graz"},
    ]
    async with app(tmp_path / "data") as api:
        for group, unit in (("facts", facts[0]), ("facts", facts[1]), ("diary", {"content": "a walk"})):
            await api.post("/api/memory/units", json={**ana, "group": group, "units": [unit]})
        await api.post("/api/memory/forget", json={**ana, "share": 1}, headers=wait)
        file = (await api.get("/api/memory/export", params=ana)).content
        await api.post("/api/memory/import", params=ben, headers=JSON, content=file)
        await api.post("/api/memory/summarise", json=ben, headers=wait)
        units = (await api.get("/api/memory/units", params=ben)).json()["data"]
        assert [each["content"] for each in units if "Ana" in each["content"]] == ["Ana lives in Graz"]
        assert next(each for each in units if each["rank"] == 2)["content"] == "[Extract]\nuser: a walk"


# -- damaged files --------------------------------------------------------------------------------------------------


@pytest.mark.gate
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(version=2), "version"),
        (lambda d: d.update(format="other"), "format"),
        (lambda d: d.pop("groups"), "groups"),
        (lambda d: d.update(extra=1), "extra"),
        (lambda d: d["groups"].append(d["groups"][0]), "twice"),
        (lambda d: d["groups"].pop(), "units[0]: group 'diary' is not among the groups"),
        (lambda d: d["units"][1].update(rank=3), "units[1]"),
        (lambda d: d["units"][1].update(rank="0"), "units[1]: Expected `int`, got `str` - at `$.rank`"),
        (lambda d: d["units"][1].pop("content"), "units[1]: Object missing required field `content`"),
        (lambda d: d["units"][1].update(creation_time="2025-01-01T00:00:00"), "units[1]"),
        (lambda d: d["units"][1].update(end_time="1999-01-01T00:00:00Z"), "units[1]: end_time is before"),
        (lambda d: d["units"][1].update(valid_from="0001-01-01T00:00:00+05:00"), "units[1]: valid_from is not within"),
        (
            lambda d: d["groups"][0].update(created_at="9999-12-31T23:59:59-05:00"),
            "groups[0]: created_at is not within",
        ),
        (lambda d: d["units"][1].update(trust="friend"), "units[1]"),
        (lambda d: d["units"][1].update(unit_id="unit-1"), "units[1]: unit 'unit-1' is already at units[0]"),
        (lambda d: d["units"][1].update(sequence=1), "units[1]: sequence 1 is not above the previous one, 1"),
        (
            lambda d: d["units"][1].update(metadata={"a": [[[[[[[[[]]]]]]]]]}),
            "units[1]: metadata: a value may be nested at",
        ),
        (lambda d: d["units"][1].update(level=1), "units[1]: level 1 does not fit rank 0"),
        (lambda d: d["units"][1].update(parent_id="nobody"), "units[1]: parent 'nobody' is not in the file"),
        (lambda d: d["units"][1].update(parent_id="unit-2"), "units[1]: parent 'unit-2' is not a higher summary"),
        (lambda d: d["units"][3].update(parent_id="diary"), "units[3]: parent 'diary' is not a higher summary"),
        (lambda d: d["units"][0].update(parent_id="all"), "units[0]: parent 'all' is not a higher summary"),
        (lambda d: d["units"][6].update(group_id="diary"), "units[6]: a unit of rank 2"),
        (lambda d: d["units"][1].update(vector="AAAA"), "units[1]: the vector has 3 bytes, but the first one has 8"),
        (
            lambda d: d["units"][0].update(vector=text(2.0, 0.0)),
            "units[0]: the length of the vector is 2; it must be 1",
        ),
        (lambda d: d["units"][0].update(vector=text(float("nan"), 0.0)), "units[0]: the length of the vector is nan"),
        (lambda d: d["units"][0].update(vector="?"), "units[0]"),
        (lambda d: d.update(embedder=None), "units[0]: there is a vector, but the header names no embedder"),
    ],
)
async def test_a_damaged_document_is_refused_with_the_place(
    store: Store, tmp_path: Path, change: Callable[[Any], object], says: str
) -> None:
    document = json.loads((await exported(store, tmp_path / "m", "json")).read_text("utf-8"))
    change(document)
    (tmp_path / "m").write_text(json.dumps(document), "utf-8")
    with pytest.raises(DocumentInvalid) as refused:
        await import_memory(store.memory, target(), tmp_path / "m", "json")
    assert says in str(refused.value)
    assert await store.memory.owner("clinic", "ben") is None


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def text(*numbers: float) -> str:
    return base64.b64encode(vector(*numbers)).decode()


@pytest.mark.gate
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"format": "\xff"}',
        b'{"units":[' + b"[" * 99_999,
        b"PAR1" + bytes(40) + b"PAR1",
        b"SQLite format 3\0" + bytes(4_000),
    ],
)
async def test_what_is_no_such_file_is_refused(store: Store, tmp_path: Path, form: Form, content: bytes) -> None:
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(DocumentInvalid) as refused:
        await import_memory(store.memory, target(), tmp_path / "m", form)
    assert str(tmp_path) not in str(refused.value)


@pytest.mark.parametrize("content", ['{"format": "cuebook.session", "version": 1}', "[]", '{"units": []}', '"hello"'])
async def test_a_json_file_of_something_else_is_named_as_such(store: Store, tmp_path: Path, content: str) -> None:
    (tmp_path / "m").write_text(content, "utf-8")
    with pytest.raises(DocumentInvalid, match="it is not a memory that Cuebook exported"):
        await import_memory(store.memory, target(), tmp_path / "m", "json")


async def test_a_parquet_file_by_a_pattern_is_refused(store: Store, tmp_path: Path) -> None:
    await exported(store, tmp_path / "m", "parquet")
    with pytest.raises(DocumentInvalid, match="another name"):
        await import_memory(store.memory, target(), tmp_path / "*", "parquet")


@pytest.mark.gate
@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE units SET rank = 'high' WHERE sequence = 2", "table units, row 2: Expected `int`"),
        ("UPDATE units SET never_delete = 2 WHERE sequence = 2", "table units, row 2: Expected `bool`"),
        ("UPDATE units SET metadata = '[' WHERE sequence = 2", "table units, row 2"),
        ("UPDATE units SET content = x'ff' WHERE sequence = 2", "table units, row 2"),
        ("ALTER TABLE units DROP COLUMN trust", "no such column: trust"),
        ("DROP VIEW edges; ALTER TABLE units RENAME TO us; CREATE VIEW units AS SELECT * FROM us", "no tables"),
        ("DELETE FROM memory", "one row with the header"),
        ("UPDATE memory SET header = '{}'", "table memory"),
    ],
)
async def test_a_damaged_sqlite_file_is_refused_with_the_place(
    store: Store, tmp_path: Path, statement: str, says: str
) -> None:
    path = await exported(store, tmp_path / "m", "sqlite")
    with sqlite3.connect(path) as connection:
        connection.executescript(statement)
    connection.close()
    with pytest.raises(DocumentInvalid) as refused:
        await import_memory(store.memory, target(), path, "sqlite")
    assert says in str(refused.value)


async def test_an_sqlite_file_tells_its_edges(store: Store, tmp_path: Path) -> None:
    path = await exported(store, tmp_path / "m", "sqlite")
    connection = sqlite3.connect(path)
    edges = set(connection.execute("SELECT kind, from_id, to_id FROM edges").fetchall())
    connection.close()
    assert {edge for edge in edges if edge[0] == "next"} == {
        ("next", "unit-1", "unit-2"),
        ("next", "unit-2", "unit-4"),
    }
    assert ("parent", "unit-4", "diary") in edges


@pytest.mark.gate
@pytest.mark.parametrize(
    ("select", "says"),
    [
        ("* REPLACE ('x' AS rank)", "column rank: expected INTEGER, found VARCHAR"),
        ("* EXCLUDE (trust)", "column trust: expected VARCHAR, found None"),
        ("* REPLACE (if(sequence = 2, NULL, content) AS content)", "row 2: Expected `str`, got `null`"),
        ("* REPLACE (if(sequence = 2, [1::FLOAT, NULL], vector) AS vector)", "row 2"),
        ("* REPLACE (if(sequence = 2, 'infinity', creation_time) AS creation_time)", "creation_time"),
    ],
)
async def test_a_damaged_parquet_file_is_refused_with_the_place(
    store: Store, tmp_path: Path, select: str, says: str
) -> None:
    path = await exported(store, tmp_path / "m", "parquet")
    with duckdb.connect() as connection:
        header = connection.execute(f"SELECT decode(value) FROM parquet_kv_metadata('{path}')").fetchall()[0][0]
        options = f"FORMAT parquet, KV_METADATA {{header: '{header}'}}"
        connection.execute(f"COPY (SELECT {select} FROM read_parquet('{path}')) TO '{path}2' ({options})")
    with pytest.raises(DocumentInvalid) as refused:
        await import_memory(store.memory, target(), tmp_path / "m2", "parquet")
    assert says in str(refused.value)


TEXTS = st.text(max_size=6)
CONTENTS = st.lists(
    st.tuples(TEXTS, st.dictionaries(TEXTS, TEXTS | st.integers(-9, 9) | st.none(), max_size=2)), max_size=4
)


@settings(deadline=None, max_examples=repeats(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contents=CONTENTS, form=st.sampled_from(FORMS))
def test_any_words_and_metadata_come_back(
    tmp_path_factory: pytest.TempPathFactory, contents: list[tuple[str, Any]], form: Form
) -> None:
    parts = [
        UnitPart(
            unit_id=f"u{sequence}",
            sequence=sequence,
            group_id="g",
            content=content,
            source=content,
            creation_time=MOMENT,
            end_time=MOMENT,
            metadata=metadata,
            last_visit=sequence,
            trust="conversation",
            valid_from=MOMENT,
        )
        for sequence, (content, metadata) in enumerate(contents, 1)
    ]
    header = Header(memory_id="m'\"\\", groups=[GroupPart(group_id="g", created_at=MOMENT)])
    path = tmp_path_factory.mktemp("any") / "m"
    kind: Any = {"json": as_json, "parquet": as_parquet, "sqlite": as_sqlite}[form]
    with kind.writing(path, header) as add:
        add(parts[:2])
        add(parts[2:])
    reading = partial(as_sqlite.reading, now=MOMENT) if kind is as_sqlite else kind.reading
    with reading(path) as source:
        read = [part for _, part in source.units]
        assert read == parts
        assert source.header.memory_id == header.memory_id
