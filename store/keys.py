"""Keys of the API: kept by their digests, read, revoked."""

from datetime import datetime

import msgspec

from store.errors import RowRefused
from store.fetch import Cursor, Page, Parameters, after, bounded, fetch, page, utc
from store.insert import insert
from store.rows import KeyRow

LIVE_MAX = 1_000
"""Keys of one tenant that are not revoked."""

_TIMES = utc("created_at", "expires_at", "revoked_at", "last_used_at")


class KnownKeys(msgspec.Struct, frozen=True):
    """What a server must know of all tenants' keys."""

    live: list[KeyRow]
    """Those that are not revoked, expired or not."""
    any_made: bool
    """Whether there ever was one."""


def known_keys(cursor: Cursor) -> KnownKeys:
    """The keys of all tenants: whose a key is, is only known once it is found."""
    live = fetch(cursor, KeyRow, f"SELECT * {_TIMES} FROM api_keys WHERE api_keys.revoked_at IS NULL", {})  # noqa: S608
    made = cursor.execute("SELECT count(*) > 0 FROM api_keys").fetchone()
    return KnownKeys(live, made is not None and bool(made[0]))


def keys(cursor: Cursor, tenant: str, limit: int, page_cursor: str | None) -> Page[KeyRow]:
    """A page of a tenant's keys, the newest first, with those that were revoked."""
    select = f"""
        SELECT * {_TIMES} FROM api_keys
        WHERE tenant = $tenant
            AND ($after_time IS NULL OR (api_keys.created_at, key_id) < ($after_time::TIMESTAMPTZ, $after_id))
        ORDER BY api_keys.created_at DESC, key_id DESC LIMIT $limit"""  # noqa: S608
    limit = bounded(limit)
    parameters: Parameters = {"tenant": tenant, "limit": limit + 1}
    rows = fetch(cursor, KeyRow, select, parameters | after(page_cursor))
    return page(rows, limit, lambda row: (row.created_at, row.key_id))


def add_key(cursor: Cursor, key: KeyRow) -> None:
    """Add a key. Raises RowRefused where its tenant has LIVE_MAX. Within a transaction."""
    found = cursor.execute(
        "SELECT count(*) FROM api_keys WHERE tenant = ? AND revoked_at IS NULL", [key.tenant]
    ).fetchone()
    if found is not None and found[0] >= LIVE_MAX:
        raise RowRefused(f"there are {LIVE_MAX} keys already; revoke some")
    insert(cursor, "api_keys", key)


def revoke_key(cursor: Cursor, tenant: str, key_id: str, now: datetime) -> None:
    """Revoke a key; one that is revoked stays as it is. Within a transaction."""
    cursor.execute(
        "UPDATE api_keys SET revoked_at = ?::TIMESTAMPTZ WHERE tenant = ? AND key_id = ? AND revoked_at IS NULL",
        [now.isoformat(), tenant, key_id],
    )


def note_key_use(cursor: Cursor, tenant: str, key_id: str, now: datetime) -> None:
    """Keep when a key was last used. Within a transaction."""
    cursor.execute(
        "UPDATE api_keys SET last_used_at = ?::TIMESTAMPTZ WHERE tenant = ? AND key_id = ?",
        [now.isoformat(), tenant, key_id],
    )
