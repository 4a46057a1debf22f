"""Memories as Parquet: one row per unit, native types, the vector a list of floats; the header is the key `header`.

Any other Parquet file with texts can be read as a memory too: one unit per row, in their order. The column `content`
(or `text`) is required. `unit_id` (or `id`), `group_id`, `source`, `creation_time` (or `time`) and `vector` (or
`embedding`) are optional; vectors are scaled to length 1. Other columns are ignored.

A separate DuckDB database writes and reads the files, so that Cuebook's own never opens files of others.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from glob import has_magic
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import numpy as np

from api.memory.transfers.memory_document import (
    AddUnits,
    DocumentInvalid,
    GroupPart,
    Header,
    MemorySource,
    Placed,
    UnitPart,
    parse_header,
    parse_unit,
    partial_file,
)

MEMORY = "512MB"
_BATCH = 20_000  # rows per read; each read scans the file from its beginning
COLUMNS = {
    "unit_id": "VARCHAR",
    "sequence": "BIGINT",
    "group_id": "VARCHAR",
    "rank": "INTEGER",
    "level": "INTEGER",
    "content": "VARCHAR",
    "source": "VARCHAR",
    "creation_time": "TIMESTAMP WITH TIME ZONE",
    "end_time": "TIMESTAMP WITH TIME ZONE",
    "metadata": "JSON",
    "parent_id": "VARCHAR",
    "visit_count": "INTEGER",
    "last_visit": "BIGINT",
    "never_delete": "BOOLEAN",
    "trust": "VARCHAR",
    "is_extract": "BOOLEAN",
    "is_stale": "BOOLEAN",
    "tells_from": "BIGINT",
    "valid_from": "TIMESTAMP WITH TIME ZONE",
    "valid_to": "TIMESTAMP WITH TIME ZONE",
    "superseded_by": "VARCHAR",
    "duplicate_of": "VARCHAR",
    "vector": "FLOAT[]",
}
_PLAIN = {name: kind for name, kind in COLUMNS.items() if name != "vector"}
_INSERT = f"""INSERT INTO units BY NAME
    SELECT unnest(from_json_strict($rows::JSON, '{msgspec.json.encode([COLUMNS]).decode()}'), max_depth := 2)"""
_HEADER = "SELECT decode(value) FROM parquet_kv_metadata($path) WHERE decode(key) = 'header'"
_WINDOW = """FROM read_parquet($path, file_row_number = true)
    WHERE file_row_number >= $first AND file_row_number < $end ORDER BY file_row_number"""


def connect(database: str = ":memory:") -> duckdb.DuckDBPyConnection:
    """Open a database for files of others, with a memory limit and without automatic loading of extensions."""
    connection = duckdb.connect(
        database,
        config={
            "threads": 2,
            "memory_limit": MEMORY,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _add(connection: duckdb.DuckDBPyConnection, units: list[UnitPart]) -> None:
    vectors = [None if unit.vector is None else np.frombuffer(unit.vector, "<f4").tolist() for unit in units]
    rows = [msgspec.structs.asdict(unit) | {"vector": each} for unit, each in zip(units, vectors, strict=True)]
    connection.execute(_INSERT, {"rows": msgspec.json.encode(rows).decode()})


@contextmanager
def writing(path: Path, header: Header) -> Iterator[AddUnits]:
    """Write a file atomically."""
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    text = msgspec.json.encode(header).decode().replace("'", "''")
    with (
        tempfile.TemporaryDirectory(dir=path.parent, prefix=".cuebook-") as folder,
        closing(connect(str(Path(folder) / "units.duckdb"))) as connection,
    ):
        connection.execute(f"CREATE TABLE units ({columns})")
        yield lambda units: _add(connection, units)
        copy = f"COPY units TO $path (FORMAT parquet, COMPRESSION zstd, KV_METADATA {{header: '{text}'}})"
        with partial_file(path) as partial:
            connection.execute(copy, {"path": str(partial)})


# -- reading ----------------------------------------------------------------------------------------------------------


class _ParquetFile:
    """A Parquet file opened for reading, with the types of its columns and the number of its rows."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, path: Path) -> None:
        self._connection = connection
        self._path = str(path)
        described = self.select("DESCRIBE SELECT * FROM read_parquet($path)").fetchall()
        self.columns: dict[str, str] = {name: kind for name, kind, *_ in described}
        self.count: int = self.select("SELECT num_rows FROM parquet_file_metadata($path)").fetchall()[0][0]

    def select(self, sql: str, **parameters: int) -> duckdb.DuckDBPyConnection:
        return self._connection.execute(sql, {"path": self._path, **parameters})

    def rows(self, columns: Mapping[str, str], vector: str | None) -> Iterator[tuple[int, dict[str, Any], Any]]:
        """Yield the number of each row from 1, its values by the names of `columns` (SQL), and its vector, if any."""
        for first in range(0, self.count, _BATCH):
            window = {"first": first, "end": first + _BATCH}
            rows = self.select(f"SELECT {', '.join(columns.values())} {_WINDOW}", **window).fetchall()
            vectors: Any = [np.ma.masked] * len(rows)
            if vector is not None:
                vectors = self.select(f"SELECT {vector} AS vector {_WINDOW}", **window).fetchnumpy()["vector"]
            for number, (row, each) in enumerate(zip(rows, vectors, strict=True), first + 1):
                yield number, dict(zip(columns, row, strict=True)), each


def _units(file: _ParquetFile) -> Iterator[Placed]:
    for number, row, vector in file.rows({name: name for name in _PLAIN}, "vector"):
        place = f"row {number}"
        yield place, parse_unit(row | {"vector": _bytes(vector, place)}, place)


def _bytes(vector: Any, place: str) -> bytes | None:
    """Convert a fetched list of floats to bytes; None for null. Raises DocumentInvalid."""
    if vector is np.ma.masked:
        return None
    if isinstance(vector, np.ma.MaskedArray):
        raise DocumentInvalid(f"{place}: a number of the vector is null")
    return bytes(vector.astype("<f4").tobytes())


def is_memory(path: Path) -> bool:
    """Return whether a Parquet file has the header of a memory. Raises DocumentInvalid for other files."""
    with _open(path) as file:
        return bool(file.select(_HEADER).fetchall())


@contextmanager
def reading(path: Path) -> Iterator[MemorySource]:
    """Read a memory that Cuebook exported. Raises DocumentInvalid."""
    with _open(path) as file:
        found = file.select(_HEADER).fetchall()
        if len(found) != 1:
            raise DocumentInvalid("the file has no key `header`: it is not a memory that Cuebook exported")
        header = parse_header(found[0][0], "key header")
        if file.columns != COLUMNS:
            wrong = sorted(file.columns.items() ^ COLUMNS.items())[0][0]
            raise DocumentInvalid(f"column {wrong}: expected {COLUMNS.get(wrong)}, found {file.columns.get(wrong)}")
        yield MemorySource(header, _units(file))


@contextmanager
def _open(path: Path) -> Iterator[_ParquetFile]:
    """Open a Parquet file. Raises DocumentInvalid if it cannot be read."""
    if has_magic(str(path)):  # DuckDB would read it as a pattern for many files
        raise DocumentInvalid("a Parquet file with *, ? or [ in its path cannot be read; give it another name")
    try:
        with closing(connect()) as connection:
            yield _ParquetFile(connection, path)
    except duckdb.Error as error:
        why = str(error).splitlines()[0].replace(str(path), "the file")
        raise DocumentInvalid(f"the Parquet file cannot be read: {why}") from error


# -- reading any texts ------------------------------------------------------------------------------------------------

TEXTS_GROUP = "texts"
_SPELLINGS = {
    "content": (("content", "text"), "VARCHAR"),
    "unit_id": (("unit_id", "id"), "VARCHAR"),
    "group_id": (("group_id",), "VARCHAR"),
    "source": (("source",), "VARCHAR"),
    "creation_time": (("creation_time", "time"), "TIMESTAMPTZ"),
    "vector": (("vector", "embedding"), "FLOAT[]"),
}


def _groups(file: _ParquetFile, group_id: str | None, now: datetime) -> list[GroupPart]:
    """Return the groups of a file; `group_id` is the SQL expression of its column, if any."""
    names = [TEXTS_GROUP]
    if group_id is not None:
        select = f"SELECT DISTINCT {group_id} FROM read_parquet($path) ORDER BY ALL"  # noqa: S608
        names = [name or TEXTS_GROUP for (name,) in file.select(select).fetchall()]
    return [GroupPart(group_id=name, created_at=now) for name in dict.fromkeys(names)]


def _texts(file: _ParquetFile, columns: Mapping[str, str], vector: str | None, now: datetime) -> Iterator[Placed]:
    for number, fields, floats in file.rows(columns, vector):
        place, created_at = f"row {number}", fields.get("creation_time") or now
        part = {
            "unit_id": fields.get("unit_id") or str(number),
            "sequence": number,
            "group_id": fields.get("group_id") or TEXTS_GROUP,
            "content": fields["content"] or "",
            "source": fields.get("source") or "",
            "creation_time": created_at,
            "end_time": created_at,
            "last_visit": number,
            "trust": "foreign",
            "valid_from": created_at,
            "vector": _normalise(floats, place),
        }
        yield place, parse_unit(part, place)


def _select_columns(file: _ParquetFile) -> dict[str, str]:
    """Return the SQL expression of each field that the file has. Raises DocumentInvalid."""
    found: dict[str, str] = {}
    for name, (spellings, kind) in _SPELLINGS.items():
        column = next((each for each in spellings if each in file.columns), None)
        if column is not None:
            found[name] = f"CAST({column} AS {kind})"
    if "content" not in found:
        raise DocumentInvalid("there is no column `content` or `text`")
    return found


def _normalise(vector: Any, place: str) -> bytes | None:
    """Scale a fetched list of floats to length 1; empty if it is all zeros, None for null. Raises DocumentInvalid."""
    if vector is np.ma.masked:
        return None
    if isinstance(vector, np.ma.MaskedArray) or not np.isfinite(vector).all():
        raise DocumentInvalid(f"{place}: an element of the vector is not a finite number")
    length = float(np.linalg.norm(vector.astype(np.float64)))
    return bytes((vector / length).astype("<f4").tobytes()) if length > 0 else b""


@contextmanager
def reading_texts(path: Path, embedder: str | None, now: datetime) -> Iterator[MemorySource]:
    """Read any file with texts; its vectors only if their embedder is known. Raises DocumentInvalid."""
    with _open(path) as file:
        columns = _select_columns(file)
        vector = columns.pop("vector", None)
        header = Header(memory_id="external", embedder=embedder, groups=_groups(file, columns.get("group_id"), now))
        yield MemorySource(header, _texts(file, columns, None if embedder is None else vector, now))
