"""Memories as JSON: one object with the header's fields and `units`, one unit per line; vectors are base64."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from api.atomic_files import writing_whole
from api.memory.transfers.memory_document import (
    JSON_BYTES_MAX,
    UNITS_MAX,
    DocumentInvalid,
    Header,
    Placed,
    UnitPart,
)


class _Sink:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._between = b""

    def add(self, units: list[UnitPart]) -> None:
        for unit in units:
            self._file.write(self._between + b"\n" + msgspec.json.encode(unit))
            self._between = b","


@contextmanager
def writing(path: Path, header: Header) -> Iterator[_Sink]:
    """Write a file atomically."""
    with writing_whole(path) as file:
        file.write(msgspec.json.encode(header)[:-1] + b',"units":[')
        yield _Sink(file)
        file.write(b"\n]}\n")


class _Document(Header, frozen=True, kw_only=True):
    units: list[msgspec.Raw]


class _Source:
    def __init__(self, document: _Document) -> None:
        self.header: Header = document
        self._units = document.units

    def units(self) -> Iterator[Placed]:
        decoder = msgspec.json.Decoder(UnitPart)
        for number, raw in enumerate(self._units):
            try:
                yield f"units[{number}]", decoder.decode(raw)
            except msgspec.DecodeError as error:
                raise DocumentInvalid(f"units[{number}]: {error}") from error


@contextmanager
def reading(path: Path) -> Iterator[_Source]:
    """Read a file. Raises DocumentInvalid."""
    if path.stat().st_size > JSON_BYTES_MAX:
        raise DocumentInvalid(f"the file has more than {JSON_BYTES_MAX} bytes; write the memory as Parquet or SQLite")
    try:
        document = msgspec.json.decode(path.read_bytes(), type=_Document)
    except msgspec.DecodeError as error:
        raise DocumentInvalid(str(error)) from error
    if len(document.units) > UNITS_MAX:
        raise DocumentInvalid(f"there are {len(document.units)} units, at most {UNITS_MAX} can be read")
    yield _Source(document)
