"""Memories as SQLite files, through Python's sqlite3 module.

`memory(header)` is one row, the header as JSON. `units` has one row a unit, with the fields of a unit as columns: times
as ISO 8601 text, metadata as JSON text, flags as 0 and 1, the vector as a blob of 32-bit floats. `edges(kind, from_id,
to_id)` is a view of them: `parent` edges, and `next` edges between the units of rank 0 of one group.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import msgspec

from api.memory.transfers.as_memforest import is_memforest, read_memforest
from api.memory.transfers.as_parquet import COLUMNS
from api.memory.transfers.memory_document import (
    AddUnits,
    DocumentInvalid,
    Header,
    MemorySource,
    Placed,
    UnitPart,
    parse_header,
    parse_unit,
    partial_file,
)

_TYPES = {"VARCHAR": "TEXT", "JSON": "TEXT", "TIMESTAMP WITH TIME ZONE": "TEXT", "FLOAT[]": "BLOB"}
_NULLABLE = ("parent_id", "valid_to", "superseded_by", "duplicate_of", "vector")
_KEYS = {"unit_id": " PRIMARY KEY", "sequence": " UNIQUE"}
_COLUMNS = {
    name: _TYPES.get(kind, "INTEGER") + ("" if name in _NULLABLE else " NOT NULL") + _KEYS.get(name, "")
    for name, kind in COLUMNS.items()
}
_FLAGS = ("never_delete", "is_extract", "is_stale")
_TABLES = f"""
CREATE TABLE memory (header TEXT NOT NULL);
CREATE TABLE units ({", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())});
CREATE VIEW edges AS
    SELECT 'parent' AS kind, unit_id AS from_id, parent_id AS to_id FROM units WHERE parent_id IS NOT NULL
    UNION ALL
    SELECT * FROM (SELECT 'next', unit_id, lead(unit_id) OVER (PARTITION BY group_id ORDER BY sequence) AS following
        FROM units WHERE rank = 0) WHERE following IS NOT NULL;
"""  # noqa: S608
_INSERT = f"INSERT INTO units VALUES ({', '.join(f':{name}' for name in _COLUMNS)})"  # noqa: S608
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM units ORDER BY sequence"  # noqa: S608
VALUE_BYTES_MAX = 100_000_000


@contextmanager
def writing(path: Path, header: Header) -> Iterator[AddUnits]:
    """Write a file atomically; other threads may add units, one at a time."""
    with partial_file(path) as partial, closing(sqlite3.connect(partial, check_same_thread=False)) as connection:
        connection.executescript(f"PRAGMA journal_mode = OFF; {_TABLES}")
        connection.execute("INSERT INTO memory VALUES (?)", [msgspec.json.encode(header).decode()])
        yield lambda units: _add(connection, units)
        connection.commit()


def _add(connection: sqlite3.Connection, units: list[UnitPart]) -> None:
    rows = (msgspec.to_builtins(unit, builtin_types=(bytes,)) for unit in units)
    connection.executemany(_INSERT, (row | {"metadata": msgspec.json.encode(row["metadata"]).decode()} for row in rows))


@contextmanager
def reading(path: Path, now: datetime) -> Iterator[MemorySource]:
    """Read a file of Cuebook or a database of MemForest; units of MemForest without a time get `now`.

    Raises DocumentInvalid.
    """
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)
            yield read_memforest(connection, now) if is_memforest(connection) else _read(connection)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise DocumentInvalid(f"not an SQLite file of a memory: {error}") from error


def _read(connection: sqlite3.Connection) -> MemorySource:
    tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name IN ('memory', 'units')"
    if len(connection.execute(tables).fetchall()) != 2:  # views do not count: they could run any query
        raise DocumentInvalid("not an SQLite file of a memory: it has no tables `memory` and `units`")
    found = connection.execute("SELECT header FROM memory").fetchall()
    if len(found) != 1 or not isinstance(found[0][0], str):
        raise DocumentInvalid("table memory: expected one row with the header")
    return MemorySource(parse_header(found[0][0], "table memory"), _units(connection))


def _units(connection: sqlite3.Connection) -> Iterator[Placed]:
    for number, values in enumerate(connection.execute(_SELECT), 1):
        place, row = f"table units, row {number}", dict(zip(_COLUMNS, values, strict=True))
        flags = {name: {0: False, 1: True}.get(row[name], row[name]) for name in _FLAGS}
        yield place, parse_unit(row | flags, place)
