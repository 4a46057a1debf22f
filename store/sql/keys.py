"""Store, list and revoke API keys. Only their digests are stored."""

from datetime import datetime

from store.interface.errors import RowRefused
from store.interface.pages import Page
from store.interface.rows import KeyRow, KnownKeys
from store.sql.connection import Connection, count, fetch_one, fetch_page

LIVE_MAX = 1_000
"""Maximum number of keys of one tenant that are not revoked."""


def known_keys(connection: Connection) -> KnownKeys:
    """Return the keys of all tenants that are not revoked, because a request does not name the tenant of its key."""
    live = connection.fetch(KeyRow, "SELECT * FROM api_keys WHERE revoked_at IS NULL")
    return KnownKeys(live, count(connection, "api_keys", {}) > 0)


def key(connection: Connection, tenant: str, key_id: str) -> KeyRow | None:
    """Return a key of a tenant, also one that is revoked."""
    select = "SELECT * FROM api_keys WHERE tenant = $tenant AND key_id = $key_id"
    return fetch_one(connection, KeyRow, select, {"tenant": tenant, "key_id": key_id})


def keys(connection: Connection, tenant: str, *, limit: int = 50, cursor: str | None = None) -> Page[KeyRow]:
    """Return a page of a tenant's keys, the newest first, including revoked keys. Raises CursorInvalid."""
    select, order = "SELECT * FROM api_keys WHERE tenant = $tenant", {"created_at": datetime, "key_id": str}
    return fetch_page(connection, KeyRow, select, {"tenant": tenant}, order, limit, cursor)


def add_key(connection: Connection, key: KeyRow) -> None:
    """Add a key. Raises RowRefused if its tenant already has LIVE_MAX. Within a transaction."""
    if count(connection, "api_keys WHERE tenant = $tenant AND revoked_at IS NULL", {"tenant": key.tenant}) >= LIVE_MAX:
        raise RowRefused(f"there are {LIVE_MAX} keys already; revoke some")
    connection.insert("api_keys", [key])


def revoke_key(connection: Connection, tenant: str, key_id: str, now: datetime) -> None:
    """Revoke a key; a revoked key is not changed. Within a transaction."""
    connection.change(
        """UPDATE api_keys SET revoked_at = $now::TIMESTAMPTZ
        WHERE tenant = $tenant AND key_id = $key_id AND revoked_at IS NULL""",
        {"tenant": tenant, "key_id": key_id, "now": now.isoformat()},
    )


def note_key_use(connection: Connection, tenant: str, key_id: str, now: datetime) -> None:
    """Store when a key was last used. Within a transaction."""
    connection.change(
        "UPDATE api_keys SET last_used_at = $now::TIMESTAMPTZ WHERE tenant = $tenant AND key_id = $key_id",
        {"tenant": tenant, "key_id": key_id, "now": now.isoformat()},
    )
