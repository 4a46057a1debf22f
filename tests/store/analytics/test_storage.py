"""Analytics files for tools with an older DuckDB: everything is in them, in the format of that version."""

import shutil
from pathlib import Path
from typing import Any, get_args

import duckdb
import pytest

from store.analytics.reporting import REPORTS
from store.analytics.snapshots import OWN, StorageVersion, finish_snapshot
from tests.support.analytics_rules import problems
from tests.support.random_sessions import Traffic

NUMBERS = {"v1.0.0": 64, "v1.2.0": 65, "v1.3.0": 66, "v1.4.0": 67, "v1.5.0": 68, "v2.0.0": 999}
"""In the head of a file, after its checksum and the letters DUCK; a DuckDB refuses numbers above its own."""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("analytics") / "own.duckdb"
    with Traffic(1).model.written() as connection:
        connection.execute(f"ATTACH '{path}' AS file")
        connection.execute("COPY FROM DATABASE memory TO file")
    return path


def number(path: Path) -> int:
    return int.from_bytes(path.read_bytes()[12:20], "little")


@pytest.mark.gate
@pytest.mark.parametrize("version", get_args(StorageVersion))
def test_a_file_is_of_the_format_that_is_named(file: Path, tmp_path: Path, version: StorageVersion) -> None:
    target = Path(shutil.copy(file, tmp_path / "target.duckdb"))
    finish_snapshot(target, version, tmp_path / "spill")
    assert number(target) == NUMBERS[version]
    assert number(file) == NUMBERS[OWN]


@pytest.mark.gate
def test_everything_is_in_an_older_format_too(file: Path, tmp_path: Path) -> None:
    target = Path(shutil.copy(file, tmp_path / "target.duckdb"))
    finish_snapshot(target, "v1.0.0", tmp_path / "spill")
    found: list[Any] = []
    for path in (file, target):
        with duckdb.connect(str(path), read_only=True) as connection:
            described = """SELECT table_name, column_name, data_type, comment FROM duckdb_columns()
                WHERE table_name <> 'digests' ORDER BY ALL"""
            macros = """SELECT function_name, comment, parameters FROM duckdb_functions()
                WHERE NOT internal ORDER BY ALL"""
            rows = "SELECT * FROM sessions ORDER BY ALL"
            funnel = "FROM funnel('intake', level := 'action')"
            found.append([connection.execute(sql).fetchall() for sql in (described, macros, rows, funnel)])
    assert found[0] == found[1]
    assert {report.name for report in REPORTS} <= {name for name, *_ in found[1][1]}
    assert problems(target) == problems(file)
