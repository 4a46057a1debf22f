"""The content of a memory file in every format: a header, and units in their order."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from api.schemas.ids import ID_PATTERN
from store.interface.memory_rows import Trust

VERSION: Literal[1] = 1
"""Incremented when the previous version can no longer read a file."""
UNITS_MAX = 200_000
"""Of an imported file, which is read into memory completely."""
GROUPS_MAX = 50_000
CONTENT_CHARS_MAX = 200_000
CHARS_MAX = 200_000_000
"""Of all contents and metadata of an imported file."""
JSON_BYTES_MAX = 512_000_000
DIMENSION_MAX = 8_192
FLOAT_BYTES = 4

Form: TypeAlias = Literal["json", "parquet", "sqlite"]
MEDIA_TYPES: Mapping[Form, str] = {
    "json": "application/json",
    "parquet": "application/vnd.apache.parquet",
    "sqlite": "application/vnd.sqlite3",
}
FORM_OF_SUFFIX: Mapping[str, Form] = {
    ".json": "json",
    ".parquet": "parquet",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
    ".db": "sqlite",
}
Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=500, pattern=ID_PATTERN)]
Word: TypeAlias = Annotated[str, Meta(max_length=1_000)]
Moment: TypeAlias = Annotated[datetime, Meta(tz=True)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Large: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]


class DocumentInvalid(ValueError):
    """The file is not a valid memory; the message says why, and where."""


class _Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of the document; unknown fields are errors, so that no data is lost unnoticed."""


class GroupPart(_Part, frozen=True, kw_only=True):
    """A chain of units: a session, or a collection."""

    group_id: Id
    created_at: Moment


class Header(_Part, frozen=True, kw_only=True):
    """The fields of the memory as a whole."""

    format: Literal["cuebook.memory"] = "cuebook.memory"
    version: Literal[1] = VERSION
    memory_id: Id
    embedder: Word | None = None
    """The embedder of the vectors; null: there are no vectors."""
    groups: Annotated[list[GroupPart], Meta(max_length=GROUPS_MAX)]


class UnitPart(_Part, frozen=True, kw_only=True):
    """A unit with its text; its vector consists of 32-bit floats, low byte first."""

    unit_id: Id
    sequence: Annotated[int, Meta(ge=1, le=2**53)]
    group_id: Id
    rank: Literal[0, 1, 2] = 0
    level: Count = 0
    content: Annotated[str, Meta(max_length=CONTENT_CHARS_MAX)]
    source: Word
    creation_time: Moment
    end_time: Moment
    metadata: Mapping[str, Any] = {}
    parent_id: Id | None = None
    visit_count: Count = 0
    last_visit: Large
    never_delete: bool = False
    trust: Trust
    is_extract: bool = False
    is_stale: bool = False
    tells_from: Large = 0
    valid_from: Moment
    valid_to: Moment | None = None
    superseded_by: Id | None = None
    duplicate_of: Id | None = None
    vector: Annotated[bytes, Meta(max_length=DIMENSION_MAX * FLOAT_BYTES)] | None = None


def may_contain(parent: UnitPart, unit: UnitPart) -> bool:
    """Return whether a parent is a summary of the unit's group, or of the memory for the root of a group."""
    is_root = unit.unit_id == unit.group_id
    if parent.rank == 1:
        return parent.group_id == unit.group_id and unit.rank < 2 and not is_root
    return parent.rank == 2 and unit.rank > 0 and (unit.rank == 1) == is_root


SHARED = tuple(name for name in UnitPart.__struct_fields__ if name != "vector")
"""The fields of a unit that its row in the database has too."""

Placed: TypeAlias = tuple[str, UnitPart]
"""A unit and its position in the file."""


class MemorySource(Struct, frozen=True):
    """A file opened for reading; iterating over its units raises DocumentInvalid."""

    header: Header
    units: Iterator[Placed]


AddUnits: TypeAlias = Callable[[list[UnitPart]], None]
"""Appends units to a file opened for writing."""


def parse_header(text: str, place: str) -> Header:
    """Parse the header of a file. Raises DocumentInvalid."""
    try:
        return msgspec.json.decode(text, type=Header)
    except msgspec.DecodeError as error:
        raise DocumentInvalid(f"{place}: {error}") from error


def parse_unit(fields: dict[str, Any], place: str) -> UnitPart:
    """Return the unit with these fields; its metadata may be JSON. Raises DocumentInvalid."""
    try:
        if isinstance(metadata := fields.get("metadata"), str):
            fields = fields | {"metadata": msgspec.json.decode(metadata)}
        return msgspec.convert(fields, UnitPart)
    except msgspec.DecodeError as error:
        raise DocumentInvalid(f"{place}: {error}") from error


@contextmanager
def partial_file(path: Path) -> Iterator[Path]:
    """Yield a path for a library to write to, which is renamed to `path` at the end; after an error nothing remains."""
    partial = path.with_name(path.name + ".partial")
    partial.unlink(missing_ok=True)  # of a killed process
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
