"""External memories are searched beside a user's own, marked as such, and left as they are."""

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from structlog.testing import capture_logs

from api.local_files.settings_file import load_settings
from api.memory.requests import Query
from api.memory.transfers.export_memory import export_memory
from api.schemas.memory import RecalledView
from api.schemas.memory_errors import InvalidMemoryRequest
from api.settings import ExternalSettings, SettingsInvalid
from store.embedders.hashed import HashedEmbedder
from store.interface.memory_filters import parse
from store.interface.memory_rows import GroupRow, MemoryChange, OwnerRow, UnitRow
from store.interface.private_files import MIRROR_FOLDER
from store.open_store import open_store
from store.store import Store
from tests.support.opened_memory import OpenMemory

MOMENT = datetime(2025, 3, 1, 12, tzinfo=UTC)
OWNER = ("default", "ana")
TEXTS = ("The bakery in Graz sells rye bread", "Trains to Vienna leave every hour", "Rye bread keeps for a week")


async def write_memory(store: Store, user_id: str = "past") -> None:
    units = [
        UnitRow(
            tenant="default",
            user_id=user_id,
            unit_id=f"old-{sequence}",
            sequence=sequence,
            group_id="notes",
            content=text,
            source="guide",
            creation_time=MOMENT,
            end_time=MOMENT,
            metadata={"page": sequence},
            last_visit=sequence,
            trust="own",
            valid_from=MOMENT,
        )
        for sequence, text in enumerate(TEXTS, 1)
    ]
    owner = OwnerRow(tenant="default", user_id=user_id, memory_id="m", sequence=3, created_at=MOMENT)
    groups = [GroupRow(tenant="default", user_id=user_id, group_id="notes", created_at=MOMENT)]
    await store.memory.change(MemoryChange(tenant="default", user_id=user_id, owner=owner, groups=groups, units=units))


@pytest.fixture
async def archive(tmp_path: Path) -> Path:
    """Return a data folder with one user's memory, which no server has open."""
    store = open_store(tmp_path / "archive")
    await write_memory(store)
    await store.close()
    return tmp_path / "archive"


def texts_of(recalled: RecalledView) -> list[tuple[str, str]]:
    return [(chain.external, unit.content) for chain in recalled.chains for unit in chain.units]


@pytest.mark.database_file
async def test_memory_in_a_data_folder_is_recalled_beside_the_own(open_memory: OpenMemory, archive: Path) -> None:
    before = digest(archive / "cuebook.duckdb")
    async with open_memory(memories={"past": ExternalSettings(path=archive, user="past")}) as memory:
        await memory.add("talk", "I like rye bread")
        found = await memory.memories.query(*OWNER, Query(text="rye bread", k=3, external=["past"]))
        assert set(texts_of(found)) == {(None, "I like rye bread"), ("past", TEXTS[0]), ("past", TEXTS[2])}
        scores = [chain.score for chain in found.chains]
        assert scores == sorted(scores, reverse=True)
        external = [unit for chain in found.chains if chain.external for unit in chain.units]
        assert {(unit.trust, unit.visit_count, unit.source) for unit in external} == {("foreign", 0, "guide")}
        again = await memory.memories.query(*OWNER, Query(text="rye bread", external=["past"]))
        assert {unit.visit_count for chain in again.chains for unit in chain.units if chain.external} == {0}
        await memory.memory_system.cache.flush()
        own = (await memory.store.memory.units(*OWNER))[0]
        assert own.visit_count == 2
        without = await memory.memories.query(*OWNER, Query(text="rye bread"))
        assert texts_of(without) == [(None, "I like rye bread")]
    assert digest(archive / "cuebook.duckdb") == before
    assert sorted(path.name for path in list_of(archive)) == ["cuebook.duckdb", "cuebook.duckdb.last-commit"]
    assert not (archive.parent / "external").exists()


def list_of(folder: Path) -> list[Path]:
    return [*folder.iterdir()]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


async def test_a_name_that_is_not_set_is_an_error_and_makes_nothing(
    open_memory: OpenMemory, archive: Path, tmp_path: Path
) -> None:
    before = list_of(tmp_path)
    async with open_memory(memories={"past": ExternalSettings(path=archive, user="past")}) as memory:
        for only in (False, True):
            query = Query(text="bread", external=["passed"], external_only=only)
            with pytest.raises(InvalidMemoryRequest, match="no external memory 'passed'; there are past"):
                await memory.memories.query(*OWNER, query)
    assert {path.name for path in list_of(tmp_path)} <= {path.name for path in before} | {
        MIRROR_FOLDER,
        "cuebook.duckdb",
        "cuebook.duckdb.last-commit",
        "memory",
    }


async def test_external_only_excludes_the_users_own_and_visits_nothing(open_memory: OpenMemory, archive: Path) -> None:
    async with open_memory(memories={"past": ExternalSettings(path=archive, user="past")}) as memory:
        await memory.add("talk", "I like rye bread")
        query = Query(text="rye bread", external=["past"], external_only=True, recall_context=1)
        found = await memory.memories.query(*OWNER, query)
        assert {external for external, _ in texts_of(found)} == {"past"}
        assert {text for _, text in texts_of(found)} == set(TEXTS)  # the middle one as a neighbour
        assert (await memory.store.memory.units(*OWNER))[0].visit_count == 0


async def test_k_counts_all_memories_and_only_results_are_visited(open_memory: OpenMemory, archive: Path) -> None:
    async with open_memory(memories={"past": ExternalSettings(path=archive, user="past")}) as memory:
        await memory.add("talk", "Rye", "The bakery in Graz sells rye bread on Sundays, they say")
        for k in (1, 2, 3):
            found = await memory.memories.query(*OWNER, Query(text="bakery Graz rye bread", k=k, external=["past"]))
            assert len(found.chains) == k
        await memory.memory_system.cache.flush()
        visited = {row.unit_id: row.visit_count for row in await memory.store.memory.units(*OWNER)}
        again = await memory.memories.query(*OWNER, Query(text="bakery Graz rye bread", k=1, external=["past"]))
        recalled = {unit.unit_id for chain in again.chains if not chain.external for unit in chain.units}
        await memory.memory_system.cache.flush()
        after = {row.unit_id: row.visit_count for row in await memory.store.memory.units(*OWNER)}
        assert {unit_id for unit_id, count in after.items() if count != visited[unit_id]} == recalled


async def test_filters_hold_for_external_memories_too(open_memory: OpenMemory, archive: Path) -> None:
    async with open_memory(memories={"past": ExternalSettings(path=archive, user="past")}) as memory:
        filters = parse({"metadata.page": {"$gt": 1}, "source": "guide"})
        found = await memory.memories.query(*OWNER, Query(text="rye bread", external=["past"], filters=filters))
        assert texts_of(found)[0] == ("past", TEXTS[2])
        assert ("past", TEXTS[0]) not in texts_of(found)


@pytest.mark.gate
@pytest.mark.parametrize("form", ["json", "parquet", "sqlite"])
async def test_an_exported_memory_can_be_asked(open_memory: OpenMemory, archive: Path, form: Any) -> None:
    path = archive.parent / f"handbook.{form}"
    store = open_store(archive, read_only=True)
    await export_memory(store.memory, "default", "past", path, form)
    await store.close()
    async with open_memory(memories={"handbook": ExternalSettings(path=path)}) as memory:
        found = await memory.memories.query(*OWNER, Query(text="trains", k=1, external=["handbook"]))
        assert texts_of(found) == [("handbook", TEXTS[1])]


def write_texts(path: Path, columns: str, *values: Any) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE texts ({columns})")
        connection.executemany(f"INSERT INTO texts VALUES ({', '.join('?' * len(values[0]))})", values)
        connection.execute(f"COPY texts TO '{path}' (FORMAT parquet)")


async def test_texts_with_vectors_are_found_by_their_meaning(open_memory: OpenMemory, tmp_path: Path) -> None:
    vectors = HashedEmbedder(64).embed(["bread", "trains", "bread"]).tolist()
    rows = [
        (f"a{number}", text, MOMENT, vector) for number, (text, vector) in enumerate(zip(TEXTS, vectors, strict=True))
    ]
    path = tmp_path / "texts.parquet"
    write_texts(path, "id VARCHAR, text VARCHAR, time TIMESTAMPTZ, embedding DOUBLE[]", *rows)
    asked = Query(text="bread", k=2, strategy="dense", external=["texts"])
    async with open_memory(memories={"texts": ExternalSettings(path=path, embedder="hashed:64")}) as memory:
        found = await memory.memories.query(*OWNER, asked)
        assert {text for _, text in texts_of(found)} == {TEXTS[0], TEXTS[2]}
        unit = found.chains[0].units[0]
        assert (unit.unit_id[0], unit.creation_time, unit.group_id) == ("a", MOMENT, "texts")
    async with open_memory(memories={"texts": ExternalSettings(path=path, embedder="other")}) as memory:
        assert texts_of(await memory.memories.query(*OWNER, asked)) == []  # vectors of others are never compared
        by_words = await memory.memories.query(*OWNER, Query(text="trains", k=1, external=["texts"]))
        assert texts_of(by_words) == [("texts", TEXTS[1])]


@pytest.mark.gate
@pytest.mark.parametrize(
    ("columns", "values", "why"),
    [
        ("body VARCHAR", ("x",), "no column `content` or `text`"),
        ("text VARCHAR, id VARCHAR", ("x", "a"), "unit 'a' is already at row 1"),
        ("text VARCHAR, time VARCHAR", ("x", "soon"), "casting from source column time"),
        (
            "text VARCHAR, embedding DOUBLE[]",
            ("x", [float("nan"), 1.0]),
            "row 1: an element of the vector is not a finite number",
        ),
        (
            "text VARCHAR, embedding DOUBLE[]",
            ("x", [None, 1.0]),
            "row 1: an element of the vector is not a finite number",
        ),
    ],
)
async def test_texts_that_cannot_be_read_are_reported_in_the_log_only(
    open_memory: OpenMemory, tmp_path: Path, columns: str, values: tuple[Any, ...], why: str
) -> None:
    path = tmp_path / "texts.parquet"
    write_texts(path, columns, values, values)
    async with open_memory(memories={"texts": ExternalSettings(path=path, embedder="hashed:64")}) as memory:
        with capture_logs() as log:
            for _ in range(2):
                with pytest.raises(InvalidMemoryRequest) as refused:
                    await memory.memories.query(*OWNER, Query(text="x", external=["texts"]))
                assert (
                    str(refused.value)
                    == "the external memory 'texts' cannot be read; see the server's log for the reason"
                )
    assert len([reported for reported in log if why in str(reported.get("why", ""))]) == 1


@pytest.mark.parametrize("name", ["none.parquet", "none.json", "none.txt", "none"])
async def test_what_is_not_there_is_not_made(open_memory: OpenMemory, tmp_path: Path, name: str) -> None:
    async with open_memory(memories={"lost": ExternalSettings(path=tmp_path / name, user="past")}) as memory:
        with pytest.raises(InvalidMemoryRequest, match="cannot be read"):
            await memory.memories.query(*OWNER, Query(text="x", external=["lost"]))
    assert not (tmp_path / name).exists()


async def test_a_user_without_a_memory_there_is_none_to_ask(open_memory: OpenMemory, archive: Path) -> None:
    async with open_memory(memories={"past": ExternalSettings(path=archive, user="nobody")}) as memory:
        with capture_logs() as log, pytest.raises(InvalidMemoryRequest, match="cannot be read"):
            await memory.memories.query(*OWNER, Query(text="x", external=["past"]))
    assert "the user has no memory in that data folder" in [reported.get("why") for reported in log]


def test_external_memories_are_settings(tmp_path: Path) -> None:
    file = tmp_path / "cuebook.toml"
    file.write_text('[memories.past]\npath = "old/data"\nuser = "ana"\n', "utf-8")
    settings = load_settings(file, {}, {})
    assert settings.memories == {"past": ExternalSettings(path=tmp_path / "old/data", user="ana")}
    for text, says in (
        ('[memories.past]\npath = "old"\n', "`user` is missing"),
        ('[memories.past]\nuser = "ana"\n', "memories.past"),
        ('[memories.past]\npath = "x.json"\nuse = "ana"\n', "memories.past"),
    ):
        file.write_text(text, "utf-8")
        with pytest.raises(SettingsInvalid, match=says):
            load_settings(file, {}, {})
