"""Claims: a turn that calls a model or a tool is run by one server, until it is committed or the claim expires.

The claim is written with the first call, on the database's clock, and is prolonged while a call is in progress. A
server that takes over an expired claim is another owner, so that a commit of the first one is refused.
"""

from collections.abc import Sequence

from store.interface.admission import SessionId
from store.postgres.connection import OF_SESSION_IDS, PostgresConnection, names_of

CLAIM_S = 30
"""Seconds after which a claim expires, unless it is prolonged."""
PROLONG_S = 8.0
"""How often claims are prolonged while a call is in progress."""


def claim(connection: PostgresConnection, owner: str, turns: Sequence[tuple[str, str, int]]) -> set[SessionId]:
    """Claim turns for a server, by tenant, session and number; return the sessions whose turns it now has. Within a
    transaction.

    Another server keeps its claim on the same turn until it expires; a claim on an earlier turn is over.
    """
    latest = {(tenant, session_id): turn for tenant, session_id, turn in sorted(turns)}
    owned = connection.rows(_CLAIM, {"owner": owner, "turns": list(latest.values()), **names_of(list(latest))})
    return {(tenant, session_id) for tenant, session_id in owned}


def prolong(connection: PostgresConnection, owner: str, sessions: Sequence[SessionId]) -> None:
    """Prolong claims of a server, unless another one has taken them over."""
    connection.change(
        f"""UPDATE turn_claims SET expires_at = clock_timestamp() + INTERVAL '{CLAIM_S} seconds'
        WHERE owner = $owner::UUID AND {OF_SESSION_IDS}""",  # noqa: S608
        {"owner": owner, **names_of(sessions)},
    )


def release(connection: PostgresConnection, owner: str, tenant: str, session_id: str) -> None:
    """Give up the claim of a server on a turn that has failed."""
    connection.change(
        """DELETE FROM turn_claims WHERE tenant = $tenant AND session_id = $session_id::UUID
        AND owner = $owner::UUID""",
        {"tenant": tenant, "session_id": session_id, "owner": owner},
    )


def claimed_by_others(
    connection: PostgresConnection, owner: str, sessions: Sequence[SessionId]
) -> dict[SessionId, int]:
    """Return those of the sessions whose next turn another server has claimed, with its number.

    An expired claim does not count: its server may be gone, and the replies of its calls are in the journal.
    """
    found = connection.rows(OF_OTHERS, {"owner": owner, **names_of(sessions)})
    return {(tenant, session_id): turn for tenant, session_id, turn in found}


def end(connection: PostgresConnection, sessions: Sequence[SessionId]) -> None:
    """Delete the claims of sessions whose turns are committed. Within the transaction that commits them."""
    connection.change(f"DELETE FROM turn_claims WHERE {OF_SESSION_IDS}", names_of(sessions))  # noqa: S608


OF_OTHERS = f"""
SELECT tenant, session_id::TEXT, turn FROM turn_claims WHERE owner <> $owner::UUID
    AND expires_at >= clock_timestamp() AND {OF_SESSION_IDS}
"""  # noqa: S608
_CLAIM = f"""
INSERT INTO turn_claims AS held (tenant, session_id, turn, owner, expires_at)
SELECT unnest($tenants::TEXT[]), unnest($sessions::UUID[]), unnest($turns::INTEGER[]), $owner::UUID,
    clock_timestamp() + INTERVAL '{CLAIM_S} seconds'
ON CONFLICT (tenant, session_id) DO UPDATE SET turn = excluded.turn, owner = excluded.owner,
    expires_at = excluded.expires_at
WHERE held.owner = excluded.owner OR held.turn < excluded.turn OR held.expires_at < clock_timestamp()
RETURNING tenant, session_id::TEXT
"""
