"""``cuebook memory doctor``: damage to memories is found, mended, and found no more."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from store.database import Database

ANA = ("--user", "ana")


@pytest.fixture
def said(remember: Callable[..., Any]) -> list[str]:
    """The ids of three units of ana's; ben has one."""
    remember("add", "--user", "ben", "Something else.")
    return remember("add", *ANA, "--group", "diary", "one", "two", "three").stdout.split()  # type: ignore[no-any-return]


def damage(*statements: str) -> None:
    """What a bad disk or somebody's SQL does to the record."""
    database = Database.open(Path("cuebook-data"))
    cursor = database.cursor()
    for statement in statements:
        cursor.execute(statement)
    cursor.close()
    database.close()


def test_sound_memories_are_told_of(remember: Callable[..., Any], said: list[str]) -> None:
    checked = remember("doctor")
    assert (checked.stdout, checked.stderr) == ("", "0 damages found\n")
    assert remember("doctor", "--repair").stderr == "0 mended, 0 damages left\n"
    assert json.loads(remember("doctor", "--json").stdout)["findings"] == []


def test_damage_is_found_mended_and_found_no_more(
    remember: Callable[..., Any], table: Callable[..., Any], said: list[str]
) -> None:
    damage(
        f"UPDATE memory_unit_rows SET parent_id = 'gone' WHERE unit_id = '{said[1]}'",
        f"DELETE FROM memory_vectors WHERE user_id = 'ana' AND sequence = 3",  # noqa: F541
        "UPDATE memory_owners SET sequence = 1 WHERE user_id = 'ana'",
    )
    found = remember("doctor", code=1)
    lines = {row[0]: row[1:] for row in table(found)}
    assert set(lines) == {"owner_behind", "parent_missing", "vector_missing"}
    assert lines["parent_missing"][:3] == ["default", "ana", said[1]]
    assert lines["vector_missing"][-1] == "a server sees to it"
    assert "2 damages found" in found.stderr
    assert remember("doctor", "--user", "ben").stderr == "0 damages found\n"
    assert remember("doctor", "--tenant", "clinic").stderr == "0 damages found\n"
    mended = remember("doctor", "--repair")
    assert {row[0] for row in table(mended) if row[-1].startswith("mended: ")} == {"owner_behind", "parent_missing"}
    assert "2 mended, 0 damages left" in mended.stderr
    assert remember("doctor").exit_code == 0
    assert len(table(remember("list", *ANA))) == 3
    remember("add", *ANA, "--group", "diary", "four")
    assert [row[7] for row in table(remember("list", *ANA))] == ["one", "two", "three", "four"]


def test_indexes_of_nobody_and_of_other_rows_go(
    remember: Callable[..., Any], table: Callable[..., Any], said: list[str]
) -> None:
    astray = Path("cuebook-data") / "memory" / ("0" * 32)
    astray.mkdir(parents=True)
    (astray / "manifest.json").write_text("{}")
    found = remember("doctor", code=1)
    assert [row[0] for row in table(found)] == ["index_astray"]
    assert remember("doctor", *ANA).exit_code == 0
    assert "1 mended, 0 damages left" in remember("doctor", "--repair").stderr
    assert remember("doctor").exit_code == 0
