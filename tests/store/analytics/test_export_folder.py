"""Tables as Parquet by day: days that changed are written, days that are gone go, no half of a file is ever seen."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pytest

from store.analytics.export_folder import MANIFEST, ExportFolder, FolderRefused
from store.analytics.file import MODEL_VERSION, run_sql, sql_of
from store.analytics.parquet import DAY_OF, Part, parts
from tests.support.paths import PROCESSES
from tests.support.processes.export_folder import export

DAYS = ("2026-03-01", "2026-03-02", "2026-03-04")
KILLS = 4


def change(file: Path, *statements: str) -> None:
    """Change an analytics file."""
    connection = duckdb.connect(str(file))
    connection.execute("SET TimeZone = 'UTC'")
    for statement in statements:
        connection.execute(statement)
    connection.close()


def add_messages(day: str, count: int, word: str = "hello") -> str:
    return f"""INSERT INTO messages SELECT uuid(), 'ana', 0, i, uuid()::VARCHAR, 'user', '{word}', 5, NULL, false, NULL,
        '{day}T23:59:59.999999Z'::TIMESTAMPTZ - INTERVAL (i) MINUTE FROM range({count}) AS r(i)"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return an analytics file with messages of three days, and a script."""
    path = tmp_path_factory.mktemp("made") / "analytics.duckdb"
    connection = duckdb.connect(str(path))
    connection.execute("BEGIN")
    run_sql(connection, sql_of("tables"))
    connection.execute("COMMIT")
    connection.close()
    change(
        path,
        *(add_messages(day, number) for number, day in enumerate(DAYS, start=1)),
        f"INSERT INTO about VALUES ({MODEL_VERSION}, 'default', false, now(), 0, 0, 6, 0)",
        "INSERT INTO scripts VALUES ('u', 's', 'S', 1, '', 'd', 'published', now(), now(), ['a'], NULL, NULL)",
    )
    return path.read_bytes()


@pytest.fixture
def file(made: bytes, tmp_path: Path) -> Path:
    """Return a copy of that file."""
    path = tmp_path / "analytics.duckdb"
    path.write_bytes(made)
    return path


def asked(sql: str) -> list[tuple[Any, ...]]:
    """Return the answer of a DuckDB that knows nothing of all this."""
    with duckdb.connect() as connection:
        return connection.execute(sql).fetchall()


def exported(folder: Path, table: str) -> list[tuple[Any, ...]]:
    """Return what others read there, by the day it is filed under."""
    return asked(f"SELECT * FROM read_parquet('{folder}/{table}/**') ORDER BY ALL")


def whole(file: Path, table: str) -> list[tuple[Any, ...]]:
    """Return what the file has, with the day each row should be filed under."""
    column = DAY_OF[table]
    with duckdb.connect(str(file), read_only=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        day = f", {column}::DATE AS day" if column else ""
        rows = connection.execute(f"SELECT * {day} FROM {table} ORDER BY ALL").fetchall()
    return [tuple(str(value) if isinstance(value, UUID) else value for value in row) for row in rows]


def test_a_table_is_read_back_by_its_days(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "parquet"
    assert export(file, folder) == 3 + 6
    assert exported(folder, "messages") == whole(file, "messages")
    assert exported(folder, "scripts") == whole(file, "scripts")
    assert {each.name for each in (folder / "messages").iterdir()} == {f"day={day}" for day in DAYS}
    manifest = json.loads((folder / MANIFEST).read_bytes())
    assert (manifest["isComplete"], manifest["source"]["isMasked"]) == (True, False)
    assert [each["rows"] for each in manifest["parts"] if each["table"] == "messages"] == [1, 2, 3]
    assert not (folder / ".writing").exists()


@pytest.mark.gate
def test_only_what_changed_is_written_and_what_is_gone_goes(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "parquet"
    export(file, folder)
    assert export(file, folder) == 0
    change(file, add_messages("2026-03-02", 1), f"DELETE FROM messages WHERE created_at < '{DAYS[1]}'")
    assert export(file, folder) == 1
    assert exported(folder, "messages") == whole(file, "messages")
    assert {each.name for each in (folder / "messages").iterdir()} == {f"day={day}" for day in DAYS[1:]}
    change(file, "UPDATE messages SET content = NULL")
    assert export(file, folder) == 2
    change(file, "DELETE FROM messages")
    assert export(file, folder) == 0
    assert not (folder / "messages").exists()


def test_days_before_one_are_left_out(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "parquet"
    export(file, folder)
    assert export(file, folder, since="2026-03-02") == 0
    assert {each.name for each in (folder / "messages").iterdir()} == {f"day={day}" for day in DAYS[1:]}
    assert exported(folder, "scripts") == whole(file, "scripts")
    assert export(file, folder) == 1


def listed(file: Path) -> list[Part]:
    """Return the parts of a file."""
    with duckdb.connect(str(file), read_only=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return parts(connection)


def test_the_order_of_rows_is_of_no_moment(file: Path) -> None:
    before = listed(file)
    change(file, "CREATE TABLE turned AS FROM messages ORDER BY seq DESC, content", "DELETE FROM messages")
    change(file, "INSERT INTO messages FROM turned")
    assert listed(file) == before
    change(file, "UPDATE messages SET seq = seq + 1 WHERE seq = 0")
    assert listed(file) != before


def test_every_table_of_the_model_is_exported(file: Path) -> None:
    with duckdb.connect(str(file), read_only=True) as connection:
        tables = connection.execute(
            "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main' AND NOT internal"
        ).fetchall()
        assert {table for (table,) in tables} == {*DAY_OF, "about"}
        for table, column in DAY_OF.items():
            if column is not None:
                described = connection.execute(
                    "SELECT data_type, is_nullable FROM duckdb_columns() WHERE table_name = ? AND column_name = ?",
                    [table, column],
                ).fetchall()
                assert described == [("TIMESTAMP WITH TIME ZONE", False)], table


def test_other_folders_are_refused(file: Path, tmp_path: Path) -> None:
    letters = tmp_path / "letters"
    letters.mkdir()
    (letters / "to mother.txt").write_text("Dear mother")
    folder = tmp_path / "parquet"
    export(file, folder)
    with pytest.raises(FolderRefused, match="not empty"):
        export(file, letters)
    for column, value, why in (("is_masked", "true", "unmasked"), ("tenant", "'clinic'", "of the tenant default")):
        other = tmp_path / f"{column}.duckdb"
        other.write_bytes(file.read_bytes())
        change(other, f"UPDATE about SET {column} = {value}")
        with pytest.raises(FolderRefused, match=why):
            export(other, folder)
    assert [each.name for each in letters.iterdir()] == ["to mother.txt"]
    (folder / MANIFEST).write_text("{}")
    with pytest.raises(FolderRefused, match="not a manifest"):
        export(file, folder)


def test_two_exports_to_one_folder_do_not_mix(file: Path, tmp_path: Path) -> None:
    first = ExportFolder(tmp_path / "parquet")
    with pytest.raises(FolderRefused, match="is running"):
        ExportFolder(tmp_path / "parquet")
    first.close()
    assert export(file, tmp_path / "parquet") == 9


def test_another_model_writes_everything_again(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "parquet"
    export(file, folder)
    manifest = (folder / MANIFEST).read_text()
    (folder / MANIFEST).write_text(manifest.replace(f'"modelVersion": {MODEL_VERSION}', '"modelVersion": 0'))
    assert export(file, folder) == 9
    assert export(file, folder) == 0


def test_many_days_have_a_file_each(file: Path, tmp_path: Path) -> None:
    change(
        file,
        """INSERT INTO messages SELECT uuid(), 'ana', 0, i, uuid()::VARCHAR, 'user', 'hello', 5, NULL, false, NULL,
        '2026-03-01T00:00:00Z'::TIMESTAMPTZ + INTERVAL (i % 230) DAY FROM range(2_000) AS r(i)""",
    )
    folder = tmp_path / "parquet"
    assert export(file, folder) == 230 + 6
    assert exported(folder, "messages") == whole(file, "messages")
    assert len(list(folder.glob("messages/*/*"))) == 230


@pytest.mark.slow
def test_killed_export_leaves_whole_files_and_the_next_ends_it(file: Path, tmp_path: Path) -> None:
    chance = random.Random(7)
    other, folder = tmp_path / "other.duckdb", tmp_path / "parquet"
    other.write_bytes(file.read_bytes())
    change(other, "UPDATE messages SET content = 'bye'", f"DELETE FROM messages WHERE created_at >= '{DAYS[2]}'")
    for _ in range(KILLS):
        process = subprocess.Popen(
            [sys.executable, PROCESSES / "export_folder.py", file, other, folder], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(chance.uniform(0, 0.4))
        process.kill()
        process.wait()
        process.stdout.close()
        for path in folder.glob("[!.]*/**/*.parquet"):  # `.writing` contains what is not complete yet
            asked(f"SELECT * FROM read_parquet('{path}')")
        retained = {} if not (folder / MANIFEST).exists() else json.loads((folder / MANIFEST).read_bytes())
        for each in retained.get("parts", ()):  # what the manifest tells is there
            place = folder / each["table"] / (f"day={each['day']}" if each["day"] else "") / "part.parquet"
            assert asked(f"SELECT count(*) FROM read_parquet('{place}')") == [(each["rows"],)]
    export(file, folder)
    assert exported(folder, "messages") == whole(file, "messages")
    assert export(file, folder) == 0


def test_ids_and_json_are_text_in_parquet(file: Path, tmp_path: Path) -> None:
    export(file, tmp_path / "lake")
    types = "SELECT DISTINCT type, converted_type FROM parquet_schema(?) WHERE name IN ({})"
    names = "'session_id', 'forked_from', 'metadata', 'data', 'new'"
    found = duckdb.execute(types.format(names), [str(tmp_path / "lake" / "**" / "*.parquet")]).fetchall()
    assert found == [("BYTE_ARRAY", "UTF8")]
