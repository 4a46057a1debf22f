"""A whole memory out of the record, page by page, and into it, in one transaction."""

from collections.abc import Iterable

import msgspec

from store.errors import MemoryMoved
from store.fetch import Cursor
from store.memory.changes import MemoryWriting
from store.memory.rows import MemoryChange, VectorsRead


def stamp(cursor: Cursor, tenant: str, user_id: str) -> str:
    """A text that is another one once units or groups of the memory came, went, or stand elsewhere in the tree."""
    found = cursor.execute(
        """SELECT (SELECT coalesce(max(sequence), 0) FROM memory_owners WHERE tenant = $tenant AND user_id = $user_id),
            (SELECT count(*) || ' ' || coalesce(bit_xor(hash(sequence, unit_id, coalesce(parent_id, ''))), 0)
                FROM memory_unit_rows WHERE tenant = $tenant AND user_id = $user_id),
            (SELECT count(*) || ' ' || coalesce(bit_xor(hash(group_id)), 0)
                FROM memory_groups WHERE tenant = $tenant AND user_id = $user_id)""",
        {"tenant": tenant, "user_id": user_id},
    ).fetchall()
    return msgspec.json.encode(found[0]).decode()


def vectors_between(cursor: Cursor, tenant: str, user_id: str, embedder: str, after: int, last: int) -> VectorsRead:
    """The vectors that an embedder made of the units above one number, up to another."""
    found = cursor.execute(
        """SELECT sequence, vector FROM memory_vectors WHERE tenant = $tenant AND user_id = $user_id
            AND embedder = $embedder AND sequence > $after AND sequence <= $last ORDER BY sequence""",
        {"tenant": tenant, "user_id": user_id, "embedder": embedder, "after": after, "last": last},
    ).fetchall()
    return VectorsRead([sequence for sequence, _ in found], [vector for _, vector in found])


def ids_taken(cursor: Cursor, tenant: str, user_id: str, ids: list[str]) -> set[str]:
    """Those of the ids that units of the memory have."""
    found = cursor.execute(
        """SELECT unit_id FROM memory_unit_rows WHERE tenant = $tenant AND user_id = $user_id
        AND unit_id IN (SELECT unnest($ids::VARCHAR[]))""",
        {"tenant": tenant, "user_id": user_id, "ids": ids},
    ).fetchall()
    return {unit_id for (unit_id,) in found}


def bring(
    cursor: Cursor, writing: MemoryWriting, tenant: str, user_id: str, expected: str, changes: Iterable[MemoryChange]
) -> None:
    """Write changes of a memory that were made for its stamp, within a transaction. Raises MemoryMoved, RowRefused."""
    if stamp(cursor, tenant, user_id) != expected:
        raise MemoryMoved("the memory has changed since it was looked at")
    for change in changes:
        writing.apply(cursor, change)
