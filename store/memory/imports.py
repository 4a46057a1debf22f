"""Import units into a memory in a single transaction, if it did not change since they were numbered."""

from collections.abc import Iterable

import msgspec

from store.duckdb.fetch import Cursor
from store.interface.errors import MemoryMoved
from store.interface.memory_rows import MemoryChange
from store.memory.changes import MemoryWriting


def stamp(cursor: Cursor, tenant: str, user_id: str) -> str:
    """Return a fingerprint of a memory, which changes if units or groups are added, removed or moved in the tree."""
    found = cursor.execute(
        """SELECT (SELECT coalesce(max(sequence), 0) FROM memory_owners WHERE tenant = $tenant AND user_id = $user_id),
            (SELECT count(*) || ' ' || coalesce(bit_xor(hash(sequence, unit_id, coalesce(parent_id, ''))), 0)
                FROM memory_unit_rows WHERE tenant = $tenant AND user_id = $user_id),
            (SELECT count(*) || ' ' || coalesce(bit_xor(hash(group_id)), 0)
                FROM memory_groups WHERE tenant = $tenant AND user_id = $user_id)""",
        {"tenant": tenant, "user_id": user_id},
    ).fetchall()
    return msgspec.json.encode(found[0]).decode()


def existing_ids(cursor: Cursor, tenant: str, user_id: str, ids: list[str]) -> set[str]:
    """Return those of the ids that units of the memory already have."""
    found = cursor.execute(
        """SELECT unit_id FROM memory_unit_rows WHERE tenant = $tenant AND user_id = $user_id
        AND unit_id IN (SELECT unnest($ids::VARCHAR[]))""",
        {"tenant": tenant, "user_id": user_id, "ids": ids},
    ).fetchall()
    return {unit_id for (unit_id,) in found}


def import_units(
    cursor: Cursor, writing: MemoryWriting, tenant: str, user_id: str, expected: str, changes: Iterable[MemoryChange]
) -> None:
    """Write changes that were computed for the stamp `expected`. Within a transaction.

    Raises MemoryMoved, RowRefused.
    """
    if stamp(cursor, tenant, user_id) != expected:
        raise MemoryMoved("the memory has changed since it was read")
    for change in changes:
        writing.apply(cursor, change)
