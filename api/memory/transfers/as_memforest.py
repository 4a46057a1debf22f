"""Memories of MemForest, read from the SQLite database of one of its chatbots.

Facts about the format: `memory_units` has the units of every rank with `creation_time` and `end_time` as ISO 8601 text
in local time without a zone (read as UTC) or as seconds, `metadata` as JSON text and `source` null for "ai";
`session_memories` and `long_term_memories` have the sessions and memories; edges and memberships are separate tables.
Vectors are stored elsewhere (Milvus), so the embedder computes them again. Upserts of MemForest drop edges by cascade:
missing and impossible edges are left out, and the summary is written again from the remaining units.
"""

import re
import sqlite3
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from api.memory.transfers.memory_document import (
    UNITS_MAX,
    DocumentInvalid,
    GroupPart,
    Header,
    MemorySource,
    UnitPart,
    may_contain,
    parse_unit,
)

TABLES = frozenset({"memory_units", "session_memories", "long_term_memories"})
LOST_GROUP = "memforest"
"""The group of units without a session."""
_SOURCE = "ai"
_SECONDS = re.compile(r"\d{9,}(\.\d+)?")  # shorter digits are a date such as 20260102
_LEVELS_MAX = 64  # of a chain of parents; a longer one is a cycle


def read_memforest(connection: sqlite3.Connection, now: datetime) -> MemorySource:
    """Read the units of a database: messages first, and each summary after the units that it covers.

    Raises DocumentInvalid.
    """
    source = _MemForest(connection, now)
    units = ((f"table memory_units, unit {unit.unit_id!r}", unit) for unit in source.units)
    return MemorySource(source.header, units)


class _MemForest:
    """The units of a database, in their sessions and in order of time."""

    def __init__(self, connection: sqlite3.Connection, now: datetime) -> None:
        self._connection = connection
        self._now = now
        rows: int = connection.execute("SELECT count(*) FROM memory_units").fetchone()[0]
        if rows > UNITS_MAX:
            raise DocumentInvalid(f"table memory_units: at most {UNITS_MAX:,} units can be read, it has {rows:,}")
        self._memories = [str(row[0]) for row in self._rows("SELECT id FROM long_term_memories ORDER BY rowid")]
        self._sessions = {
            str(row[0]): self._time(row[1], f"session {row[0]}") or now
            for row in self._rows("SELECT id, creation_time FROM session_memories ORDER BY rowid")
        }
        self._session_of = self._memberships()
        memory_id = self._memories[0] if self._memories else "memforest-memory"
        self.units = self._read(memory_id)
        groups = dict(self._sessions)
        if any(unit.group_id == LOST_GROUP for unit in self.units):
            groups.setdefault(LOST_GROUP, now)
        self.header = Header(
            memory_id=memory_id, groups=[GroupPart(group_id=group_id, created_at=at) for group_id, at in groups.items()]
        )

    def _rows(self, select: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(select).fetchall()

    def _has(self, table: str) -> bool:
        found = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?"
        return self._connection.execute(found, [table]).fetchone() is not None

    def _memberships(self) -> dict[str, str]:
        """Return the session of each unit: that of its group if known, else the session that lists it."""
        found: dict[str, str] = {}
        for table in ("session_unit_membership", "mu_session_group_membership"):
            if self._has(table):
                found |= {
                    str(unit): str(session)
                    for unit, session in self._rows(f"SELECT unit_id, session_id FROM {table}")  # noqa: S608
                    if str(session) in self._sessions
                }
        return found

    def _read(self, memory_id: str) -> list[UnitPart]:
        select = """SELECT id, content, source, creation_time, end_time, metadata, rank, visit_count, last_visit,
            never_delete FROM memory_units ORDER BY rank, creation_time, rowid"""
        units: dict[str, UnitPart] = {}
        for row in self._connection.execute(select):
            unit = self._unit(row, memory_id)
            if unit.rank < 2 or len(self._memories) == 1:
                units[unit.unit_id] = unit
        return _in_trees(units, self._parents() if self._has("mu_hierarchy_edges") else {})

    def _parents(self) -> dict[str, str]:
        return {
            str(child): str(parent)
            for child, parent in self._rows("SELECT child_unit_id, parent_unit_id FROM mu_hierarchy_edges")
        }

    def _unit(self, row: tuple[Any, ...], memory_id: str) -> UnitPart:
        unit_id, content, source, start, end, metadata, rank, visits, last_visit, never_delete = row
        place = f"table memory_units, unit {unit_id!r}"
        if rank not in {0, 1, 2}:
            raise DocumentInvalid(f"{place}: rank must be 0, 1 or 2, not {rank!r}")
        session = self._session_of.get(str(unit_id)) or (str(unit_id) if str(unit_id) in self._sessions else LOST_GROUP)
        at = self._time(start, place) or self._sessions.get(session, self._now)
        until = self._time(end, place) or at
        fields = {
            "unit_id": str(unit_id),
            "sequence": 1,
            "group_id": memory_id if rank == 2 else session,
            "rank": rank,
            "level": min(rank, 1),
            "content": content,
            "source": source or _SOURCE,
            "creation_time": at,
            "end_time": max(at, until),
            "metadata": _metadata(metadata, place),
            "visit_count": visits or 0,
            "last_visit": last_visit or 0,
            "never_delete": bool(never_delete),
            "trust": "conversation",
            "valid_from": at,
        }
        return parse_unit(fields, place)

    def _time(self, value: object, place: str) -> datetime | None:
        """Parse a time in UTC. Raises DocumentInvalid."""
        if value is None or value == "":
            return None
        try:
            text = str(value)
            at = datetime.fromtimestamp(float(text), UTC) if _SECONDS.fullmatch(text) else datetime.fromisoformat(text)
            return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
        except (ValueError, OverflowError, OSError) as error:
            raise DocumentInvalid(f"{place}: {value!r} is not a time in ISO 8601") from error


def is_memforest(connection: sqlite3.Connection) -> bool:
    """Return whether an SQLite database has the tables of MemForest."""
    found = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    return found >= TABLES


def _metadata(value: object, place: str) -> Mapping[str, Any]:
    """Parse the metadata of a unit; a value that is no JSON object becomes `{"value": …}`. Raises DocumentInvalid."""
    if value in (None, ""):
        return {}
    try:
        read = msgspec.json.decode(value) if isinstance(value, str | bytes) else value
    except msgspec.DecodeError as error:
        raise DocumentInvalid(f"{place}: {error}") from error
    return read if isinstance(read, dict) else {} if read is None else {"value": read}


def _in_trees(units: Mapping[str, UnitPart], parents: Mapping[str, str]) -> list[UnitPart]:
    """Number the units by time, each summary after the units that it covers, and set the possible edges."""
    fitting = {
        child: parent
        for child, parent in parents.items()
        if child in units and parent in units and child != parent and may_contain(units[parent], units[child])
    }
    children: dict[str, list[str]] = defaultdict(list)
    for child, parent in fitting.items():
        children[parent].append(child)
    levels = {unit_id: _level(unit_id, units, children) for unit_id in units}
    numbered: dict[str, UnitPart] = {}
    order = sorted(units.values(), key=lambda unit: (unit.rank, levels[unit.unit_id]))
    for sequence, unit in enumerate(order, 1):
        below = [numbered[child] for child in children[unit.unit_id] if child in numbered]
        over = fitting.get(unit.unit_id)
        is_higher = over is not None and (units[over].rank, levels[over]) > (unit.rank, levels[unit.unit_id])
        numbered[unit.unit_id] = msgspec.structs.replace(
            unit,
            sequence=sequence,
            level=levels[unit.unit_id],
            parent_id=over if is_higher else None,
            tells_from=min((each.tells_from or each.sequence for each in below), default=sequence) if unit.rank else 0,
        )
    return list(numbered.values())


def _level(unit_id: str, units: Mapping[str, UnitPart], children: Mapping[str, list[str]]) -> int:
    """Return the height of a unit in the tree of its rank: 0 for messages, 1 for their summaries, and so on."""
    rank: int = units[unit_id].rank
    height, row = min(rank, 1), [unit_id]
    for _ in range(_LEVELS_MAX):
        row = [child for each in row for child in children.get(each, ()) if units[child].rank == rank]
        if not row or rank == 0:
            return height
        height += 1
    raise DocumentInvalid(f"table mu_hierarchy_edges: unit {unit_id!r} is its own ancestor")
