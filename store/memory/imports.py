"""Import units into a memory in a single transaction, if it did not change since they were numbered."""

from collections.abc import Iterable

import msgspec

from store.interface.errors import MemoryMoved
from store.interface.memory_rows import MemoryChange
from store.memory.changes import apply_change
from store.sql.connection import Connection

_OF_USER = "tenant = $tenant AND user_id = $user_id"
_STAMP = f"""
SELECT (SELECT coalesce(max(sequence), 0) FROM memory_owners WHERE {_OF_USER}),
    (SELECT md5(coalesce(string_agg(sequence || ' ' || unit_id || ' ' || coalesce(parent_id, ''), chr(10)
        ORDER BY sequence), '')) FROM memory_unit_rows WHERE {_OF_USER}),
    (SELECT md5(coalesce(string_agg(group_id, chr(10) ORDER BY group_id), '')) FROM memory_groups WHERE {_OF_USER})
"""  # noqa: S608


def stamp(connection: Connection, tenant: str, user_id: str) -> str:
    """Return a fingerprint of a memory, which changes if units or groups are added, removed or moved in the tree."""
    (found,) = connection.rows(_STAMP, {"tenant": tenant, "user_id": user_id})
    return msgspec.json.encode(found).decode()


def existing_ids(connection: Connection, tenant: str, user_id: str, ids: list[str]) -> set[str]:
    """Return those of the ids that units of the memory already have."""
    found = connection.rows(
        f"SELECT unit_id FROM memory_unit_rows WHERE {_OF_USER} AND unit_id IN (SELECT unnest($ids::VARCHAR[]))",  # noqa: S608
        {"tenant": tenant, "user_id": user_id, "ids": ids},
    )
    return {unit_id for (unit_id,) in found}


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
