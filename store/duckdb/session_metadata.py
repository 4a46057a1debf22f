"""Fork sessions, and change their keys and metadata. All functions run within a transaction."""

from store.duckdb.fetch import Cursor, Parameters
from store.interface.encoding import encode
from store.interface.errors import KeyTaken, RowRefused
from store.interface.rows import ForkRow, JsonObject, is_uuid


def fork(cursor: Cursor, fork: ForkRow) -> None:
    """Copy a session, its turns up to one, and its migrations up to that turn, under another id.

    The copied turns have the same numbers, times and states. Idempotency keys are not copied, since those requests
    were made to the other session, nor commit numbers, so that their writes of global variables do not count again.
    Raises KeyTaken, RowRefused.
    """
    if not is_uuid(fork.session_id):
        raise RowRefused(f"session id {fork.session_id!r} is not a UUID")
    _check_free(cursor, fork.tenant, "key", fork.key)
    _check_free(cursor, fork.tenant, "idempotency_key", fork.idempotency_key)
    source: Parameters = {"tenant": fork.tenant, "source": fork.from_session_id, "id": fork.session_id}
    request: Parameters = {"request": fork.idempotency_key}
    start = {"key": fork.key, "metadata": encode(fork.metadata).decode(), "at": fork.created_at.isoformat()}
    cursor.execute(
        """INSERT INTO session_starts BY NAME SELECT * REPLACE (
            $id::UUID AS session_id, $key AS key, $metadata::JSON AS metadata, $at::TIMESTAMPTZ AS created_at,
            $request AS idempotency_key
        ) FROM session_starts WHERE tenant = $tenant AND session_id = try_cast($source AS UUID)""",
        source | request | start,
    )
    copied = cursor.execute(
        """INSERT INTO turns BY NAME SELECT * REPLACE (
            $id::UUID AS session_id, NULL AS commit_number,
            CASE WHEN turn = 0 THEN $request END AS idempotency_key,
            CASE WHEN turn = 0 THEN $fingerprint END AS fingerprint
        ) FROM turns WHERE tenant = $tenant AND session_id = try_cast($source AS UUID) AND turn <= $turn""",
        source | request | {"fingerprint": fork.fingerprint, "turn": fork.turn},
    ).fetchall()
    if copied != [(fork.turn + 1,)]:
        raise RowRefused(f"session {fork.from_session_id} has no turn {fork.turn}")
    cursor.execute(
        """INSERT INTO session_migrations BY NAME SELECT * REPLACE ($id::UUID AS session_id)
        FROM session_migrations WHERE tenant = $tenant AND session_id = try_cast($source AS UUID) AND turn <= $turn""",
        source | {"turn": fork.turn},
    )


def label(cursor: Cursor, tenant: str, session_id: str, key: str | None, metadata: JsonObject) -> None:
    """Set the key and the metadata of a session, unless it is redacted. Raises KeyTaken, RowRefused."""
    _check_free(cursor, tenant, "key", key, session_id)
    cursor.execute(
        """UPDATE session_starts SET key = $key, metadata = $metadata::JSON
        WHERE tenant = $tenant AND session_id = try_cast($id AS UUID) AND redacted_at IS NULL""",
        {"tenant": tenant, "id": session_id, "key": key, "metadata": encode(metadata).decode()},
    )


def _check_free(cursor: Cursor, tenant: str, field: str, value: str | None, session_id: str = "") -> None:
    if value is None:
        return
    found = cursor.execute(
        f"""SELECT session_id::VARCHAR FROM session_starts
        WHERE tenant = $tenant AND {field} = $value AND session_id IS DISTINCT FROM try_cast($id AS UUID)""",  # noqa: S608
        {"tenant": tenant, "value": value, "id": session_id},
    ).fetchone()
    if found is not None:
        raise KeyTaken(field, value, found[0])
