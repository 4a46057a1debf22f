"""Store, list and revoke API keys. Only their digests are stored."""

from datetime import datetime

from store.duckdb.fetch import Cursor, fetch, fetch_page, utc
from store.duckdb.insert import insert
from store.interface.errors import RowRefused
from store.interface.pages import Page
from store.interface.rows import KeyRow, KnownKeys

LIVE_MAX = 1_000
"""Maximum number of keys of one tenant that are not revoked."""

_TIMES = utc("created_at", "expires_at", "revoked_at", "last_used_at")


def known_keys(cursor: Cursor) -> KnownKeys:
    """Return the keys of all tenants, because a request does not name the tenant of its key."""
    live = fetch(cursor, KeyRow, f"SELECT * {_TIMES} FROM api_keys WHERE api_keys.revoked_at IS NULL", {})  # noqa: S608
    row = cursor.execute("SELECT count(*) > 0 FROM api_keys").fetchone()
    return KnownKeys(live, row is not None and bool(row[0]))


def keys(reader: Cursor, tenant: str, *, limit: int = 50, cursor: str | None = None) -> Page[KeyRow]:
    """Return a page of a tenant's keys, the newest first, including revoked keys."""
    select = f"""
        SELECT * {_TIMES} FROM api_keys
        WHERE tenant = $tenant
            AND ($after_time IS NULL OR (api_keys.created_at, key_id) < ($after_time::TIMESTAMPTZ, $after_id))
        ORDER BY api_keys.created_at DESC, key_id DESC LIMIT $limit"""  # noqa: S608
    return fetch_page(
        reader, KeyRow, select, {"tenant": tenant}, limit, cursor, lambda row: (row.created_at, row.key_id)
    )


def add_key(cursor: Cursor, key: KeyRow) -> None:
    """Add a key. Raises RowRefused if its tenant already has LIVE_MAX. Within a transaction."""
    found = cursor.execute(
        "SELECT count(*) FROM api_keys WHERE tenant = ? AND revoked_at IS NULL", [key.tenant]
    ).fetchone()
    if found is not None and found[0] >= LIVE_MAX:
        raise RowRefused(f"there are {LIVE_MAX} keys already; revoke some")
    insert(cursor, "api_keys", key)


def revoke_key(cursor: Cursor, tenant: str, key_id: str, now: datetime) -> None:
    """Revoke a key; a revoked key is not changed. Within a transaction."""
    cursor.execute(
        "UPDATE api_keys SET revoked_at = ?::TIMESTAMPTZ WHERE tenant = ? AND key_id = ? AND revoked_at IS NULL",
        [now.isoformat(), tenant, key_id],
    )


def note_key_use(cursor: Cursor, tenant: str, key_id: str, now: datetime) -> None:
    """Store when a key was last used. Within a transaction."""
    cursor.execute(
        "UPDATE api_keys SET last_used_at = ?::TIMESTAMPTZ WHERE tenant = ? AND key_id = ?",
        [now.isoformat(), tenant, key_id],
    )
