"""Store, list and revoke links and participants."""

from datetime import datetime

from store.duckdb.fetch import Cursor, Parameters, fetch, fetch_one, fetch_page, utc
from store.duckdb.insert import insert
from store.interface.encoding import encode
from store.interface.errors import IdTaken, RowRefused
from store.interface.pages import Page
from store.interface.participant_rows import LinkRow, ParticipantRow, PushSubscription

LINKS_MAX = 1_000
"""Maximum number of links of one tenant that are not revoked."""

_TIMES = utc("created_at", "expires_at", "revoked_at")
_LINKS = f"SELECT * {_TIMES} FROM links"  # noqa: S608
_PARTICIPANTS = f"SELECT * {_TIMES} FROM participants"  # noqa: S608
_HAS_ACCESS = """participants.revoked_at IS NULL
    AND (link_id IS NULL OR link_id IN (SELECT link_id FROM links WHERE revoked_at IS NULL))"""
_SET_PUSH = """UPDATE participants SET push = $push WHERE tenant = $tenant AND participant_id = $participant_id
    AND ($of IS NULL OR push->>'endpoint' = $of)"""
_REVOKE = "SET revoked_at = $now::TIMESTAMPTZ WHERE tenant = $tenant AND revoked_at IS NULL"


def add_link(cursor: Cursor, link: LinkRow) -> None:
    """Add a link. Raises RowRefused if its tenant has LINKS_MAX, IdTaken if the id was used. Within a transaction."""
    if _count(cursor, "links WHERE link_id = ?", link.link_id):
        raise IdTaken(f"there is, or was, a link with the id {link.link_id}")
    if _count(cursor, "links WHERE tenant = ? AND revoked_at IS NULL", link.tenant) >= LINKS_MAX:
        raise RowRefused(f"there are {LINKS_MAX} links already; revoke some")
    insert(cursor, "links", link)


def revoke_link(cursor: Cursor, tenant: str, link_id: str, now: datetime) -> bool:
    """Revoke a link and the access of its participants; return whether it was valid. Within a transaction."""
    found = {"tenant": tenant, "link_id": link_id, "now": now.isoformat()}
    count = cursor.execute(f"UPDATE links {_REVOKE} AND link_id = $link_id", found).fetchone()
    cursor.execute(f"UPDATE participants {_REVOKE} AND link_id = $link_id", found)
    return count is not None and bool(count[0])


def link(cursor: Cursor, link_id: str) -> LinkRow | None:
    """Return a link of any tenant that is not revoked."""
    select = f"{_LINKS} WHERE link_id = $link_id AND links.revoked_at IS NULL"
    return fetch_one(cursor, LinkRow, select, {"link_id": link_id})


def links(reader: Cursor, tenant: str, *, limit: int = 50, cursor: str | None = None) -> Page[LinkRow]:
    """Return a page of a tenant's links, the newest first, including revoked links."""
    select = f"""
        {_LINKS} WHERE tenant = $tenant
            AND ($after_time IS NULL OR (links.created_at, link_id) < ($after_time::TIMESTAMPTZ, $after_id))
        ORDER BY links.created_at DESC, link_id DESC LIMIT $limit"""
    return fetch_page(
        reader, LinkRow, select, {"tenant": tenant}, limit, cursor, lambda row: (row.created_at, row.link_id)
    )


def add_participant(cursor: Cursor, participant: ParticipantRow, places: int, now: datetime) -> None:
    """Add a participant, and delete those of the tenant whose access is over, unless they take a place of a link.

    Raises RowRefused if the link, or the tenant without a link, has `places` already, and IdTaken if the link has one
    with the same user. Within a transaction.
    """
    cursor.execute(_TIDY, [participant.tenant, now.isoformat()])
    of = "participants WHERE tenant = ? AND link_id IS NOT DISTINCT FROM ?"
    if participant.link_id is not None and _count(
        cursor,
        f"{of} AND user_id = ? AND revoked_at IS NULL",
        participant.tenant,
        participant.link_id,
        participant.user_id,
    ):
        raise IdTaken("the link has a participant with this user already")
    if _count(cursor, of, participant.tenant, participant.link_id) >= places:
        raise RowRefused(f"there are {places} participants already")
    insert(cursor, "participants", participant)


def revoke_participant(cursor: Cursor, tenant: str, participant_id: str, now: datetime) -> bool:
    """Revoke the access of a participant; return whether it had any. Within a transaction."""
    count = cursor.execute(
        f"UPDATE participants {_REVOKE} AND participant_id = $participant_id",
        {"tenant": tenant, "participant_id": participant_id, "now": now.isoformat()},
    ).fetchone()
    return count is not None and bool(count[0])


def set_push(
    cursor: Cursor, tenant: str, participant_id: str, push: PushSubscription | None, of: str | None = None
) -> bool:
    """Set or remove the browser of a participant that is reminded, with `of` only if it has this endpoint; return
    whether anything changed. Within a transaction.
    """
    found = {"tenant": tenant, "participant_id": participant_id, "push": push and encode(push).decode(), "of": of}
    count = cursor.execute(_SET_PUSH, found).fetchone()
    return count is not None and bool(count[0])


def to_remind(cursor: Cursor, tenant: str, session_id: str, now: datetime) -> list[ParticipantRow]:
    """Return the participants of a session with access to it whose browsers are reminded."""
    select = f"""{_PARTICIPANTS} WHERE tenant = $tenant AND session_id = $session_id AND push IS NOT NULL
        AND {_HAS_ACCESS} AND participants.expires_at > $now::TIMESTAMPTZ"""
    found: Parameters = {"tenant": tenant, "session_id": session_id, "now": now.isoformat()}
    return fetch(cursor, ParticipantRow, select, found)


def reminded(cursor: Cursor) -> set[tuple[str, str]]:
    """Return the sessions, by tenant and id, that have a participant whose browser is reminded."""
    found = cursor.execute("SELECT DISTINCT tenant, session_id::VARCHAR FROM participants WHERE push IS NOT NULL")
    return set(found.fetchall())


def participant(cursor: Cursor, participant_id: str) -> ParticipantRow | None:
    """Return a participant of any tenant whose access is not revoked; a revoked link admits nobody, however late."""
    select = f"{_PARTICIPANTS} WHERE participant_id = $participant_id AND {_HAS_ACCESS}"
    return fetch_one(cursor, ParticipantRow, select, {"participant_id": participant_id})


def resuming(cursor: Cursor, link_id: str, resume_digest: str) -> ParticipantRow | None:
    """Return the participant of a link whose device has the secret with this digest, unless revoked."""
    select = f"""{_PARTICIPANTS} WHERE link_id = $link_id AND resume_digest = $resume_digest
        AND participants.revoked_at IS NULL"""
    return fetch_one(cursor, ParticipantRow, select, {"link_id": link_id, "resume_digest": resume_digest})


def participants(
    reader: Cursor,
    tenant: str,
    *,
    link_id: str | None = None,
    user_id: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Page[ParticipantRow]:
    """Return a page of participants, the newest first, including revoked ones."""
    select = f"""
        {_PARTICIPANTS} WHERE tenant = $tenant AND ($link_id IS NULL OR link_id = $link_id)
            AND ($user_id IS NULL OR user_id = $user_id)
            AND ($after_time IS NULL
                OR (participants.created_at, participant_id) < ($after_time::TIMESTAMPTZ, $after_id))
        ORDER BY participants.created_at DESC, participant_id DESC LIMIT $limit"""
    parameters: Parameters = {"tenant": tenant, "link_id": link_id, "user_id": user_id}
    return fetch_page(
        reader, ParticipantRow, select, parameters, limit, cursor, lambda row: (row.created_at, row.participant_id)
    )


def _count(cursor: Cursor, which: str, *parameters: str | None) -> int:
    found = cursor.execute(f"SELECT count(*) FROM {which}", parameters).fetchone()  # noqa: S608
    return int(found[0]) if found is not None else 0


_TIDY = """DELETE FROM participants WHERE tenant = $1 AND expires_at < $2::TIMESTAMPTZ AND (
    link_id IS NULL OR session_id NOT IN (SELECT session_id FROM session_starts WHERE tenant = $1))"""
"""A participant of a link takes a place as long as there is the session, so that `sessions_max` holds."""
