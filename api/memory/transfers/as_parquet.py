"""A memory as a Parquet file: one row a unit, native types, the vector a list of floats; the header is the file's own
key `header`.

DuckDB writes and reads it, in a database of its own: the record's never touches a file of somebody else's.
"""

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from glob import has_magic
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import numpy as np
from numpy.typing import NDArray

from api.memory.transfers.document import DocumentInvalid, Header, Placed, UnitPart, partial_path

MEMORY = "512MB"
_BATCH = 20_000  # a file is looked through from its beginning for each
_COLUMNS = {
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
_PLAIN = {name: kind for name, kind in _COLUMNS.items() if name != "vector"}
# Lists of floats travel as one array: as JSON they would take most of the time.
_INSERT = f"""INSERT INTO units BY NAME
    SELECT plain.* EXCLUDE (has_vector), CASE WHEN has_vector THEN coalesce(vector, []) END AS vector
    FROM (SELECT unnest(from_json_strict($rows::JSON,
        '{msgspec.json.encode([_PLAIN | {"has_vector": "BOOLEAN"}]).decode()}'), max_depth := 2)) AS plain
    LEFT JOIN (SELECT sequence, list(number ORDER BY place) AS vector FROM floats GROUP BY sequence) USING (sequence)
    ORDER BY sequence"""  # noqa: S608
_HEADER = "SELECT decode(value) FROM parquet_kv_metadata($path) WHERE decode(key) = 'header'"
_WINDOW = """FROM read_parquet($path, file_row_number = true)
    WHERE file_row_number >= $first AND file_row_number < $end ORDER BY file_row_number"""


def connect(database: str = ":memory:") -> duckdb.DuckDBPyConnection:
    """A database for files of others: bounded, and without anything that would be loaded or fetched by itself."""
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


class _Sink:
    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def add(self, units: list[UnitPart]) -> None:
        rows = []
        for unit in units:
            row = msgspec.structs.asdict(unit)
            rows.append(row | {"has_vector": row.pop("vector") is not None})
        self._connection.register("floats", _floats(units))
        self._connection.execute(_INSERT, {"rows": msgspec.json.encode(rows).decode()})
        self._connection.unregister("floats")


def _floats(units: list[UnitPart]) -> dict[str, NDArray[Any]]:
    """The numbers of all vectors, each with its unit's number and its place."""
    vectors = [np.frombuffer(unit.vector or b"", "<f4") for unit in units]
    sizes = [len(vector) for vector in vectors]
    return {
        "sequence": np.repeat(np.array([unit.sequence for unit in units], np.int64), sizes),
        "place": np.concatenate([np.arange(size) for size in sizes] or [np.zeros(0, np.int64)]),
        "number": np.concatenate([*vectors, np.zeros(0, "<f4")]),
    }


@contextmanager
def writing(path: Path, header: Header) -> Iterator[_Sink]:
    """Write a file, which is there once all of it is."""
    partial = partial_path(path)
    columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
    text = msgspec.json.encode(header).decode().replace("'", "''")
    with (
        tempfile.TemporaryDirectory(dir=path.parent, prefix=".cuebook-") as folder,
        closing(connect(str(Path(folder) / "units.duckdb"))) as connection,
    ):
        connection.execute(f"CREATE TABLE units ({columns})")
        yield _Sink(connection)
        try:
            connection.execute(
                f"COPY units TO $path (FORMAT parquet, COMPRESSION zstd, KV_METADATA {{header: '{text}'}})",
                {"path": str(partial)},
            )
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


class _Source:
    def __init__(self, connection: duckdb.DuckDBPyConnection, path: Path) -> None:
        self._connection = connection
        self._path = str(path)
        self.header = self._header()
        rows = self._connection.execute("SELECT num_rows FROM parquet_file_metadata($path)", {"path": self._path})
        self.count: int = rows.fetchall()[0][0]
        found = self._connection.execute("DESCRIBE SELECT * FROM read_parquet($path)", {"path": self._path}).fetchall()
        columns = {name: kind for name, kind, *_ in found}
        if columns != _COLUMNS:
            wrong = sorted(columns.items() ^ _COLUMNS.items())[0][0]
            raise DocumentInvalid(f"column {wrong}: expected {_COLUMNS.get(wrong)}, found {columns.get(wrong)}")

    def _header(self) -> Header:
        found = self._connection.execute(_HEADER, {"path": self._path}).fetchall()
        if len(found) != 1:
            raise DocumentInvalid("the file has no key `header`: it is no memory that Cuebook wrote")
        try:
            return msgspec.json.decode(found[0][0], type=Header)
        except msgspec.DecodeError as error:
            raise DocumentInvalid(f"key header: {error}") from error

    def units(self) -> Iterator[Placed]:
        for first in range(0, self.count, _BATCH):
            window = {"path": self._path, "first": first, "end": first + _BATCH}
            rows = self._connection.execute(f"SELECT {', '.join(_PLAIN)} {_WINDOW}", window).fetchall()
            vectors = self._connection.execute(f"SELECT vector {_WINDOW}", window).fetchnumpy()["vector"]
            for number, (row, vector) in enumerate(zip(rows, vectors, strict=True), first + 1):
                place = f"row {number}"
                plain = dict(zip(_PLAIN, row, strict=True))
                yield place, _unit(plain | {"vector": _bytes(vector, place)}, place)


def _bytes(vector: Any, place: str) -> bytes | None:
    """A list of floats, as it is fetched: an array, or what stands for null."""
    if vector is np.ma.masked:
        return None
    if isinstance(vector, np.ma.MaskedArray):
        raise DocumentInvalid(f"{place}: a number of the vector is null")
    return bytes(vector.astype("<f4").tobytes())


def _unit(row: dict[str, object], place: str) -> UnitPart:
    metadata = row["metadata"]
    try:
        row["metadata"] = msgspec.json.decode(metadata) if isinstance(metadata, str) else metadata
        return msgspec.convert(row, UnitPart)
    except msgspec.DecodeError as error:
        raise DocumentInvalid(f"{place}: {error}") from error


def is_memory(path: Path) -> bool:
    """Whether a Parquet file has the header of a memory. Raises DocumentInvalid where it is no Parquet file."""
    with opened(path) as connection:
        return bool(connection.execute(_HEADER, {"path": str(path)}).fetchall())


@contextmanager
def reading(path: Path) -> Iterator[_Source]:
    """Read a file. Raises DocumentInvalid."""
    with opened(path) as connection:
        yield _Source(connection, path)


@contextmanager
def opened(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database to read a file with. Raises DocumentInvalid for what it cannot read."""
    if has_magic(str(path)):  # it would be read as a pattern, of many files
        raise DocumentInvalid("a Parquet file with *, ? or [ in its path cannot be read; give it another name")
    try:
        with closing(connect()) as connection:
            yield connection
    except duckdb.Error as error:
        why = str(error).splitlines()[0].replace(str(path), "the file")
        raise DocumentInvalid(f"the Parquet file cannot be read: {why}") from error
