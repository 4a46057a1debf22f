"""A memory as one JSON object: the header's fields, and `units`, one a line; vectors are base64."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from api.memory.transfers.document import (
    JSON_BYTES_MAX,
    UNITS_MAX,
    DocumentInvalid,
    Header,
    Placed,
    UnitPart,
    partial_path,
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
    """Write a file, which is there once all of it is."""
    partial = partial_path(path)
    try:
        with partial.open("wb") as file:
            file.write(msgspec.json.encode(header)[:-1] + b',"units":[')
            yield _Sink(file)
            file.write(b"\n]}\n")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


class _Whole(Header, frozen=True, kw_only=True):
    units: list[msgspec.Raw]


class _Source:
    def __init__(self, whole: _Whole) -> None:
        self.header: Header = whole
        self.count = len(whole.units)
        self._units = whole.units

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
        whole = msgspec.json.decode(path.read_bytes(), type=_Whole)
    except msgspec.DecodeError as error:
        raise DocumentInvalid(str(error)) from error
    if len(whole.units) > UNITS_MAX:
        raise DocumentInvalid(f"there are {len(whole.units)} units, at most {UNITS_MAX} can be read")
    yield _Source(whole)
