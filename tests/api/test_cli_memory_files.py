"""``cuebook memory export`` and ``import``: a memory as a file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ANA, BEN = ("--user", "ana"), ("--user", "ben")
KEPT = ("unitId", "groupId", "rank", "content", "source", "creationTime", "metadata", "parentId", "neverDelete")


@pytest.fixture
def said(remember: Callable[..., Any]) -> list[str]:
    """The ids of three units that are summed up."""
    texts = ("I moved to Lisbon.", "我的猫叫小白。", "The bread here is good.")
    ids = remember("add", *ANA, "--group", "diary", "--metadata", "topic=life", *texts).stdout.split()
    remember("pin", *ANA, ids[1])
    remember("summarise", *ANA, "--group", "diary")
    return ids  # type: ignore[no-any-return]


def units(remember: Callable[..., Any], user: tuple[str, str]) -> list[Any]:
    listed = json.loads(remember("list", *user, "--json").stdout)["data"]
    return [{name: unit[name] for name in KEPT} for unit in listed]


@pytest.mark.parametrize("ending", ["json", "parquet", "sqlite"])
def test_a_memory_goes_to_a_file_and_comes_back_equal(
    remember: Callable[..., Any], said: list[str], ending: str
) -> None:
    file = f"ana.{ending}"
    assert remember("export", *ANA, file, "--vectors").stderr == f"ana's memory is in {file}\n"
    tried = remember("import", *BEN, file, "--dry-run")
    assert tried.stderr == "4 units in 1 group can be imported, 4 with a vector\n"
    assert units(remember, BEN) == []
    assert remember("import", *BEN, file).stderr == "4 units in 1 group imported, 4 with a vector\n"
    assert units(remember, BEN) == units(remember, ANA)
    assert "vectors 4 of hashed:64\n" in remember("status", *BEN).stdout
    assert sorted(path.name for path in Path.cwd().iterdir()) == [file, "cuebook-data"]


def test_units_without_vectors_get_them(remember: Callable[..., Any], said: list[str]) -> None:
    remember("export", *ANA, "ana.json")
    assert remember("import", *BEN, "ana.json").stderr == "4 units in 1 group imported, 0 with a vector\n"
    assert "vectors 4 of hashed:64\n" in remember("status", *BEN).stdout


def test_ids_that_are_taken_are_refused_or_renamed(remember: Callable[..., Any], said: list[str]) -> None:
    remember("export", *ANA, "ana.json")
    refused = remember("import", *ANA, "ana.json", code=2)
    assert "error the memory has 'diary'" in refused.stderr
    renamed = remember("import", *ANA, "ana.json", "--rename")
    assert "diary was taken: it is diary~2 here\n" in renamed.stderr
    assert len(units(remember, ANA)) == 8


def test_who_tells_it_is_trusted_only_where_that_is_said(remember: Callable[..., Any], said: list[str]) -> None:
    remember("export", *ANA, "ana.json")
    remember("import", *BEN, "ana.json", "--json")
    remember("import", "--user", "carl", "ana.json", "--trusted")
    for user, trust in (("ben", "foreign"), ("carl", "told")):
        shown = json.loads(remember("show", "--user", user, said[0], "--json").stdout)
        assert shown["trust"] == trust


def test_what_cannot_be_read_or_written_is_told_and_nothing_is_changed(
    remember: Callable[..., Any], said: list[str], write: Callable[[str, str], Path]
) -> None:
    remember("export", *ANA, "ana.json")
    whole = Path("ana.json").read_text("utf-8")
    write("cut.json", whole[:-40])
    write("other.json", whole.replace('"level":0', '"level":3', 1))
    write("text.parquet", "no parquet")
    write("text.sqlite", "no database" * 100)
    for arguments, told in (
        (("import", *BEN, "ana.txt"), "a memory is a file that ends in .json, .parquet"),
        (("export", *ANA, "ana"), "a memory is a file that ends in .json, .parquet"),
        (("import", *BEN, "none.json"), "none.json: No such file or directory"),
        (("export", *ANA, "nowhere/ana.json"), "nowhere/ana.json: No such file or directory"),
        (("export", "--user", "nobody", "n.json"), "nothing has been remembered of this user"),
        (("import", *BEN, "cut.json"), "error "),
        (("import", *BEN, "other.json"), "units[0]: level 3 does not fit rank 0"),
        (("import", *BEN, "text.parquet"), "error "),
        (("import", *BEN, "text.sqlite"), "error "),
    ):
        refused = remember(*arguments, code=2)
        assert told in refused.stderr
        assert "/tmp" not in refused.stderr  # noqa: S108
    assert units(remember, BEN) == []
    assert not Path("n.json").exists()


def test_an_exported_memory_is_searched_beside_anothers(
    remember: Callable[..., Any], table: Callable[..., Any], said: list[str], write: Callable[[str, str], Path]
) -> None:
    remember("export", *ANA, "ana.json", "--vectors")
    write("cuebook.toml", '[memories.annals]\npath = "ana.json"\n')
    remember("add", *BEN, "The bread there was better.")
    rows = table(remember("search", *BEN, "bread", "--external", "annals", "-k", 2))
    assert {row[0].partition(" ")[2]: row[5] for row in rows if "bread" in row[5]} == {
        "": "The bread there was better.",
        "annals": "The bread here is good.",
    }
    assert "anals" in remember("search", *BEN, "bread", "--external", "anals", code=2).stderr
