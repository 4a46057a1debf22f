"""Write the changes of a memory in one transaction, and the calls of language models for memories."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from store.interface.errors import MemoryMoved, RowRefused
from store.interface.memory_rows import (
    GroupRow,
    JobRow,
    MemoryCallRow,
    MemoryChange,
    OwnerRow,
    Relation,
    UnitRow,
    Visit,
)
from store.memory.queries import stamp
from store.sql.connection import Connection, Parameters, delete_rows, rows_select

_Row: TypeAlias = OwnerRow | GroupRow | UnitRow | JobRow
JOBS_STORED = 200
"""Number of finished jobs, done or failed, that are stored for each memory; older ones are deleted."""
NO_VERSION = 0
"""The version of every memory where no other server changes it."""
_OWNED = "tenant = $tenant AND user_id = $user_id"
_OLD_JOBS = f"""
DELETE FROM memory_jobs WHERE {_OWNED} AND job_id IN (
    SELECT job_id FROM memory_jobs WHERE {_OWNED} AND status IN ('done', 'failed')
    ORDER BY created_at DESC, job_id DESC OFFSET {JOBS_STORED})"""  # noqa: S608
_THOSE = f"WHERE {_OWNED} AND memory_unit_rows.sequence = changed.sequence"


def apply_change(connection: Connection, change: MemoryChange) -> int:
    """Write a change of a memory; return its version, 0 where no other server changes it. Within a transaction.

    Raises RowRefused for an invalid row; over PostgreSQL also MemoryMoved.
    """
    _require_own(change)
    owner: Parameters = {"tenant": change.tenant, "user_id": change.user_id}
    if change.jobs:
        change = msgspec.structs.replace(change, jobs=_present_jobs(connection, owner, change.jobs))
    if change.owner is not None:
        delete_rows(connection, "memory_owners", owner)
    for table, column, kind, values in _removals(change):
        statement = f"DELETE FROM {table} WHERE {_OWNED} AND {column} IN (SELECT unnest($values::{kind}[]))"  # noqa: S608
        connection.change(statement, {**owner, "values": values})
    if change.only_embedder is not None:
        statement = f"DELETE FROM memory_vectors WHERE {_OWNED} AND embedder <> $embedder"  # noqa: S608
        connection.change(statement, {**owner, "embedder": change.only_embedder})
    for table, rows in _additions(change):
        connection.insert(table, rows)
    if change.jobs:
        connection.change(_OLD_JOBS, owner)
    _update(connection, owner, change)
    _add_vectors(connection, owner, change)
    return NO_VERSION


def _present_jobs(connection: Connection, owner: Parameters, jobs: Sequence[JobRow]) -> list[JobRow]:
    """Return the jobs without those that have begun and were erased with their user meanwhile."""
    which = f"{_OWNED} AND job_id IN (SELECT unnest($jobs::UUID[]))"
    select = f"SELECT job_id::VARCHAR FROM memory_jobs WHERE {which}"  # noqa: S608
    found = connection.rows(select, {**owner, "jobs": [job.job_id for job in jobs]})
    present = {job_id for (job_id,) in found}
    return [job for job in jobs if job.status == "queued" or job.job_id in present]


def _require_own(change: MemoryChange) -> None:
    """Raise RowRefused if a change contains rows of another memory."""
    rows: list[_Row] = [*([change.owner] if change.owner else []), *change.groups, *change.units, *change.jobs]
    if {(row.tenant, row.user_id) for row in rows} - {(change.tenant, change.user_id)}:
        raise RowRefused("a change of a memory contains rows of another memory")


def _removals(change: MemoryChange) -> list[tuple[str, str, str, list[int] | list[str]]]:
    """Return the tables to delete rows from, each with a column, its type and the values that select the rows."""
    groups = [group.group_id for group in change.groups] + change.groups_removed
    withdrawn = [relation.sequence for relation in change.relations if relation.is_stale]  # their vectors go, too
    found: list[tuple[str, str, str, list[int] | list[str]]] = [
        ("memory_groups", "group_id", "VARCHAR", groups),
        ("memory_unit_rows", "sequence", "BIGINT", change.removed),
        ("memory_vectors", "sequence", "BIGINT", change.removed + withdrawn),
        ("memory_jobs", "job_id", "UUID", [job.job_id for job in change.jobs]),
    ]
    return [each for each in found if each[3]]


def _additions(change: MemoryChange) -> list[tuple[str, Sequence[_Row]]]:
    # without the texts of messages, which their turns have
    units = [unit if unit.message is None else msgspec.structs.replace(unit, content=None) for unit in change.units]
    found: list[tuple[str, Sequence[_Row]]] = [
        ("memory_owners", [] if change.owner is None else [change.owner]),
        ("memory_groups", change.groups),
        ("memory_unit_rows", units),
        ("memory_jobs", change.jobs),
    ]
    return [each for each in found if each[1]]


def _update(connection: Connection, owner: Parameters, change: MemoryChange) -> None:
    if change.visits:
        changed, parameters = rows_select(Visit, change.visits)
        connection.change(
            f"""UPDATE memory_unit_rows SET visit_count = changed.visit_count, last_visit = changed.last_visit
            FROM ({changed}) AS changed {_THOSE}""",  # noqa: S608
            {**owner, **parameters},
        )
    if change.relations:
        changed, parameters = rows_select(Relation, change.relations)
        connection.change(
            f"""UPDATE memory_unit_rows SET parent_id = changed.parent_id, never_delete = changed.never_delete,
                is_stale = changed.is_stale, content = CASE WHEN changed.is_stale THEN '' ELSE content END,
                valid_to = changed.valid_to, superseded_by = changed.superseded_by,
                duplicate_of = changed.duplicate_of
            FROM ({changed}) AS changed {_THOSE}""",  # noqa: S608
            {**owner, **parameters},
        )


def _add_vectors(connection: Connection, owner: Parameters, change: MemoryChange) -> None:
    added = change.vectors
    if added is None or not added.sequences:
        return
    rows: Parameters = {**owner, "embedder": added.embedder, "sequences": added.sequences}
    connection.change(
        f"""DELETE FROM memory_vectors WHERE {_OWNED} AND embedder = $embedder
        AND sequence IN (SELECT unnest($sequences::BIGINT[]))""",  # noqa: S608
        rows,
    )
    connection.change(
        """INSERT INTO memory_vectors (tenant, user_id, embedder, session_id, sequence, vector)
        SELECT $tenant, $user_id, $embedder, unnest($sessions::UUID[]), unnest($sequences::BIGINT[]),
            unnest($vectors::BYTEA[])""",
        {**rows, "sessions": added.sessions, "vectors": added.vectors},
    )


def import_units(
    connection: Connection, tenant: str, user_id: str, expected: str, changes: Iterable[MemoryChange]
) -> None:
    """Write changes that were computed for the stamp `expected`, all or none. Within a transaction.

    `changes` is iterated in the writer's thread and must not raise, because that would end the thread. Raises
    MemoryMoved, RowRefused.
    """
    if stamp(connection, tenant, user_id) != expected:
        raise MemoryMoved("the memory has changed since it was read")
    for change in changes:
        apply_change(connection, change)


def begin_call(connection: Connection, row: MemoryCallRow) -> None:
    """Insert the row of a call before it is made. Within a transaction."""
    connection.insert("memory_calls", [row])


def end_call(connection: Connection, row: MemoryCallRow) -> None:
    """Replace the row of a call with its result; do nothing if its user was erased meanwhile. Within a transaction.

    Raises RowRefused.
    """
    if delete_rows(connection, "memory_calls", {"tenant": row.tenant, "call_id": row.call_id}):
        connection.insert("memory_calls", [row])
