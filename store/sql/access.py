"""Who has access: store, list and revoke API keys, links and participants. Only the digests of keys are stored."""

from datetime import datetime

from store.interface.errors import IdTaken, RowRefused
from store.interface.pages import Page
from store.interface.participant_rows import LinkRow, ParticipantRow, PushSubscription
from store.interface.rows import KeyRow, KnownKeys, encode
from store.sql.connection import (
    OF_SESSION,
    Connection,
    Values,
    count,
    fetch_one,
    fetch_page,
    find_row,
    of_session,
    update_rows,
)
from store.sql.tenant_table import TenantTable

_VALID = "revoked_at IS NULL"
KEYS = TenantTable("api_keys", "key_id", KeyRow, counted=_VALID, remedy="revoke some")
LINKS = TenantTable("links", "link_id", LinkRow, counted=_VALID, remedy="revoke some")

_HAS_ACCESS = f"{_VALID} AND (link_id IS NULL OR link_id IN (SELECT link_id FROM links WHERE {_VALID}))"  # noqa: S608
_SET_PUSH = """UPDATE participants SET push = $push::JSON WHERE tenant = $tenant AND participant_id = $participant_id
    AND ($of::VARCHAR IS NULL OR push->>'endpoint' = $of)"""


def known_keys(connection: Connection) -> KnownKeys:
    """Return the keys of all tenants that are not revoked, because a request does not name the tenant of its key."""
    live = connection.fetch(KeyRow, "SELECT * FROM api_keys WHERE revoked_at IS NULL")
    return KnownKeys(live, count(connection, "api_keys", {}) > 0)


def revoke_key(connection: Connection, tenant: str, key_id: str, now: datetime) -> None:
    """Revoke a key; a revoked key is not changed. Within a transaction."""
    _revoke(connection, "api_keys", {"tenant": tenant, "key_id": key_id}, now)


def note_key_use(connection: Connection, tenant: str, key_id: str, now: datetime) -> None:
    """Store when a key was last used. Within a transaction."""
    which = {"tenant": tenant, "key_id": key_id}
    update_rows(connection, "api_keys", which, {"last_used_at": now.isoformat()})


def add_link(connection: Connection, link: LinkRow) -> None:
    """Add a link. Raises RowRefused if its tenant has enough, IdTaken if the id was used. Within a transaction."""
    if count(connection, "links WHERE link_id = $link_id", {"link_id": link.link_id}):
        raise IdTaken(f"there is, or was, a link with the id {link.link_id}")
    LINKS.add(connection, link)


def revoke_link(connection: Connection, tenant: str, link_id: str, now: datetime) -> bool:
    """Revoke a link and the access of its participants; return whether it was valid. Within a transaction."""
    was_valid = _revoke(connection, "links", {"tenant": tenant, "link_id": link_id}, now)
    _revoke(connection, "participants", {"tenant": tenant, "link_id": link_id}, now)
    return was_valid


def link(connection: Connection, link_id: str) -> LinkRow | None:
    """Return a link of any tenant that is not revoked, because a browser does not name the tenant of its link."""
    return find_row(connection, LinkRow, "links", {"link_id": link_id, "revoked_at": None})


def add_participant(connection: Connection, participant: ParticipantRow, places: int, now: datetime) -> None:
    """Add a participant, and delete those of the tenant whose access is over, unless they take a place of a link.

    Raises RowRefused if the link, or the tenant without a link, has `places` already, and IdTaken if the link has one
    with the same user. Within a transaction.
    """
    connection.change(_TIDY, {"tenant": participant.tenant, "now": now.isoformat()})
    of = "participants WHERE tenant = $tenant AND link_id IS NOT DISTINCT FROM $link_id"
    which: Values = {"tenant": participant.tenant, "link_id": participant.link_id}
    with_user = f"{of} AND user_id = $user_id AND revoked_at IS NULL"
    if participant.link_id is not None and count(connection, with_user, which | {"user_id": participant.user_id}):
        raise IdTaken("the link has a participant with this user already")
    if count(connection, of, which) >= places:
        raise RowRefused(f"{places} of {places} participants have come")
    connection.insert("participants", [participant])


def revoke_participant(connection: Connection, tenant: str, participant_id: str, now: datetime) -> bool:
    """Revoke the access of a participant; return whether it had any. Within a transaction."""
    return _revoke(connection, "participants", {"tenant": tenant, "participant_id": participant_id}, now)


def _revoke(connection: Connection, table: str, values: Values, now: datetime) -> bool:
    return update_rows(connection, table, {**values, "revoked_at": None}, {"revoked_at": now.isoformat()}) > 0


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
    select = f"""SELECT * FROM participants WHERE {OF_SESSION} AND push IS NOT NULL
        AND {_HAS_ACCESS} AND expires_at > $now::TIMESTAMPTZ"""  # noqa: S608
    return connection.fetch(ParticipantRow, select, of_session(tenant, session_id) | {"now": now.isoformat()})


def sessions_reminded(connection: Connection) -> set[tuple[str, str]]:
    """Return the sessions, by tenant and id, that have a participant whose browser is reminded."""
    found = connection.rows("SELECT DISTINCT tenant, session_id::VARCHAR FROM participants WHERE push IS NOT NULL")
    return {(tenant, session_id) for tenant, session_id in found}


def participant(connection: Connection, participant_id: str) -> ParticipantRow | None:
    """Return a participant of any tenant whose access is not revoked; a revoked link admits nobody, however late."""
    select = f"SELECT * FROM participants WHERE participant_id = $participant_id AND {_HAS_ACCESS}"  # noqa: S608
    return fetch_one(connection, ParticipantRow, select, {"participant_id": participant_id})


def resuming(connection: Connection, link_id: str, resume_digest: str) -> ParticipantRow | None:
    """Return the participant of a link whose device has the secret with this digest, unless revoked."""
    which: Values = {"link_id": link_id, "resume_digest": resume_digest, "revoked_at": None}
    return find_row(connection, ParticipantRow, "participants", which)


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
    which: Values = {"tenant": tenant, "link_id": link_id, "user_id": user_id}
    order = {"created_at": datetime, "participant_id": str}
    return fetch_page(connection, ParticipantRow, "participants", which, order, limit, cursor)


_TIDY = """DELETE FROM participants WHERE tenant = $tenant AND expires_at < $now::TIMESTAMPTZ AND (
    link_id IS NULL OR session_id NOT IN (SELECT session_id FROM session_starts WHERE tenant = $tenant))"""
"""A participant of a link takes a place as long as there is the session, so that `sessions_max` holds."""
