"""A table as a file says the same as the table: CSV, JSON, Parquet."""

import csv
import io
import json
from pathlib import Path
from uuid import UUID

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.analytics.formats.json_and_csv import as_csv, as_json
from api.analytics.formats.parquet import as_parquet
from store.analytics.query import Column, Table
from store.interface.errors import QueryRefused
from tests.support.effort import repeats

TYPES = {
    "true": "BOOLEAN",
    "12": "TINYINT",
    "9007199254740993": "BIGINT",
    "1.50": "DECIMAL(18,2)",
    "0.1": "DOUBLE",
    "'ü, \"x\"\n中'": "VARCHAR",
    "'2026-03-01 10:00:00.5+02'": "TIMESTAMP WITH TIME ZONE",
    "'2026-03-01 10:00:00'": "TIMESTAMP",
    "'2026-03-01'": "DATE",
    "'10:11:12'": "TIME",
    "'36 hours 5 seconds'": "INTERVAL",
    "'6f0a0e6c-5f6f-4d9e-9d0a-1f0c6a1f0b11'": "UUID",
    "'\\xAA\\x00z'": "BLOB",
    "[1, NULL]": "INTEGER[]",
    "{'a b': 1, 'd': DATE '2026-03-01'}": 'STRUCT("a b" INTEGER, d DATE)',
    "MAP {'k': [1.5]}": "MAP(VARCHAR, DOUBLE[])",
    "'a'": "ENUM('a', 'b')",
    "'{\"deep\": [1, {}]}'": "JSON",
}
VALUES = ", ".join(f"({value})::{kind} AS c{place}" for place, (value, kind) in enumerate(TYPES.items()))

CELLS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


def table(rows: list[tuple]) -> Table:
    return Table((Column("a", "VARCHAR"), Column('b, "c"', "VARCHAR")), rows)


def test_json_is_an_array_of_objects_with_values_of_json(ask) -> None:
    found = json.loads(as_json(ask(f"SELECT {VALUES}")))
    assert [list(row.values()) for row in found] == [
        [
            True, 12, 9007199254740993, 1.5, 0.1, 'ü, "x"\n中', "2026-03-01T08:00:00.500000Z", "2026-03-01T10:00:00",
            "2026-03-01", "10:11:12", "P1DT43205S", "6f0a0e6c-5f6f-4d9e-9d0a-1f0c6a1f0b11", "qgB6", [1, None],
            {"a b": 1, "d": "2026-03-01"}, {"k": [1.5]}, "a", {"deep": [1, {}]},
        ]
    ]  # fmt: skip


def test_json_has_large_numbers_whole_and_null_for_nan(ask) -> None:
    found = as_json(ask("SELECT '1000000000000000000000000000007'::HUGEINT AS big, 'nan'::DOUBLE AS n"))
    assert json.loads(found)[0]["big"] == 10**30 + 7
    assert json.loads(found)[0]["n"] is None


def test_json_of_columns_of_one_name_keeps_them_apart(ask) -> None:
    assert json.loads(as_json(ask("SELECT 1 AS n, 2 AS n, 3 AS n_2"))) == [{"n": 1, "n_2": 2, "n_2_2": 3}]


def test_json_of_maps_has_texts_as_keys(ask) -> None:
    answer = ask("SELECT MAP {true: 1} AS a, MAP {1.5: 2} AS b, MAP {DATE '2026-03-01': 3} AS c, MAP {'true': 4} AS d")
    assert list(json.loads(as_json(answer))[0].values()) == [{"true": 1}, {"1.5": 2}, {"2026-03-01": 3}, {"true": 4}]


@given(st.lists(st.tuples(CELLS, CELLS)))
def test_json_is_read_back_as_it_was(rows) -> None:
    assert json.loads(as_json(table(rows))) == [{"a": a, 'b, "c"': b} for a, b in rows]


@given(st.lists(st.tuples(st.text(), st.text())))
def test_csv_is_read_back_as_it_was(rows) -> None:
    written = as_csv(table(rows)).decode()
    found = list(csv.reader(io.StringIO(written, newline=""), strict=True))
    assert found == [["a", 'b, "c"'], *map(list, rows)]
    assert written.endswith("\r\n")


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ("NULL", ""),
        ("''", '""'),
        ("'a,b'", '"a,b"'),
        ("'say \"hi\"'", '"say ""hi"""'),
        ("false", "false"),
        ("TIMESTAMPTZ '2026-03-01 10:00:00+00'", "2026-03-01T10:00:00Z"),
        ("INTERVAL '90 seconds'", "PT90S"),
        ("'nan'::DOUBLE", "nan"),
        ("1.50::DECIMAL(9,2)", "1.50"),
        ("[1, 2]", '"[1,2]"'),
        ("'=1+1'", "=1+1"),
    ],
)
def test_csv_fields_are_those_of_json_and_null_is_no_empty_text(ask, value: str, field: str) -> None:
    assert as_csv(ask(f"SELECT {value} AS v, 1 AS n")).decode() == f"v,n\r\n{field},1\r\n"


def test_parquet_has_the_types_and_values_of_the_table(ask, tmp_path: Path) -> None:
    select = f"SELECT {VALUES} UNION ALL SELECT {', '.join(['NULL'] * len(TYPES))}"
    path = tmp_path / "all.parquet"
    path.write_bytes(as_parquet(ask(select)))
    found = ask(f"FROM '{path}'")
    assert found.rows == [
        tuple(str(value) if isinstance(value, UUID) else value for value in row) for row in ask(select).rows
    ]
    plain = {"ENUM('a', 'b')": "VARCHAR", "UUID": "VARCHAR", "JSON": "VARCHAR"}
    assert [column.type for column in found.columns] == [plain.get(kind, kind) for kind in TYPES.values()]


@pytest.mark.parametrize("value", ["INTERVAL '-3 hours'", "[INTERVAL '-3 hours']", "{'a': INTERVAL '-1 day'}"])
def test_parquet_refuses_intervals_below_zero(ask, value: str) -> None:
    with pytest.raises(QueryRefused, match="negative intervals"):
        as_parquet(ask(f"SELECT {value} AS v"))


def test_parquet_has_json_as_text_wherever_it_is(ask, tmp_path: Path) -> None:
    path = tmp_path / "json.parquet"
    path.write_bytes(as_parquet(ask("""SELECT '"a"'::JSON AS j, ['{"x": 1}'::JSON, NULL] AS several""")))
    found = duckdb.execute("SELECT name, converted_type FROM parquet_schema(?) WHERE type = 'BYTE_ARRAY'", [str(path)])
    assert found.fetchall() == [("j", "UTF8"), ("element", "UTF8")]
    assert ask(f"FROM '{path}'").rows == [('"a"', ['{"x": 1}', None])]


def test_parquet_has_ids_as_text_wherever_they_are(ask, tmp_path: Path) -> None:
    path = tmp_path / "ids.parquet"
    one = "6f0a0e6c-5f6f-4d9e-9d0a-1f0c6a1f0b11"
    select = f"""SELECT ['{one}'::UUID, NULL] AS ids, {{'id': '{one}'::UUID, 'UUID': 1}} AS pair,
        MAP {{'{one}'::UUID: 1}} AS by_id"""
    path.write_bytes(as_parquet(ask(select)))
    found = ask(f"FROM '{path}'")
    types = ["VARCHAR[]", "STRUCT(id VARCHAR, UUID INTEGER)", "MAP(VARCHAR, INTEGER)"]
    assert [column.type for column in found.columns] == types
    assert found.rows == [([one, None], {"id": one, "UUID": 1}, {one: 1})]


def test_parquet_has_whole_sums_and_json_for_missing_types(ask, tmp_path: Path) -> None:
    path = tmp_path / "sums.parquet"
    select = 'SELECT sum(n) AS total, ROW(1, \'a\') AS pair, 7 AS "odd "" name", NULL AS none FROM range(4) AS t(n)'
    path.write_bytes(as_parquet(ask(select)))
    found = ask(f"FROM '{path}'")
    assert [(column.name, column.type) for column in found.columns][:3] == [
        ("total", "BIGINT"),
        ("pair", "VARCHAR"),
        ('odd " name', "INTEGER"),
    ]
    assert found.rows == [(6, '[1,"a"]', 7, None)]


def test_a_table_without_rows_is_a_whole_file_in_every_form(ask, tmp_path: Path) -> None:
    empty = ask("SELECT 1 AS a, 'x' AS b LIMIT 0")
    assert as_json(empty) == b"[]\n"
    assert as_csv(empty) == b"a,b\r\n"
    (tmp_path / "none.parquet").write_bytes(as_parquet(empty))
    assert duckdb.sql(f"FROM '{tmp_path}/none.parquet'").columns == ["a", "b"]


@settings(max_examples=repeats(10))
@given(st.lists(st.tuples(st.none() | st.text(), st.none() | st.text()), max_size=20))
def test_parquet_is_read_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, rows) -> None:
    path = tmp_path_factory.mktemp("parquet") / "table.parquet"
    path.write_bytes(as_parquet(table(rows)))
    with duckdb.connect() as connection:
        assert connection.execute(f"FROM '{path}'").fetchall() == rows
