"""Memories as JSON: one object with the header's fields and `units`, one unit per line; vectors are base64."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from api.local_files.atomic_files import writing_whole
from api.memory.transfers.memory_document import (
    JSON_BYTES_MAX,
    UNITS_MAX,
    AddUnits,
    DocumentInvalid,
    Header,
    MemorySource,
    Placed,
    UnitPart,
)
from api.schemas.validation_messages import humanize_validation_error


@contextmanager
def writing(path: Path, header: Header) -> Iterator[AddUnits]:
    """Write a file atomically."""
    between = b""

    def add(units: list[UnitPart]) -> None:
        nonlocal between
        for unit in units:
            file.write(between + b"\n" + msgspec.json.encode(unit))
            between = b","

    with writing_whole(path) as file:
        file.write(msgspec.json.encode(header)[:-1] + b',"units":[')
        yield add
        file.write(b"\n]}\n")


class _Document(Header, frozen=True, kw_only=True):
    units: list[msgspec.Raw]


@contextmanager
def reading(path: Path) -> Iterator[MemorySource]:
    """Read a file. Raises DocumentInvalid."""
    if path.stat().st_size > JSON_BYTES_MAX:
        raise DocumentInvalid(f"the file has more than {JSON_BYTES_MAX} bytes; write the memory as Parquet or SQLite")
    try:
        document = msgspec.json.decode(path.read_bytes(), type=_Document)
    except msgspec.DecodeError as error:
        problem = humanize_validation_error(str(error))
        raise DocumentInvalid(f"it is not a memory that Cuebook exported: {problem}") from error
    if len(document.units) > UNITS_MAX:
        raise DocumentInvalid(f"there are {len(document.units)} units, at most {UNITS_MAX} can be read")
    yield MemorySource(document, _units(document.units))


def _units(encoded: list[msgspec.Raw]) -> Iterator[Placed]:
    decoder = msgspec.json.Decoder(UnitPart)
    for number, raw in enumerate(encoded):
        try:
            yield f"units[{number}]", decoder.decode(raw)
        except msgspec.DecodeError as error:
            raise DocumentInvalid(f"units[{number}]: {error}") from error
