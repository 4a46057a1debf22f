"""``cuebook memory export`` and ``import``: a memory as a file."""

import asyncio
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from api.cli.backend import backend
from api.settings import Settings
from tests.support.fixture_types import RunCommand, Table, WriteFile

ANA, BEN = ("--user", "ana"), ("--user", "ben")
FIELDS = ("unitId", "groupId", "rank", "content", "source", "creationTime", "metadata", "parentId", "neverDelete")


@pytest.fixture
def said(memory_command: RunCommand) -> list[str]:
    """Return the ids of three units that are summed up."""
    texts = ("I moved to Lisbon.", "我的猫叫小白。", "The bread here is good.")
    ids = memory_command("add", *ANA, "--group", "diary", "--metadata", "topic=life", *texts).stdout.split()
    memory_command("pin", *ANA, ids[1])
    memory_command("summarise", *ANA, "--group", "diary")
    memory_command("reembed", *ANA)  # a busy machine may end a command before the vector of its last unit
    return ids


def units(memory_command: Callable[..., Any], user: tuple[str, str]) -> list[Any]:
    listed = json.loads(memory_command("list", *user, "--json").stdout)["data"]
    return [{name: unit[name] for name in FIELDS} for unit in listed]


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["json", "parquet", "sqlite"])
def test_a_memory_goes_to_a_file_and_comes_back_equal(memory_command: RunCommand, said: list[str], ending: str) -> None:
    file = f"ana.{ending}"
    assert memory_command("export", *ANA, file, "--vectors").stderr == f"wrote ana's memory to {file}\n"
    tried = memory_command("import", *BEN, file, "--dry-run")
    assert tried.stderr == "4 units in 1 group can be imported, 4 with a vector\n"
    assert units(memory_command, BEN) == []
    assert memory_command("import", *BEN, file).stderr == "4 units in 1 group imported, 4 with a vector\n"
    assert units(memory_command, BEN) == units(memory_command, ANA)
    assert "vectors 4 of hashed:64\n" in memory_command("status", *BEN).stdout
    assert sorted(path.name for path in Path.cwd().iterdir()) == [file, "cuebook-data"]


@pytest.mark.gate
def test_units_without_vectors_get_them(memory_command: RunCommand, said: list[str]) -> None:
    memory_command("export", *ANA, "ana.json")
    assert memory_command("import", *BEN, "ana.json").stderr == "4 units in 1 group imported, 0 with a vector\n"
    assert "vectors 4 of hashed:64\n" in memory_command("status", *BEN).stdout


async def test_an_export_says_how_many_units_have_no_vector(memory_command: RunCommand, tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "cuebook-data", embedder="hashed:64")
    async with backend(settings, managing=True) as api:  # in which no vectors are computed
        units = [{"content": "I moved to Lisbon."}, {"content": "My cat is called Mo."}]
        await api.send("POST", "/api/memory/units", {"userId": "ana", "units": units})
    exported = await asyncio.to_thread(memory_command, "export", *ANA, "ana.json", "--vectors")
    assert exported.stderr.startswith("2 units without a vector, found only by words")
    assert exported.stderr.endswith("wrote ana's memory to ana.json\n")
    assert (await asyncio.to_thread(memory_command, "export", *ANA, "ana.json")).stderr.count("\n") == 1


@pytest.mark.gate
def test_ids_that_are_taken_are_refused(memory_command: RunCommand, said: list[str]) -> None:
    memory_command("export", *ANA, "ana.json")
    refused = memory_command("import", *ANA, "ana.json", code=2)
    assert "error the memory already contains 'diary'" in refused.stderr
    assert len(units(memory_command, ANA)) == 4


@pytest.mark.gate
def test_who_tells_it_is_trusted_only_where_that_is_said(memory_command: RunCommand, said: list[str]) -> None:
    memory_command("export", *ANA, "ana.json")
    memory_command("import", *BEN, "ana.json", "--json")
    memory_command("import", "--user", "carl", "ana.json", "--trusted")
    for user, trust in (("ben", "foreign"), ("carl", "conversation")):
        shown = json.loads(memory_command("show", "--user", user, said[0], "--json").stdout)
        assert shown["trust"] == trust


@pytest.mark.gate
def test_unreadable_and_unwritable_files_are_reported(
    memory_command: RunCommand, said: list[str], write: WriteFile
) -> None:
    memory_command("export", *ANA, "ana.json")
    whole = Path("ana.json").read_text("utf-8")
    write("cut.json", whole[:-40])
    write("other.json", whole.replace('"level":0', '"level":3', 1))
    write("text.parquet", "no parquet")
    write("text.sqlite", "no database" * 100)
    for arguments, message in (
        (("import", *BEN, "ana.txt"), "the suffix of a memory file is one of .json, .parquet"),
        (("export", *ANA, "ana"), "the suffix of a memory file is one of .json, .parquet"),
        (("import", *BEN, "none.json"), "none.json: No such file or directory"),
        (("export", *ANA, "nowhere/ana.json"), "nowhere/ana.json: No such file or directory"),
        (("export", "--user", "nobody", "n.json"), "this user has no memory"),
        (("import", *BEN, "cut.json"), "error "),
        (("import", *BEN, "other.json"), "units[0]: level 3 does not fit rank 0"),
        (("import", *BEN, "text.parquet"), "error "),
        (("import", *BEN, "text.sqlite"), "error "),
    ):
        refused = memory_command(*arguments, code=2)
        assert message in refused.stderr
        assert tempfile.gettempdir() not in refused.stderr
    assert units(memory_command, BEN) == []
    assert not Path("n.json").exists()


@pytest.mark.gate
def test_an_exported_memory_is_searched_beside_anothers(
    memory_command: RunCommand, table: Table, said: list[str], write: WriteFile
) -> None:
    memory_command("export", *ANA, "ana.json", "--vectors")
    write("cuebook.toml", '[memories.annals]\npath = "ana.json"\n')
    memory_command("add", *BEN, "The bread there was better.")
    rows = table(memory_command("search", *BEN, "bread", "--external", "annals", "-k", 2))
    assert {row[0].partition(" ")[2]: row[5] for row in rows if "bread" in row[5]} == {
        "": "The bread there was better.",
        "annals": "The bread here is good.",
    }
    assert "anals" in memory_command("search", *BEN, "bread", "--external", "anals", code=2).stderr
