"""Texts of others in a Parquet file, as a memory: a row each, in their order.

The column `content` (or `text`) is needed. `unit_id` (or `id`), `group_id`, `source`, `creation_time` (or `time`) and
`vector` (or `embedding`) are taken where they are; vectors are brought to length 1. Other columns are passed over.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import numpy as np

from api.memory.transfers.as_parquet import opened
from api.memory.transfers.document import DocumentInvalid, GroupPart, Header, Placed, UnitPart

GROUP = "texts"
_BATCH = 20_000  # a file is looked through from its beginning for each
_NAMES = {
    "content": (("content", "text"), "VARCHAR"),
    "unit_id": (("unit_id", "id"), "VARCHAR"),
    "group_id": (("group_id",), "VARCHAR"),
    "source": (("source",), "VARCHAR"),
    "creation_time": (("creation_time", "time"), "TIMESTAMPTZ"),
    "vector": (("vector", "embedding"), "FLOAT[]"),
}
_WINDOW = """FROM read_parquet($path, file_row_number = true)
    WHERE file_row_number >= $first AND file_row_number < $end ORDER BY file_row_number"""


class _Source:
    def __init__(self, connection: duckdb.DuckDBPyConnection, path: Path, embedder: str | None, now: datetime) -> None:
        self._connection = connection
        self._path = {"path": str(path)}
        self._now = now
        self._columns = self._found()
        rows = connection.execute("SELECT num_rows FROM parquet_file_metadata($path)", self._path)
        self.count: int = rows.fetchall()[0][0]
        self.header = Header(memory_id="external", embedder=embedder, groups=list(self._groups()))

    def _found(self) -> Mapping[str, str]:
        """SQL for each thing that the file tells."""
        described = self._connection.execute("DESCRIBE SELECT * FROM read_parquet($path)", self._path).fetchall()
        columns = {column for column, *_ in described}
        found: dict[str, str] = {}
        for name, (spellings, kind) in _NAMES.items():
            column = next((each for each in spellings if each in columns), None)
            if column is not None:
                found[name] = f"CAST({column} AS {kind}) AS {name}"
        if "content" not in found:
            raise DocumentInvalid("there is no column `content` or `text`")
        return found

    def _groups(self) -> Iterator[GroupPart]:
        names = [GROUP]
        if "group_id" in self._columns:
            select = f"SELECT DISTINCT {self._columns['group_id']} FROM read_parquet($path) ORDER BY ALL"  # noqa: S608
            names = [name or GROUP for (name,) in self._connection.execute(select, self._path).fetchall()]
        return (GroupPart(group_id=name, created_at=self._now) for name in dict.fromkeys(names))

    def units(self) -> Iterator[Placed]:
        plain = {name: sql for name, sql in self._columns.items() if name != "vector"}
        for first in range(0, self.count, _BATCH):
            window = self._path | {"first": first, "end": first + _BATCH}
            rows = self._connection.execute(f"SELECT {', '.join(plain.values())} {_WINDOW}", window).fetchall()
            vectors: Any = [np.ma.masked] * len(rows)
            if self.header.embedder is not None and "vector" in self._columns:
                select = f"SELECT {self._columns['vector']} {_WINDOW}"
                vectors = self._connection.execute(select, window).fetchnumpy()["vector"]
            for number, (row, vector) in enumerate(zip(rows, vectors, strict=True), first + 1):
                told = dict(zip(plain, row, strict=True))
                yield f"row {number}", self._unit(number, told, _of_length_1(vector, f"row {number}"))

    def _unit(self, number: int, told: dict[str, Any], vector: bytes | None) -> UnitPart:
        begun = told.get("creation_time") or self._now
        part = {
            "unit_id": told.get("unit_id") or str(number),
            "sequence": number,
            "group_id": told.get("group_id") or GROUP,
            "content": told["content"] or "",
            "source": told.get("source") or "",
            "creation_time": begun,
            "end_time": begun,
            "last_visit": number,
            "trust": "foreign",
            "valid_from": begun,
            "vector": vector,
        }
        try:
            return msgspec.convert(part, UnitPart)
        except msgspec.ValidationError as error:
            raise DocumentInvalid(f"row {number}: {error}") from error


def _of_length_1(vector: Any, place: str) -> bytes | None:
    """A list of floats, as it is fetched; empty where it points nowhere, None where there is none."""
    if vector is np.ma.masked:
        return None
    if isinstance(vector, np.ma.MaskedArray) or not np.isfinite(vector).all():
        raise DocumentInvalid(f"{place}: a number of the vector is none")
    length = float(np.linalg.norm(vector.astype(np.float64)))
    return bytes((vector / length).astype("<f4").tobytes()) if length > 0 else b""


@contextmanager
def reading(path: Path, embedder: str | None, now: datetime) -> Iterator[_Source]:
    """Read a file; vectors only where it is known which embedder made them. Raises DocumentInvalid."""
    with opened(path) as connection:
        yield _Source(connection, path, embedder, now)
