"""What a memory consists of in a file, whichever form it has: a header, and units in the order they came."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TypeAlias

from msgspec import Meta, Struct

from api.ids import ID_PATTERN
from store.memory.rows import Trust

VERSION: Literal[1] = 1
"""Counted up where a file can no longer be read as one of the version before."""
UNITS_MAX = 200_000
"""Of a file that is read: all of them are in memory then."""
GROUPS_MAX = 50_000
CONTENT_CHARS_MAX = 200_000
CHARS_MAX = 200_000_000
"""Of all contents and metadata of a file that is read."""
JSON_BYTES_MAX = 512_000_000
DIMENSION_MAX = 8_192
FLOAT_BYTES = 4

Form: TypeAlias = Literal["json", "parquet", "sqlite"]
Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=500, pattern=ID_PATTERN)]
Word: TypeAlias = Annotated[str, Meta(max_length=1_000)]
Moment: TypeAlias = Annotated[datetime, Meta(tz=True)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Large: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
Tell: TypeAlias = Callable[[int, int], None]
"""Hears how many units are done, of how many."""


class DocumentInvalid(ValueError):
    """A file that no memory can be made of; the message says why, and where."""


class _Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of the document; an unknown field is an error, so that nothing of it is lost unnoticed."""


class GroupPart(_Part, frozen=True, kw_only=True):
    """A chain of units: a session, or a collection."""

    group_id: Id
    created_at: Moment


class Header(_Part, frozen=True, kw_only=True):
    """What holds for all units."""

    format: Literal["cuebook.memory"] = "cuebook.memory"
    version: Literal[1] = VERSION
    memory_id: Id
    embedder: Word | None = None
    """Which made the vectors; null: there are none."""
    groups: Annotated[list[GroupPart], Meta(max_length=GROUPS_MAX)]


class UnitPart(_Part, frozen=True, kw_only=True):
    """A unit, with its words wherever they come from; its vector as 32-bit floats, the low byte first."""

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


Placed: TypeAlias = tuple[str, UnitPart]
"""A unit, and where in the file it is."""


class Source(Protocol):
    """A file that is being read."""

    header: Header
    count: int
    """How many units it has, or says to have."""

    def units(self) -> Iterator[Placed]:
        """Its units, in order. Raises DocumentInvalid."""


class Sink(Protocol):
    """A file that is being written."""

    def add(self, units: list[UnitPart]) -> None:
        """Write the units that come next."""


def partial_path(path: Path) -> Path:
    """Where a file is written before it takes its place."""
    return path.with_name(path.name + ".partial")
