"""Write the changes of a memory in one transaction. Runs in the writer's thread."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from store.duckdb.fetch import Cursor
from store.duckdb.insert import as_list, insert_statement
from store.interface.encoding import encode
from store.interface.errors import RowRefused
from store.interface.memory_rows import GroupRow, JobRow, MemoryChange, OwnerRow, UnitRow

_Row: TypeAlias = OwnerRow | GroupRow | UnitRow | JobRow
JOBS_STORED = 200
"""Number of finished jobs, done or failed, that are stored for each memory; older ones are deleted."""
_OLD_JOBS = f"""
DELETE FROM memory_jobs WHERE tenant = $tenant AND user_id = $user_id AND job_id IN (
    SELECT job_id FROM memory_jobs
    WHERE tenant = $tenant AND user_id = $user_id AND status IN ('done', 'failed')
    ORDER BY created_at DESC, job_id DESC OFFSET {JOBS_STORED})"""  # noqa: S608
_OWNED = "tenant = $tenant AND user_id = $user_id"


class MemoryWriting:
    """Write changes. The INSERT statements are cached."""

    def __init__(self) -> None:
        self._statements: dict[str, str] = {}

    def apply(self, cursor: Cursor, change: MemoryChange) -> None:
        """Write a change. Within a transaction. Raises RowRefused for an invalid row."""
        _require_own(change)
        owner = {"tenant": change.tenant, "user_id": change.user_id}
        if change.owner is not None:
            cursor.execute(f"DELETE FROM memory_owners WHERE {_OWNED}", owner)  # noqa: S608
        for table, column, values in _removals(change):
            cursor.execute(
                f"DELETE FROM {table} WHERE {_OWNED} AND {column} IN (SELECT unnest($values))",  # noqa: S608
                owner | {"values": values},
            )
        if change.only_embedder is not None:
            cursor.execute(
                f"DELETE FROM memory_vectors WHERE {_OWNED} AND embedder <> $embedder",  # noqa: S608
                owner | {"embedder": change.only_embedder},
            )
        for table, rows in _additions(change):
            self._insert(cursor, table, rows)
        if change.jobs:
            cursor.execute(_OLD_JOBS, owner)
        _update(cursor, owner, change)
        _add_vectors(cursor, owner, change)

    def _insert(self, cursor: Cursor, table: str, rows: Sequence[_Row]) -> None:
        if table not in self._statements:
            self._statements[table] = insert_statement(cursor, table)
        cursor.execute(self._statements[table], [as_list(map(encode, rows))])


def _require_own(change: MemoryChange) -> None:
    """Raise RowRefused if a change contains rows of another memory."""
    rows: list[_Row] = [*([change.owner] if change.owner else []), *change.groups, *change.units, *change.jobs]
    if {(row.tenant, row.user_id) for row in rows} - {(change.tenant, change.user_id)}:
        raise RowRefused("a change of a memory contains rows of another memory")


def _removals(change: MemoryChange) -> list[tuple[str, str, list[int] | list[str]]]:
    """Return the tables to delete rows from, each with a column and the values that select the rows."""
    groups = [group.group_id for group in change.groups] + change.groups_removed
    found: list[tuple[str, str, list[int] | list[str]]] = [
        ("memory_groups", "group_id", groups),
        ("memory_unit_rows", "sequence", change.removed),
        ("memory_vectors", "sequence", change.removed),
        ("memory_jobs", "job_id::VARCHAR", [job.job_id for job in change.jobs]),
    ]
    return [each for each in found if each[2]]


def _additions(change: MemoryChange) -> list[tuple[str, Sequence[_Row]]]:
    found: list[tuple[str, Sequence[_Row]]] = [
        ("memory_owners", [] if change.owner is None else [change.owner]),
        ("memory_groups", change.groups),
        ("memory_unit_rows", [_without_text(unit) for unit in change.units]),
        ("memory_jobs", change.jobs),
    ]
    return [each for each in found if each[1]]


def _without_text(unit: UnitRow) -> UnitRow:
    """Return the row to insert, without the text of a message, which its turn has."""
    return unit if unit.message is None else msgspec.structs.replace(unit, content=None)


def _update(cursor: Cursor, owner: Mapping[str, str], change: MemoryChange) -> None:
    if change.visits:
        cursor.execute(
            """UPDATE memory_unit_rows SET visit_count = now.visit_count, last_visit = now.last_visit
            FROM (SELECT unnest($sequences::BIGINT[]) AS sequence, unnest($counts::INTEGER[]) AS visit_count,
                unnest($rounds::BIGINT[]) AS last_visit) AS now
            WHERE tenant = $tenant AND user_id = $user_id AND memory_unit_rows.sequence = now.sequence""",
            {
                **owner,
                "sequences": [visit.sequence for visit in change.visits],
                "counts": [visit.visit_count for visit in change.visits],
                "rounds": [visit.last_visit for visit in change.visits],
            },
        )
    if change.relations:
        cursor.execute(
            """UPDATE memory_unit_rows SET parent_id = now.parent_id, never_delete = now.never_delete,
                is_stale = now.is_stale, content = if(now.is_stale, '', content), valid_to = now.valid_to,
                superseded_by = now.superseded_by, duplicate_of = now.duplicate_of
            FROM (SELECT unnest(from_json_strict($rows::JSON, '[{"sequence": "BIGINT", "parent_id": "VARCHAR",
                "never_delete": "BOOLEAN", "is_stale": "BOOLEAN", "valid_to": "TIMESTAMPTZ", "superseded_by": "VARCHAR",
                "duplicate_of": "VARCHAR"}]'), max_depth := 2)) AS now
            WHERE tenant = $tenant AND user_id = $user_id AND memory_unit_rows.sequence = now.sequence""",
            {**owner, "rows": as_list(map(encode, change.relations))},
        )
    withdrawn = [relation.sequence for relation in change.relations if relation.is_stale]
    if withdrawn:
        cursor.execute(
            """DELETE FROM memory_vectors WHERE tenant = $tenant AND user_id = $user_id
            AND sequence IN (SELECT unnest($sequences::BIGINT[]))""",
            {**owner, "sequences": withdrawn},
        )


def _add_vectors(cursor: Cursor, owner: Mapping[str, str], change: MemoryChange) -> None:
    added = change.vectors
    if added is None or not added.sequences:
        return
    cursor.execute(
        """DELETE FROM memory_vectors WHERE tenant = $tenant AND user_id = $user_id AND embedder = $embedder
        AND sequence IN (SELECT unnest($sequences::BIGINT[]))""",
        {**owner, "embedder": added.embedder, "sequences": added.sequences},
    )
    cursor.execute(
        """INSERT INTO memory_vectors BY NAME SELECT $tenant AS tenant, $user_id AS user_id, $embedder AS embedder,
            unnest($sessions::UUID[]) AS session_id, unnest($sequences::BIGINT[]) AS sequence,
            unnest($vectors::BLOB[]) AS vector""",
        {
            **owner,
            "embedder": added.embedder,
            "sessions": added.sessions,
            "sequences": added.sequences,
            "vectors": added.vectors,
        },
    )
