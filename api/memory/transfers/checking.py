"""Whether the units of a file are a memory: everything is looked at before anything of it is written."""

from collections.abc import Iterable
from datetime import datetime

import msgspec
import numpy as np
from msgspec import Struct

from api.memory.asked import is_within_utc
from api.memory.transfers.document import (
    CHARS_MAX,
    FLOAT_BYTES,
    UNITS_MAX,
    DocumentInvalid,
    Header,
    Source,
    Tell,
    UnitPart,
)

TELL_UNITS = 1_000
LENGTH_TOLERANCE = 1e-3
"""How far a vector's length may be from 1."""


class Content(Struct, frozen=True):
    """All of a file."""

    header: Header
    units: list[UnitPart]


def checked(source: Source, tell: Tell) -> Content:
    """What is in a file; how far it is, is told every TELL_UNITS units.

    Raises DocumentInvalid for what does not agree, and for more than can be read.
    """
    groups = {group.group_id for group in source.header.groups}
    if len(groups) < len(source.header.groups):
        raise DocumentInvalid("groups: one of them is there twice")
    for number, group in enumerate(source.header.groups):
        _require_utc(group.created_at, f"groups[{number}]: created_at")
    if source.header.memory_id in groups:
        raise DocumentInvalid(f"groups: {source.header.memory_id!r} is the id of the memory")
    units: list[UnitPart] = []
    places: dict[str, str] = {}
    last, chars, dimension = 0, 0, None
    for place, unit in source.units():
        if len(units) == UNITS_MAX:
            raise DocumentInvalid(f"{place}: at most {UNITS_MAX} units can be read")
        chars += len(unit.content) + len(msgspec.json.encode(unit.metadata))
        if chars > CHARS_MAX:
            raise DocumentInvalid(f"{place}: contents and metadata have more than {CHARS_MAX} characters together")
        if unit.unit_id in places:
            raise DocumentInvalid(f"{place}: unit {unit.unit_id!r} is at {places[unit.unit_id]} already")
        if unit.sequence <= last:
            raise DocumentInvalid(f"{place}: sequence {unit.sequence} is not above {last}, the one before it")
        _require_sound(unit, place, groups, source.header.memory_id)
        if unit.vector:
            dimension = dimension or len(unit.vector)
            _require_vector(unit.vector, dimension, place, source.header.embedder)
        places[unit.unit_id] = place
        last = unit.sequence
        units.append(unit)
        if len(units) % TELL_UNITS == 0 or len(units) == source.count:
            tell(len(units), source.count)
    _require_tree(units, places)
    return Content(source.header, units)


def _require_sound(unit: UnitPart, place: str, groups: set[str], memory_id: str) -> None:
    if unit.rank < 2 and unit.group_id not in groups:
        raise DocumentInvalid(f"{place}: group {unit.group_id!r} is not among the groups")
    if unit.rank == 2 and unit.group_id != memory_id:
        raise DocumentInvalid(f"{place}: a unit of rank 2 is in the group of the memory, {memory_id!r}")
    if (unit.rank == 0) != (unit.level == 0):
        raise DocumentInvalid(f"{place}: level {unit.level} does not fit rank {unit.rank}; only what was said has 0")
    for name in ("creation_time", "end_time", "valid_from", "valid_to"):
        _require_utc(getattr(unit, name), f"{place}: {name}")
    if unit.end_time < unit.creation_time:
        raise DocumentInvalid(f"{place}: end_time is before creation_time")


def _require_utc(time: datetime | None, place: str) -> None:
    if time is not None and not is_within_utc(time):
        raise DocumentInvalid(f"{place} is not within the years 1 to 9999 of UTC")


def _require_vector(vector: bytes, size: int, place: str, embedder: str | None) -> None:
    if embedder is None:
        raise DocumentInvalid(f"{place}: there is a vector, but the header names no embedder")
    if len(vector) != size or size % FLOAT_BYTES:
        raise DocumentInvalid(f"{place}: a vector of {len(vector)} bytes, where the first one has {size}")
    length = float(np.linalg.norm(np.frombuffer(vector, "<f4").astype(np.float64)))
    if not abs(length - 1) <= LENGTH_TOLERANCE:  # also where it is no number
        raise DocumentInvalid(f"{place}: a vector of length {length:g}; it is to be 1")


def _require_tree(units: Iterable[UnitPart], places: dict[str, str]) -> None:
    """Every parent is a summary of the same group or of the memory, and stands higher; so there are no circles."""
    by_id = {unit.unit_id: unit for unit in units}
    for unit in by_id.values():
        if unit.parent_id is None:
            continue
        parent = by_id.get(unit.parent_id)
        if parent is None:
            raise DocumentInvalid(f"{places[unit.unit_id]}: parent {unit.parent_id!r} is not in the file")
        is_root = unit.unit_id == unit.group_id
        within = parent.rank == 1 and parent.group_id == unit.group_id and not is_root
        above = parent.rank == 2 and unit.rank > 0 and (unit.rank == 1) == is_root
        if not (within or above) or (parent.rank, parent.level) <= (unit.rank, unit.level):
            raise DocumentInvalid(
                f"{places[unit.unit_id]}: parent {unit.parent_id!r} is no higher summary of its group or memory"
            )
