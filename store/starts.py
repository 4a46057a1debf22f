"""What a session begins with, changed later: a copy of another one up to a turn, or another key and metadata.

All of it within a transaction.
"""

from store.errors import KeyTaken, RowRefused
from store.fetch import Cursor
from store.insert import encode
from store.rows import ForkRow, JsonObject, is_uuid


def fork(cursor: Cursor, row: ForkRow) -> None:
    """Copy a session's start, its turns up to one, and its moves up to there, under another id.

    The turns keep their numbers, times and states; keys of requests are not copied, since those were made of the other
    session. Raises KeyTaken, RowRefused.
    """
    if not is_uuid(row.session_id):
        raise RowRefused(f"session id {row.session_id!r} is not a UUID")
    _must_be_free(cursor, row.tenant, "key", row.key)
    _must_be_free(cursor, row.tenant, "idempotency_key", row.idempotency_key)
    source = {"tenant": row.tenant, "source": row.from_session_id}
    cursor.execute(
        """INSERT INTO session_starts BY NAME SELECT * REPLACE (
            $id::UUID AS session_id, $key AS key, $metadata::JSON AS metadata, $at::TIMESTAMPTZ AS created_at,
            $request AS idempotency_key
        ) FROM session_starts WHERE tenant = $tenant AND session_id = try_cast($source AS UUID)""",
        source
        | {
            "id": row.session_id,
            "key": row.key,
            "metadata": encode(row.metadata).decode(),
            "at": row.created_at.isoformat(),
            "request": row.idempotency_key,
        },
    )
    copied = cursor.execute(
        """INSERT INTO turns BY NAME SELECT * REPLACE (
            $id::UUID AS session_id, CASE WHEN turn = 0 THEN $request END AS idempotency_key,
            CASE WHEN turn = 0 THEN $fingerprint END AS fingerprint
        ) FROM turns WHERE tenant = $tenant AND session_id = try_cast($source AS UUID) AND turn <= $turn""",
        source
        | {
            "id": row.session_id,
            "request": row.idempotency_key,
            "fingerprint": row.fingerprint,
            "turn": row.turn,
        },
    ).fetchall()
    if copied != [(row.turn + 1,)]:
        raise RowRefused(f"session {row.from_session_id} has no turn {row.turn}")
    cursor.execute(
        """INSERT INTO session_migrations BY NAME SELECT * REPLACE ($id::UUID AS session_id)
        FROM session_migrations WHERE tenant = $tenant AND session_id = try_cast($source AS UUID) AND turn <= $turn""",
        source | {"id": row.session_id, "turn": row.turn},
    )


def label(cursor: Cursor, tenant: str, session_id: str, key: str | None, metadata: JsonObject) -> None:
    """Keep the key and the metadata of a session as they are now; one whose text is dropped keeps none of them.

    Raises KeyTaken, RowRefused.
    """
    _must_be_free(cursor, tenant, "key", key, session_id)
    cursor.execute(
        """UPDATE session_starts SET key = $key, metadata = $metadata::JSON
        WHERE tenant = $tenant AND session_id = try_cast($id AS UUID) AND text_dropped_at IS NULL""",
        {"tenant": tenant, "id": session_id, "key": key, "metadata": encode(metadata).decode()},
    )


def _must_be_free(cursor: Cursor, tenant: str, field: str, value: str | None, session_id: str = "") -> None:
    if value is None:
        return
    found = cursor.execute(
        f"""SELECT session_id::VARCHAR FROM session_starts
        WHERE tenant = $tenant AND {field} = $value AND session_id IS DISTINCT FROM try_cast($id AS UUID)""",  # noqa: S608
        {"tenant": tenant, "value": value, "id": session_id},
    ).fetchone()
    if found is not None:
        raise KeyTaken(field, value, found[0])
