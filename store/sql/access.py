"""Who has access: store, list and revoke API keys, links and participants. Only the digests of keys are stored."""

from datetime import datetime

from store.interface.errors import IdTaken, RowRefused
from store.interface.pages import Page
from store.interface.participant_rows import LinkRow, ParticipantRow, PushSubscription
from store.interface.rows import KeyRow, KnownKeys, encode
from store.sql.connection import OF_SESSION, Connection, Parameters, Scalar, count, fetch_one, fetch_page, of_session

KEYS_MAX = 1_000
"""Maximum number of keys of one tenant that are not revoked."""
LINKS_MAX = 1_000
"""Maximum number of links of one tenant that are not revoked."""

_LINKS = "SELECT * FROM links"
_PARTICIPANTS = "SELECT * FROM participants"
_HAS_ACCESS = """revoked_at IS NULL
    AND (link_id IS NULL OR link_id IN (SELECT link_id FROM links WHERE revoked_at IS NULL))"""
_SET_PUSH = """UPDATE participants SET push = $push::JSON WHERE tenant = $tenant AND participant_id = $participant_id
    AND ($of::VARCHAR IS NULL OR push->>'endpoint' = $of)"""
_REVOKE = "SET revoked_at = $now::TIMESTAMPTZ WHERE tenant = $tenant AND revoked_at IS NULL"


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
    """Add a key. Raises RowRefused if its tenant already has KEYS_MAX. Within a transaction."""
    if count(connection, "api_keys WHERE tenant = $tenant AND revoked_at IS NULL", {"tenant": key.tenant}) >= KEYS_MAX:
        raise RowRefused(f"there are {KEYS_MAX} keys already; revoke some")
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


def add_link(connection: Connection, link: LinkRow) -> None:
    """Add a link. Raises RowRefused if its tenant has LINKS_MAX, IdTaken if the id was used. Within a transaction."""
    if count(connection, "links WHERE link_id = $link_id", {"link_id": link.link_id}):
        raise IdTaken(f"there is, or was, a link with the id {link.link_id}")
    if count(connection, "links WHERE tenant = $tenant AND revoked_at IS NULL", {"tenant": link.tenant}) >= LINKS_MAX:
        raise RowRefused(f"there are {LINKS_MAX} links already; revoke some")
    connection.insert("links", [link])


def revoke_link(connection: Connection, tenant: str, link_id: str, now: datetime) -> bool:
    """Revoke a link and the access of its participants; return whether it was valid. Within a transaction."""
    found = {"tenant": tenant, "link_id": link_id, "now": now.isoformat()}
    changed = connection.change(f"UPDATE links {_REVOKE} AND link_id = $link_id", found)
    connection.change(f"UPDATE participants {_REVOKE} AND link_id = $link_id", found)
    return changed > 0


def link(connection: Connection, link_id: str) -> LinkRow | None:
    """Return a link of any tenant that is not revoked, because a browser does not name the tenant of its link."""
    select = f"{_LINKS} WHERE link_id = $link_id AND revoked_at IS NULL"
    return fetch_one(connection, LinkRow, select, {"link_id": link_id})


def links(connection: Connection, tenant: str, *, limit: int = 50, cursor: str | None = None) -> Page[LinkRow]:
    """Return a page of a tenant's links, the newest first, including revoked links. Raises CursorInvalid."""
    select, order = f"{_LINKS} WHERE tenant = $tenant", {"created_at": datetime, "link_id": str}
    return fetch_page(connection, LinkRow, select, {"tenant": tenant}, order, limit, cursor)


def add_participant(connection: Connection, participant: ParticipantRow, places: int, now: datetime) -> None:
    """Add a participant, and delete those of the tenant whose access is over, unless they take a place of a link.

    Raises RowRefused if the link, or the tenant without a link, has `places` already, and IdTaken if the link has one
    with the same user. Within a transaction.
    """
    connection.change(_TIDY, {"tenant": participant.tenant, "now": now.isoformat()})
    of = "participants WHERE tenant = $tenant AND link_id IS NOT DISTINCT FROM $link_id"
    which: dict[str, Scalar] = {"tenant": participant.tenant, "link_id": participant.link_id}
    with_user = f"{of} AND user_id = $user_id AND revoked_at IS NULL"
    if participant.link_id is not None and count(connection, with_user, which | {"user_id": participant.user_id}):
        raise IdTaken("the link has a participant with this user already")
    if count(connection, of, which) >= places:
        raise RowRefused(f"{places} of {places} participants have come")
    connection.insert("participants", [participant])


def revoke_participant(connection: Connection, tenant: str, participant_id: str, now: datetime) -> bool:
    """Revoke the access of a participant; return whether it had any. Within a transaction."""
    changed = connection.change(
        f"UPDATE participants {_REVOKE} AND participant_id = $participant_id",
        {"tenant": tenant, "participant_id": participant_id, "now": now.isoformat()},
    )
    return changed > 0


def set_push(
    connection: Connection, tenant: str, participant_id: str, push: PushSubscription | None, of: str | None = None
) -> bool:
    """Set or remove the browser of a participant that is reminded, with `of` only if it has this endpoint; return
    whether anything changed. Within a transaction.
    """
    found = {
        "tenant": tenant,
        "participant_id": participant_id,
        "push": None if push is None else encode(push).decode(),
        "of": of,
    }
    return connection.change(_SET_PUSH, found) > 0


def to_remind(connection: Connection, tenant: str, session_id: str, now: datetime) -> list[ParticipantRow]:
    """Return the participants of a session with access to it whose browsers are reminded."""
    select = f"""{_PARTICIPANTS} WHERE {OF_SESSION} AND push IS NOT NULL
        AND {_HAS_ACCESS} AND expires_at > $now::TIMESTAMPTZ"""
    return connection.fetch(ParticipantRow, select, of_session(tenant, session_id) | {"now": now.isoformat()})


def reminded(connection: Connection) -> set[tuple[str, str]]:
    """Return the sessions, by tenant and id, that have a participant whose browser is reminded."""
    found = connection.rows("SELECT DISTINCT tenant, session_id::VARCHAR FROM participants WHERE push IS NOT NULL")
    return {(tenant, session_id) for tenant, session_id in found}


def participant(connection: Connection, participant_id: str) -> ParticipantRow | None:
    """Return a participant of any tenant whose access is not revoked; a revoked link admits nobody, however late."""
    select = f"{_PARTICIPANTS} WHERE participant_id = $participant_id AND {_HAS_ACCESS}"
    return fetch_one(connection, ParticipantRow, select, {"participant_id": participant_id})


def resuming(connection: Connection, link_id: str, resume_digest: str) -> ParticipantRow | None:
    """Return the participant of a link whose device has the secret with this digest, unless revoked."""
    select = f"""{_PARTICIPANTS} WHERE link_id = $link_id AND resume_digest = $resume_digest
        AND revoked_at IS NULL"""
    return fetch_one(connection, ParticipantRow, select, {"link_id": link_id, "resume_digest": resume_digest})


def participants(
    connection: Connection,
    tenant: str,
    *,
    link_id: str | None = None,
    user_id: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Page[ParticipantRow]:
    """Return a page of participants, the newest first, including revoked ones. Raises CursorInvalid."""
    select = f"""
        {_PARTICIPANTS} WHERE tenant = $tenant AND ($link_id::VARCHAR IS NULL OR link_id = $link_id)
            AND ($user_id::VARCHAR IS NULL OR user_id = $user_id)"""
    which: Parameters = {"tenant": tenant, "link_id": link_id, "user_id": user_id}
    order = {"created_at": datetime, "participant_id": str}
    return fetch_page(connection, ParticipantRow, select, which, order, limit, cursor)


_TIDY = """DELETE FROM participants WHERE tenant = $tenant AND expires_at < $now::TIMESTAMPTZ AND (
    link_id IS NULL OR session_id NOT IN (SELECT session_id FROM session_starts WHERE tenant = $tenant))"""
"""A participant of a link takes a place as long as there is the session, so that `sessions_max` holds."""
