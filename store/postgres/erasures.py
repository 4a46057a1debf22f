"""Erased users, by the digest of their ids, for as long as another server may still run what began before the erasure.

A transaction that creates something of a user shares the table until it ends, and an erasure has it alone before it
begins. So each such transaction has ended before the erasure reads, and is deleted, or it finds the user here.
"""

import hashlib
from collections.abc import Collection, Mapping
from datetime import datetime

from store.interface.global_writes import UserId
from store.postgres.connection import PostgresConnection

STORED_S = 3_600
"""How long an erased user is remembered; turns and changes of memories take less."""

LOCK_TIMEOUT_S = 0.2
"""How long an erasure waits for transactions that create something, before it lets more of them begin."""


def note(connection: PostgresConnection, tenant: str, user_id: str, erased_at: datetime) -> None:
    """Note that a user is about to be erased. Within a transaction that does nothing else, and is tried again if others
    prevent it.
    """
    # while it waits, all new sessions wait behind it
    connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_S}s'")
    connection.execute("LOCK TABLE erased_users IN EXCLUSIVE MODE")
    connection.change(
        """INSERT INTO erased_users (tenant, user_digest, erased_at, memory_version)
        VALUES ($tenant, $digest, $erased_at::TIMESTAMPTZ, nextval('memory_version_numbers'))
        ON CONFLICT (tenant, user_digest) DO UPDATE SET erased_at = excluded.erased_at,
            memory_version = excluded.memory_version""",
        {"tenant": tenant, "digest": digest_of(user_id), "erased_at": erased_at},
    )


def wait_for(connection: PostgresConnection) -> None:
    """Let no erasure begin before this transaction ends. The first statement of a transaction that creates something of
    a user.
    """
    connection.execute("LOCK TABLE erased_users IN ROW SHARE MODE")


def erasure_times(connection: PostgresConnection, users: Collection[UserId]) -> Mapping[UserId, datetime]:
    """Return when these users were erased, for those that were."""
    by_digest = {(tenant, digest_of(user_id)): (tenant, user_id) for tenant, user_id in users}
    rows = connection.rows(
        """SELECT tenant, user_digest, erased_at FROM erased_users
        WHERE (tenant, user_digest) IN (SELECT unnest($tenants::TEXT[]), unnest($digests::TEXT[]))""",
        {"tenants": [tenant for tenant, _ in by_digest], "digests": [digest for _, digest in by_digest]},
    )
    return {by_digest[tenant, digest]: at for tenant, digest, at in rows}


def digest_of(user_id: str) -> str:
    """Return the digest of a user's id."""
    return hashlib.sha256(user_id.encode()).hexdigest()
