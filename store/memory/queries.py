"""Read one memory, and find the memories of all tenants that need maintenance."""

import msgspec

from store.duckdb.fetch import Cursor, fetch, fetch_one, fetch_page, iso, utc
from store.duckdb.sql_fragments import LAST_MOVES
from store.interface.memory_rows import (
    SEQUENCE_MAX,
    AdmissionRow,
    BehindRow,
    Bounds,
    GroupRow,
    JobRow,
    OwnerOf,
    OwnerRow,
    UnitRow,
    VectorsRead,
)
from store.interface.pages import Page

_TIMES = ("creation_time", "end_time", "valid_from", "valid_to")
CONCERNING = ("remembered", "recalled", "intervention")
"""Kinds of events that memory ingests."""


def units_select(which: str, limit: str = "") -> str:
    """Return SQL for units of `$user_id` of `$tenant` with texts; `which` is a condition on `memory_unit_rows`."""
    return f"""
    WITH chosen AS MATERIALIZED (
        SELECT * FROM memory_unit_rows WHERE tenant = $tenant AND user_id = $user_id AND ({which})
        ORDER BY sequence {limit}
    ), said AS (
        SELECT session_id, unnest(from_json(messages, '[{{"seq": "INTEGER", "content": "VARCHAR"}}]'), max_depth := 2)
        FROM turns WHERE tenant = $tenant AND user_id = $user_id
            AND (session_id, turn) IN (SELECT session_id, turn FROM chosen WHERE content IS NULL)
    )
    SELECT chosen.* REPLACE (coalesce(chosen.content, said.content, '') AS content)
    FROM chosen LEFT JOIN said ON said.session_id = chosen.session_id AND said.seq = chosen.message"""  # noqa: S608


def owner(cursor: Cursor, tenant: str, user_id: str) -> OwnerRow | None:
    """Return the memory of a user."""
    return fetch_one(
        cursor,
        OwnerRow,
        f"SELECT * {utc('created_at')} FROM memory_owners WHERE tenant = $tenant AND user_id = $user_id",  # noqa: S608
        {"tenant": tenant, "user_id": user_id},
    )


def groups(cursor: Cursor, tenant: str, user_id: str) -> list[GroupRow]:
    """Return the groups of a memory, the oldest first."""
    return fetch(
        cursor,
        GroupRow,
        f"""SELECT * {utc("created_at")} FROM memory_groups WHERE tenant = $tenant AND user_id = $user_id
        ORDER BY memory_groups.created_at, group_id""",  # noqa: S608
        {"tenant": tenant, "user_id": user_id},
    )


def units(cursor: Cursor, tenant: str, user_id: str, *, after: int = 0, limit: int = 1_000) -> list[UnitRow]:
    """Return at most `limit` units with sequence numbers above `after`, with their texts, in order."""
    select = units_select("sequence > $after", "LIMIT $limit")
    return fetch(
        cursor,
        UnitRow,
        f"SELECT * {utc(*_TIMES)} FROM ({select}) ORDER BY sequence",  # noqa: S608
        {"tenant": tenant, "user_id": user_id, "after": after, "limit": limit},
    )


def vectors(
    cursor: Cursor, tenant: str, user_id: str, embedder: str, *, after: int = 0, last: int = SEQUENCE_MAX
) -> VectorsRead:
    """Return the vectors of an embedder for units with numbers above `after` and up to `last`, in order."""
    found = cursor.execute(
        """SELECT sequence, vector FROM memory_vectors WHERE tenant = $tenant AND user_id = $user_id
            AND embedder = $embedder AND sequence > $after AND sequence <= $last ORDER BY sequence""",
        {"tenant": tenant, "user_id": user_id, "embedder": embedder, "after": after, "last": last},
    ).fetchall()
    return VectorsRead([sequence for sequence, _ in found], [vector for _, vector in found])


def stale_embeddings(cursor: Cursor, tenant: str, user_id: str, embedder: str) -> list[int]:
    """Return the units that have vectors of other embedders, but none of this one."""
    found = cursor.execute(
        """SELECT DISTINCT sequence FROM memory_vectors AS v
        WHERE tenant = $tenant AND user_id = $user_id AND embedder <> $embedder AND NOT EXISTS (
            FROM memory_vectors AS own WHERE own.tenant = $tenant AND own.user_id = $user_id
            AND own.sequence = v.sequence AND own.embedder = $embedder)
        ORDER BY sequence""",
        {"tenant": tenant, "user_id": user_id, "embedder": embedder},
    ).fetchall()
    return [sequence for (sequence,) in found]


def embedders(cursor: Cursor, tenant: str, user_id: str) -> dict[str, int]:
    """Return the number of vectors of each embedder in a memory."""
    found = cursor.execute(
        """SELECT embedder, count(*) FROM memory_vectors WHERE tenant = $tenant AND user_id = $user_id
        GROUP BY embedder ORDER BY embedder""",
        {"tenant": tenant, "user_id": user_id},
    ).fetchall()
    return dict(found)


def pending_ingest(cursor: Cursor, tenant: str, user_id: str) -> list[BehindRow]:
    """Return the sessions of a user with turns that are not ingested yet, the oldest first."""
    return fetch(
        cursor,
        BehindRow,
        f"""SELECT s.session_id::VARCHAR AS session_id, coalesce(g.turn, -1) AS turn, t.turns,
            {iso("s.created_at")} AS created_at, coalesce(m.digest, s.digest) AS digest, s.metadata
        FROM (
            SELECT session_id, max(turn) AS turns FROM turns WHERE tenant = $tenant AND user_id = $user_id
            GROUP BY session_id
        ) AS t
        JOIN session_starts AS s ON s.tenant = $tenant AND s.session_id = t.session_id
        LEFT JOIN ({LAST_MOVES}) AS m ON m.session_id = t.session_id
        LEFT JOIN memory_groups AS g
            ON g.tenant = $tenant AND g.user_id = $user_id AND g.session_id = t.session_id
        WHERE t.turns > coalesce(g.turn, -1) AND s.redacted_at IS NULL
        ORDER BY s.created_at, s.session_id""",  # noqa: S608
        {"tenant": tenant, "user_id": user_id},
    )


def admissible(cursor: Cursor, tenant: str, session_id: str, *, after: int, limit: int) -> list[AdmissionRow]:
    """Return the parts for memory of at most `limit` turns of a session after `after_turn`, in order."""
    return fetch(
        cursor,
        AdmissionRow,
        f"""SELECT turn, {iso("finished_at")} AS finished_at, messages,
            list_filter(from_json(events, '["JSON"]'), lambda event: event->>'kind' IN {CONCERNING}) AS events
        FROM turns WHERE tenant = $tenant AND session_id = try_cast($session_id AS UUID) AND turn > $after
        ORDER BY turn LIMIT $limit""",  # noqa: S608
        {"tenant": tenant, "session_id": session_id, "after": after, "limit": limit},
    )


def jobs(
    reader: Cursor, tenant: str, *, user_id: str | None = None, limit: int = 50, cursor: str | None = None
) -> Page[JobRow]:
    """Return a page of the jobs of a tenant, or of one of its users, the newest first. Raises CursorInvalid."""
    return fetch_page(
        reader,
        JobRow,
        f"""SELECT * {utc("created_at", "updated_at")} FROM memory_jobs
        WHERE tenant = $tenant AND ($user_id IS NULL OR user_id = $user_id) AND ($after_time IS NULL
            OR (created_at, job_id) < ($after_time::TIMESTAMPTZ, $after_id::UUID))
        ORDER BY memory_jobs.created_at DESC, job_id DESC LIMIT $limit""",  # noqa: S608
        {"tenant": tenant, "user_id": user_id},
        limit,
        cursor,
        lambda row: (row.created_at, row.job_id),
    )


def job(cursor: Cursor, tenant: str, job_id: str) -> JobRow | None:
    """Return one job."""
    return fetch_one(
        cursor,
        JobRow,
        f"""SELECT * {utc("created_at", "updated_at")} FROM memory_jobs
        WHERE tenant = $tenant AND job_id = try_cast($job_id AS UUID)""",  # noqa: S608
        {"tenant": tenant, "job_id": job_id},
    )


def unfinished_jobs(cursor: Cursor, tenant: str, user_id: str, limit: int) -> list[JobRow]:
    """Return the oldest jobs of a memory that are not finished."""
    return fetch(
        cursor,
        JobRow,
        f"""SELECT * {utc("created_at", "updated_at")} FROM memory_jobs
        WHERE tenant = $tenant AND user_id = $user_id AND status IN ('queued', 'running')
        ORDER BY memory_jobs.created_at, job_id LIMIT $limit""",  # noqa: S608
        {"tenant": tenant, "user_id": user_id, "limit": limit},
    )


def unfinished_jobs_of_all(cursor: Cursor, limit: int) -> list[JobRow]:
    """Return the oldest jobs of all tenants that are not finished."""
    return fetch(
        cursor,
        JobRow,
        f"""SELECT * {utc("created_at", "updated_at")} FROM memory_jobs WHERE status IN ('queued', 'running')
        ORDER BY memory_jobs.created_at, job_id LIMIT $limit""",  # noqa: S608
        {"limit": limit},
    )


def owners_of_all(cursor: Cursor) -> list[OwnerOf]:
    """Return the owners of the memories of all tenants, for data that is stored outside the database."""
    return fetch(cursor, OwnerOf, "SELECT tenant, user_id FROM memory_owners", {})


def owners_behind_of_all(cursor: Cursor, limit: int, bounds: Bounds) -> list[OwnerOf]:
    """Return the owners of memories of all tenants that need maintenance.

    These have turns that are not ingested, a stale summary, too many units, too many units without a summary, or units
    without a vector.
    """
    return fetch(
        cursor,
        OwnerOf,
        """
        WITH last AS (
            SELECT tenant, user_id, session_id, max(turn) AS turn FROM turns
            SEMI JOIN memory_owners USING (tenant, user_id) GROUP BY ALL
        )
        SELECT tenant, user_id FROM last JOIN session_starts AS s USING (tenant, user_id, session_id)
        LEFT JOIN memory_groups AS g USING (tenant, user_id, session_id)
        WHERE last.turn > coalesce(g.turn, -1) AND s.redacted_at IS NULL
        UNION
        SELECT tenant, user_id FROM memory_unit_rows AS u WHERE $embeds AND NOT is_stale AND NOT EXISTS (
            FROM memory_vectors AS v WHERE v.tenant = u.tenant AND v.user_id = u.user_id AND v.sequence = u.sequence)
        UNION
        SELECT tenant, user_id FROM memory_owners WHERE is_stale
        UNION
        SELECT tenant, user_id FROM memory_unit_rows WHERE is_stale
        UNION
        SELECT tenant, user_id FROM memory_unit_rows GROUP BY ALL HAVING count(*) > $units_max
        UNION
        SELECT tenant, user_id FROM (
            SELECT tenant, user_id, group_id FROM memory_unit_rows
            WHERE $summarise_from > 0 AND rank = 0 AND parent_id IS NULL AND superseded_by IS NULL
            GROUP BY ALL HAVING count(*) >= $summarise_from)
        LIMIT $limit""",
        {**msgspec.structs.asdict(bounds), "limit": limit},
    )
