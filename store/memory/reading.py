"""Reads of one memory; and for the server itself, of which memories there is work to do."""

import msgspec

from store.fetch import Cursor, Page, Parameters, after, bounded, fetch, fetch_one, iso, page, utc
from store.memory.rows import AdmissionRow, BehindRow, GroupRow, JobRow, OwnerRow, UnitRow, VectorsRead
from store.shown import LAST_MOVES

_TIMES = ("creation_time", "end_time", "valid_from", "valid_to")
CONCERNING = ("remembered", "recalled", "intervention")
"""Kinds of events that memory is admitted from."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """From when on there is work to do on a memory by itself."""

    embeds: bool
    """Whether units are to have vectors."""
    units_max: int
    summarise_from: int
    """Units of a group that are in no summary; 0: never by itself."""


class OwnerOf(msgspec.Struct, frozen=True):
    """A user of a tenant."""

    tenant: str
    user_id: str


def units_select(which: str, limit: str = "") -> str:
    """SQL for units of `$tenant` and `$user_id` with their words; `which` is a condition on `memory_unit_rows`."""
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
    """The memory of a user."""
    return fetch_one(
        cursor,
        OwnerRow,
        f"SELECT * {utc('created_at')} FROM memory_owners WHERE tenant = $tenant AND user_id = $user_id",  # noqa: S608
        {"tenant": tenant, "user_id": user_id},
    )


def groups(cursor: Cursor, tenant: str, user_id: str) -> list[GroupRow]:
    """The groups of a memory, the oldest first."""
    return fetch(
        cursor,
        GroupRow,
        f"""SELECT * {utc("created_at")} FROM memory_groups WHERE tenant = $tenant AND user_id = $user_id
        ORDER BY memory_groups.created_at, group_id""",  # noqa: S608
        {"tenant": tenant, "user_id": user_id},
    )


def units(cursor: Cursor, tenant: str, user_id: str, after_sequence: int, limit: int) -> list[UnitRow]:
    """At most `limit` units above a number, with their words, in order."""
    select = units_select("sequence > $after", "LIMIT $limit")
    return fetch(
        cursor,
        UnitRow,
        f"SELECT * {utc(*_TIMES)} FROM ({select}) ORDER BY sequence",  # noqa: S608
        {"tenant": tenant, "user_id": user_id, "after": after_sequence, "limit": limit},
    )


def alive(cursor: Cursor, tenant: str, user_id: str, sequences: list[int]) -> list[int]:
    """Those of the units that there are."""
    found = cursor.execute(
        """SELECT sequence FROM memory_unit_rows WHERE tenant = $tenant AND user_id = $user_id
        AND sequence IN (SELECT unnest($sequences::BIGINT[]))""",
        {"tenant": tenant, "user_id": user_id, "sequences": sequences},
    ).fetchall()
    return [sequence for (sequence,) in found]


def vectors(cursor: Cursor, tenant: str, user_id: str, embedder: str) -> VectorsRead:
    """All vectors of a memory that an embedder made, by the numbers of their units, in order."""
    found = cursor.execute(
        """SELECT sequence, vector FROM memory_vectors
        WHERE tenant = $tenant AND user_id = $user_id AND embedder = $embedder ORDER BY sequence""",
        {"tenant": tenant, "user_id": user_id, "embedder": embedder},
    ).fetchall()
    return VectorsRead([sequence for sequence, _ in found], [vector for _, vector in found])


def seen_otherwise(cursor: Cursor, tenant: str, user_id: str, embedder: str) -> list[int]:
    """The units that have vectors of other embedders, but none of this one."""
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
    """The embedders that made vectors of a memory, and how many."""
    found = cursor.execute(
        """SELECT embedder, count(*) FROM memory_vectors WHERE tenant = $tenant AND user_id = $user_id
        GROUP BY embedder ORDER BY embedder""",
        {"tenant": tenant, "user_id": user_id},
    ).fetchall()
    return dict(found)


def behind(cursor: Cursor, tenant: str, user_id: str) -> list[BehindRow]:
    """The sessions of a user of which turns are still to be admitted, the oldest first."""
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
        WHERE t.turns > coalesce(g.turn, -1) AND s.text_dropped_at IS NULL
        ORDER BY s.created_at, s.session_id""",  # noqa: S608
        {"tenant": tenant, "user_id": user_id},
    )


def admissible(cursor: Cursor, tenant: str, session_id: str, after_turn: int, limit: int) -> list[AdmissionRow]:
    """What at most `limit` turns of a session after `after_turn` have for memory, in order."""
    return fetch(
        cursor,
        AdmissionRow,
        f"""SELECT turn, {iso("finished_at")} AS finished_at, messages,
            list_filter(from_json(events, '["JSON"]'), lambda event: event->>'kind' IN {CONCERNING}) AS events
        FROM turns WHERE tenant = $tenant AND session_id = try_cast($session_id AS UUID) AND turn > $after
        ORDER BY turn LIMIT $limit""",  # noqa: S608
        {"tenant": tenant, "session_id": session_id, "after": after_turn, "limit": limit},
    )


def jobs(cursor: Cursor, tenant: str, user_id: str | None, limit: int, page_cursor: str | None) -> Page[JobRow]:
    """A page of jobs of a tenant, or of one of its users, the newest first. Raises CursorInvalid."""
    limit = bounded(limit)
    parameters: Parameters = {"tenant": tenant, "user_id": user_id, "rows": limit + 1, **after(page_cursor)}
    rows = fetch(
        cursor,
        JobRow,
        f"""SELECT * {utc("created_at", "updated_at")} FROM memory_jobs
        WHERE tenant = $tenant AND ($user_id IS NULL OR user_id = $user_id) AND ($after_time IS NULL
            OR (created_at, job_id) < ($after_time::TIMESTAMPTZ, $after_id::UUID))
        ORDER BY memory_jobs.created_at DESC, job_id DESC LIMIT $rows""",  # noqa: S608
        parameters,
    )
    return page(rows, limit, lambda row: (row.created_at, row.job_id))


def job(cursor: Cursor, tenant: str, job_id: str) -> JobRow | None:
    """One job."""
    return fetch_one(
        cursor,
        JobRow,
        f"""SELECT * {utc("created_at", "updated_at")} FROM memory_jobs
        WHERE tenant = $tenant AND job_id = try_cast($job_id AS UUID)""",  # noqa: S608
        {"tenant": tenant, "job_id": job_id},
    )


def unfinished_jobs(cursor: Cursor, tenant: str, user_id: str, limit: int) -> list[JobRow]:
    """The oldest jobs on a memory that are not done."""
    return fetch(
        cursor,
        JobRow,
        f"""SELECT * {utc("created_at", "updated_at")} FROM memory_jobs
        WHERE tenant = $tenant AND user_id = $user_id AND status IN ('queued', 'running')
        ORDER BY memory_jobs.created_at, job_id LIMIT $limit""",  # noqa: S608
        {"tenant": tenant, "user_id": user_id, "limit": limit},
    )


def unfinished_jobs_of_all(cursor: Cursor, limit: int) -> list[JobRow]:
    """The oldest jobs of every tenant that are not done."""
    return fetch(
        cursor,
        JobRow,
        f"""SELECT * {utc("created_at", "updated_at")} FROM memory_jobs WHERE status IN ('queued', 'running')
        ORDER BY memory_jobs.created_at, job_id LIMIT $limit""",  # noqa: S608
        {"limit": limit},
    )


def owners_of_all(cursor: Cursor) -> list[OwnerOf]:
    """Memories of every tenant, for what is outside of the record."""
    return fetch(cursor, OwnerOf, "SELECT tenant, user_id FROM memory_owners", {})


def owners_behind_of_all(cursor: Cursor, bounds: Bounds, limit: int) -> list[OwnerOf]:
    """Memories of every tenant with turns that are not admitted, a stale summary, too many units, too many that are in
    no summary, or units without any vector.
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
        WHERE last.turn > coalesce(g.turn, -1) AND s.text_dropped_at IS NULL
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
