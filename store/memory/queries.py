"""Read one memory, and find the memories of all tenants that need maintenance."""

from datetime import datetime
from typing import TypeAlias
from uuid import UUID

import msgspec

from store.interface.memory_rows import (
    SEQUENCE_MAX,
    AdmissionRow,
    BehindRow,
    Bounds,
    GroupRow,
    JobRow,
    OwnerOf,
    OwnerRow,
    StoredVectors,
    UnitRow,
)
from store.interface.pages import Page
from store.sql.connection import OF_SESSION, Connection, Parameters, as_uuid, decode, fetch_page, find_row, of_session
from store.sql.sessions import LAST_MOVES

CONCERNING = ("remembered", "recalled", "intervention")
"""Kinds of events that memory ingests."""
_OF_USER = "tenant = $tenant AND user_id = $user_id"
_Said: TypeAlias = dict[tuple[str, int], str]
"""Texts of messages, by the session and the number of the message."""


class _Message(msgspec.Struct, frozen=True):
    seq: int
    content: str


class _Kind(msgspec.Struct, frozen=True):
    kind: str


def owner(connection: Connection, tenant: str, user_id: str) -> OwnerRow | None:
    """Return the memory of a user."""
    return find_row(connection, OwnerRow, "memory_owners", {"tenant": tenant, "user_id": user_id})


def groups(connection: Connection, tenant: str, user_id: str) -> list[GroupRow]:
    """Return the groups of a memory, the oldest first."""
    select = f"SELECT * FROM memory_groups WHERE {_OF_USER} ORDER BY created_at, group_id"  # noqa: S608
    return connection.fetch(GroupRow, select, {"tenant": tenant, "user_id": user_id})


def units(connection: Connection, tenant: str, user_id: str, *, after: int = 0, limit: int = 1_000) -> list[UnitRow]:
    """Return at most `limit` units with sequence numbers above `after`, with their texts, in order."""
    select = f"SELECT * FROM memory_unit_rows WHERE {_OF_USER} AND sequence > $after ORDER BY sequence LIMIT $limit"  # noqa: S608
    user = {"tenant": tenant, "user_id": user_id}
    return with_texts(connection, connection.fetch(UnitRow, select, {**user, "after": after, "limit": limit}))


def with_texts(connection: Connection, rows: list[UnitRow]) -> list[UnitRow]:
    """Return units of one memory with their texts; the text of a unit that is a message is in its turn."""
    absent = {(row.session_id, row.turn) for row in rows if row.content is None and row.session_id is not None}
    if not absent:
        return rows
    found = connection.rows(
        f"""SELECT session_id::VARCHAR, messages::VARCHAR FROM turns
        WHERE {_OF_USER} AND session_id IN (SELECT unnest($sessions::UUID[]))
            AND (session_id, turn) IN (SELECT unnest($sessions::UUID[]), unnest($turns::INTEGER[]))""",  # noqa: S608
        {
            "tenant": rows[0].tenant,
            "user_id": rows[0].user_id,
            "sessions": [session_id for session_id, _ in absent],
            "turns": [turn for _, turn in absent],
        },
    )
    said: _Said = {
        (session_id, message.seq): message.content
        for session_id, messages in found
        for message in decode(list[_Message], messages)
    }
    return [row if row.content is not None else _with_text(row, said) for row in rows]


def _with_text(row: UnitRow, said: _Said) -> UnitRow:
    return msgspec.structs.replace(row, content=said.get((row.session_id or "", row.message or 0), ""))


def vectors(
    connection: Connection, tenant: str, user_id: str, embedder: str, *, after: int = 0, last: int = SEQUENCE_MAX
) -> StoredVectors:
    """Return the vectors of an embedder for units with numbers above `after` and up to `last`, in order."""
    found = connection.rows(
        f"""SELECT sequence, vector FROM memory_vectors WHERE {_OF_USER}
            AND embedder = $embedder AND sequence > $after AND sequence <= $last ORDER BY sequence""",  # noqa: S608
        {"tenant": tenant, "user_id": user_id, "embedder": embedder, "after": after, "last": last},
    )
    return StoredVectors([sequence for sequence, _ in found], [vector for _, vector in found])


def stale_embeddings(connection: Connection, tenant: str, user_id: str, embedder: str) -> list[int]:
    """Return the units that have vectors of other embedders, but none of this one."""
    found = connection.rows(
        f"""SELECT DISTINCT sequence FROM memory_vectors AS v
        WHERE {_OF_USER} AND embedder <> $embedder AND NOT EXISTS (
            SELECT 1 FROM memory_vectors AS own WHERE own.tenant = $tenant AND own.user_id = $user_id
            AND own.sequence = v.sequence AND own.embedder = $embedder)
        ORDER BY sequence""",  # noqa: S608
        {"tenant": tenant, "user_id": user_id, "embedder": embedder},
    )
    return [sequence for (sequence,) in found]


def embedders(connection: Connection, tenant: str, user_id: str) -> dict[str, int]:
    """Return the number of vectors of each embedder in a memory."""
    select = f"SELECT embedder, count(*) FROM memory_vectors WHERE {_OF_USER} GROUP BY embedder ORDER BY embedder"  # noqa: S608
    found = connection.rows(select, {"tenant": tenant, "user_id": user_id})
    return {embedder: int(number) for embedder, number in found}


_STAMP = f"""
SELECT (SELECT coalesce(max(sequence), 0) FROM memory_owners WHERE {_OF_USER}),
    (SELECT md5(coalesce(string_agg(sequence || ' ' || unit_id || ' ' || coalesce(parent_id, ''), chr(10)
        ORDER BY sequence), '')) FROM memory_unit_rows WHERE {_OF_USER}),
    (SELECT md5(coalesce(string_agg(group_id, chr(10) ORDER BY group_id), '')) FROM memory_groups WHERE {_OF_USER})
"""  # noqa: S608


def stamp(connection: Connection, tenant: str, user_id: str) -> str:
    """Return a fingerprint of a memory, which changes if units or groups are added, removed or moved in the tree."""
    (found,) = connection.rows(_STAMP, {"tenant": tenant, "user_id": user_id})
    return msgspec.json.encode(found).decode()


def existing_ids(connection: Connection, tenant: str, user_id: str, ids: list[str]) -> set[str]:
    """Return those of the ids that units of the memory already have."""
    select = f"SELECT unit_id FROM memory_unit_rows WHERE {_OF_USER} AND unit_id IN (SELECT unnest($ids::VARCHAR[]))"  # noqa: S608
    found = connection.rows(select, {"tenant": tenant, "user_id": user_id, "ids": ids})
    return {unit_id for (unit_id,) in found}


def pending_ingest(connection: Connection, tenant: str, user_id: str) -> list[BehindRow]:
    """Return the sessions of a user with turns that are not ingested yet, the oldest first."""
    select = f"""SELECT s.session_id, coalesce(g.turn, -1) AS turn, t.turns, s.created_at,
            coalesce(m.digest, s.digest) AS digest, s.metadata
        FROM (SELECT session_id, max(turn) AS turns FROM turns WHERE {_OF_USER} GROUP BY session_id) AS t
        JOIN session_starts AS s ON s.tenant = $tenant AND s.session_id = t.session_id
        LEFT JOIN ({LAST_MOVES}) AS m ON m.session_id = t.session_id
        LEFT JOIN memory_groups AS g
            ON g.tenant = $tenant AND g.user_id = $user_id AND g.session_id = t.session_id
        WHERE t.turns > coalesce(g.turn, -1) AND s.redacted_at IS NULL
        ORDER BY s.created_at, s.session_id"""  # noqa: S608
    return connection.fetch(BehindRow, select, {"tenant": tenant, "user_id": user_id})


def admissible(connection: Connection, tenant: str, session_id: str, *, after: int, limit: int) -> list[AdmissionRow]:
    """Return the parts for memory of at most `limit` turns of a session after turn `after`, in order."""
    select = f"""SELECT turn, finished_at, messages, events FROM turns WHERE {OF_SESSION} AND turn > $after
        ORDER BY turn LIMIT $limit"""  # noqa: S608
    rows = connection.fetch(AdmissionRow, select, {**of_session(tenant, session_id), "after": after, "limit": limit})
    return [msgspec.structs.replace(row, events=_concerning(row.events)) for row in rows]


def _concerning(events: msgspec.Raw) -> msgspec.Raw:
    each = msgspec.json.decode(events, type=list[msgspec.Raw])
    kinds = msgspec.json.decode(events, type=list[_Kind])
    concerning = [event for event, kind in zip(each, kinds, strict=True) if kind.kind in CONCERNING]
    return msgspec.Raw(msgspec.json.encode(concerning))


def jobs(
    connection: Connection, tenant: str, *, user_id: str | None = None, limit: int = 50, cursor: str | None = None
) -> Page[JobRow]:
    """Return a page of the jobs of a tenant, or of one of its users, the newest first. Raises CursorInvalid."""
    which: Parameters = {"tenant": tenant, "user_id": user_id}
    order = {"created_at": datetime, "job_id": UUID}
    return fetch_page(connection, JobRow, "memory_jobs", which, order, limit, cursor)


def job(connection: Connection, tenant: str, job_id: str) -> JobRow | None:
    """Return one job."""
    return find_row(connection, JobRow, "memory_jobs", {"tenant": tenant, "job_id": as_uuid(job_id)})


def unfinished_jobs(connection: Connection, tenant: str, user_id: str, limit: int) -> list[JobRow]:
    """Return the oldest jobs of a memory that are not finished."""
    select = f"SELECT * FROM memory_jobs WHERE {_OF_USER} AND {_UNFINISHED}"  # noqa: S608
    return connection.fetch(JobRow, select, {"tenant": tenant, "user_id": user_id, "limit": limit})


def unfinished_jobs_of_all(connection: Connection, limit: int) -> list[JobRow]:
    """Return the oldest jobs of all tenants that are not finished, for the server itself."""
    return connection.fetch(JobRow, f"SELECT * FROM memory_jobs WHERE {_UNFINISHED}", {"limit": limit})  # noqa: S608


_UNFINISHED = "status IN ('queued', 'running') ORDER BY created_at, job_id LIMIT $limit"


def owners_of_all(connection: Connection) -> list[OwnerOf]:
    """Return the owners of the memories of all tenants, for data that is stored outside the database."""
    return connection.fetch(OwnerOf, "SELECT tenant, user_id FROM memory_owners")


def owners_behind_of_all(connection: Connection, limit: int, bounds: Bounds) -> list[OwnerOf]:
    """Return the owners of memories of all tenants that need automatic maintenance, for the server itself.

    These have turns that are not ingested, a stale summary, too many units, too many units without a summary, or units
    without a vector.
    """
    return connection.fetch(OwnerOf, _BEHIND, {**msgspec.structs.asdict(bounds), "limit": limit})


_BEHIND = """
WITH last AS (
    SELECT tenant, user_id, session_id, max(turn) AS turn FROM turns
    WHERE (tenant, user_id) IN (SELECT tenant, user_id FROM memory_owners) GROUP BY tenant, user_id, session_id
)
SELECT last.tenant, last.user_id FROM last
JOIN session_starts AS s ON s.tenant = last.tenant AND s.session_id = last.session_id
LEFT JOIN memory_groups AS g
    ON g.tenant = last.tenant AND g.user_id = last.user_id AND g.session_id = last.session_id
WHERE last.turn > coalesce(g.turn, -1) AND s.redacted_at IS NULL
UNION
SELECT tenant, user_id FROM memory_unit_rows AS u WHERE $embeds::BOOLEAN AND NOT is_stale AND NOT EXISTS (
    SELECT 1 FROM memory_vectors AS v WHERE v.tenant = u.tenant AND v.user_id = u.user_id AND v.sequence = u.sequence)
UNION
SELECT tenant, user_id FROM memory_owners WHERE is_stale
UNION
SELECT tenant, user_id FROM memory_unit_rows WHERE is_stale
UNION
SELECT tenant, user_id FROM memory_unit_rows GROUP BY tenant, user_id HAVING count(*) > $units_max::BIGINT
UNION
SELECT tenant, user_id FROM (
    SELECT tenant, user_id, group_id FROM memory_unit_rows
    WHERE $summarise_from::BIGINT > 0 AND rank = 0 AND parent_id IS NULL AND superseded_by IS NULL
    GROUP BY tenant, user_id, group_id HAVING count(*) >= $summarise_from::BIGINT) AS unsummarised
LIMIT $limit
"""
