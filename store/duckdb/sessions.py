"""Read one session, by its id or a key."""

from store.duckdb.fetch import Cursor, Parameters, fetch, fetch_one, utc
from store.duckdb.sql_fragments import SCRIPT_NOW
from store.interface.rows import MigrationRow, SessionHead, SessionRow

MIGRATIONS_MAX = 1_000
_TIMES = utc("created_at", "updated_at", "completed_at", "redacted_at")


def session_head(cursor: Cursor, tenant: str, session_id: str) -> SessionHead | None:
    """Return a session with the state after its latest turn."""
    # Not through the view, which would find the latest turn of every session before it filters by this one.
    select = f"""
        SELECT * {_TIMES} FROM (
            SELECT s.* REPLACE ({SCRIPT_NOW}), latest.* EXCLUDE (tenant, session_id, user_id, idempotency_key),
                latest.finished_at AS updated_at,
                CASE WHEN latest.status = 'completed' THEN latest.finished_at END AS completed_at
            FROM session_starts AS s, (
                SELECT * EXCLUDE (messages, variables, events) FROM turns
                WHERE tenant = $tenant AND session_id = try_cast($session_id AS UUID) ORDER BY turn DESC LIMIT 1
            ) AS latest LEFT JOIN (
                SELECT * FROM session_migrations
                WHERE tenant = $tenant AND session_id = try_cast($session_id AS UUID) ORDER BY turn DESC LIMIT 1
            ) AS m ON true
            WHERE s.tenant = $tenant AND s.session_id = try_cast($session_id AS UUID)
        )"""  # noqa: S608
    return fetch_one(cursor, SessionHead, select, {"tenant": tenant, "session_id": session_id})


def migrations(cursor: Cursor, tenant: str, session_id: str) -> list[MigrationRow]:
    """Return a session's last MIGRATIONS_MAX script migrations, the newest first."""
    select = f"""
        SELECT * {utc("migrated_at")} FROM session_migrations
        WHERE tenant = $tenant AND session_id = try_cast($session_id AS UUID)
        ORDER BY turn DESC LIMIT {MIGRATIONS_MAX}"""  # noqa: S608
    return fetch(cursor, MigrationRow, select, {"tenant": tenant, "session_id": session_id})


def session_start(cursor: Cursor, tenant: str, session_id: str) -> SessionRow | None:
    """Return a session as it was created, but with its current key and metadata."""
    return _start(cursor, "session_id = try_cast($id AS UUID)", {"tenant": tenant, "id": session_id})


def session_by_key(cursor: Cursor, tenant: str, key: str) -> SessionRow | None:
    """Return the session with this key, as it was created."""
    return _start(cursor, "key = $key", {"tenant": tenant, "key": key})


def creation_by_key(cursor: Cursor, tenant: str, idempotency_key: str) -> SessionRow | None:
    """Return the session that a request with this idempotency key created."""
    return _start(cursor, "idempotency_key = $key", {"tenant": tenant, "key": idempotency_key})


def _start(cursor: Cursor, condition: str, parameters: Parameters) -> SessionRow | None:
    select = f"SELECT * {utc('created_at', 'redacted_at')} FROM session_starts WHERE tenant = $tenant AND {condition}"  # noqa: S608
    return fetch_one(cursor, SessionRow, select, parameters)
