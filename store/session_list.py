"""The list of sessions: by last activity or by creation, filtered, each with its title and a few of its words."""

from datetime import datetime
from typing import Literal, TypeAlias
from uuid import UUID

from msgspec import Struct

from store.fetch import Cursor, Page, Parameters, bounded, cursor_of, fetch, position_of, utc
from store.rows import SessionSummary
from store.shown import GAPS, LAST_MOVES, SPOKEN, TITLE, first_of, outside

Order: TypeAlias = Literal["activity", "created"]

WORDS_CHARS_MAX = 400
"""Characters of a message that a list shows."""
PREVIEW_MESSAGES = 200
"""What a session is about is looked for among its first messages."""
_TIMES = utc("created_at", "updated_at", "completed_at", "text_dropped_at", "as_of")


class SessionFilter(Struct, frozen=True, kw_only=True):
    """Which sessions; null for all. Times are from then on (`after`), and before then (`before`)."""

    user_id: str | None = None
    status: str | None = None
    execution_status: str | None = None
    script: str | None = None
    """The script it runs now, by its uuid or by the id its author gave it."""
    script_version: int | None = None
    key: str | None = None
    key_prefix: str | None = None
    metadata: tuple[tuple[str, str], ...] = ()
    """Names and values that all are in its metadata; what is no text is compared as JSON."""
    created_after: datetime | None = None
    created_before: datetime | None = None
    active_after: datetime | None = None
    active_before: datetime | None = None


class SessionListed(SessionSummary, frozen=True, kw_only=True):
    """A session in a list."""

    title: str
    """Its metadata's `title`, else the name of its script."""
    preview: str | None
    """What its user said first, else what was said to the user; of long texts the beginning."""
    last_message: str | None
    """What was said last; of long texts the beginning."""
    as_of: datetime
    """The list is as it was then: no turn of any session had come after."""


def list_sessions(
    cursor: Cursor, tenant: str, which: SessionFilter, order: Order, limit: int, page_cursor: str | None
) -> Page[SessionListed]:
    """A page of sessions, the last active or the newest first. Raises CursorInvalid.

    Pages by activity are all as the list was when the first was read, so that a session that goes on meanwhile is in
    none of them twice, and in one of them once.
    """
    limit = bounded(limit)
    parameters = _parameters(which) | _begin(order, page_cursor)
    parameters |= {"tenant": tenant, "limit": limit + 1}
    rows = fetch(cursor, SessionListed, _select(which, order), parameters)
    kept = rows[:limit]
    if len(rows) <= limit:
        return Page(kept, None)
    last = kept[-1]
    if order == "created":
        return Page(kept, cursor_of((last.created_at, last.session_id)))
    return Page(kept, cursor_of((last.updated_at, last.session_id, last.as_of)))


def _begin(order: Order, page_cursor: str | None) -> Parameters:
    """Where a page begins, and as of when the list is."""
    if page_cursor is None:
        return {"after_time": None, "after_id": None, "as_of": None}
    if order == "created":
        moment, session_id = position_of(page_cursor, tuple[datetime, UUID])
        as_of = None
    else:
        moment, session_id, as_of = position_of(page_cursor, tuple[datetime, UUID, datetime])
    return {
        "after_time": moment.isoformat(),
        "after_id": str(session_id),
        "as_of": None if as_of is None else as_of.isoformat(),
    }


_CONDITIONS = {
    "user_id": "s.user_id = $user_id",
    "status": "latest.status = $status",
    "execution_status": "CASE WHEN f.turn IS NULL THEN latest.execution_status ELSE 'error' END = $execution_status",
    "script": "$script IN (coalesce(m.script_uuid, s.script_uuid), coalesce(m.script_id, s.script_id))",
    "script_version": "coalesce(m.script_version, s.script_version) = $script_version",
    "key": "s.key = $key",
    "key_prefix": "starts_with(s.key, $key_prefix)",
    "created_after": "s.created_at >= $created_after::TIMESTAMPTZ",
    "created_before": "s.created_at < $created_before::TIMESTAMPTZ",
    "active_after": "updated_at >= $active_after::TIMESTAMPTZ",
    "active_before": "updated_at < $active_before::TIMESTAMPTZ",
}


def _asked(which: SessionFilter) -> dict[str, str | int]:
    """The filters that are set, but for those by metadata."""
    values = {name: getattr(which, name) for name in _CONDITIONS}
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in values.items()
        if value is not None
    }


def _parameters(which: SessionFilter) -> Parameters:
    parameters: Parameters = dict(_asked(which))
    for number, (name, value) in enumerate(which.metadata):
        pointer = name.replace("~", "~0").replace("/", "~1")
        parameters |= {f"metadata_{number}": f"/{pointer}", f"metadata_{number}_value": value}
    return parameters


def _select(which: SessionFilter, order: Order) -> str:
    by = "updated_at" if order == "activity" else "created_at"
    return f"""
    WITH {_chosen(which, by)}, {_SAID}
    SELECT * {_TIMES} FROM ({_LISTED}) AS found ORDER BY found.{by} DESC, session_id DESC"""  # noqa: S608


def _chosen(which: SessionFilter, by: str) -> str:
    """The sessions of the page.

    Every session's latest turn is looked at, since its activity and status stand nowhere else: of 500,000 turns 6 ms.
    """
    wanted = [_CONDITIONS[name] for name in _asked(which)]
    wanted += [f"s.metadata ->> $metadata_{number} = $metadata_{number}_value" for number in range(len(which.metadata))]
    conditions = " AND ".join(["s.tenant = $tenant", *wanted])
    return f"""
    moment AS (
        SELECT coalesce($as_of::TIMESTAMPTZ, greatest(
            (SELECT max(finished_at) FROM turns WHERE tenant = $tenant),
            (SELECT max(created_at) FROM session_starts WHERE tenant = $tenant)
        )) AS as_of
    ), latest AS (
        SELECT session_id, max(turn) AS turn, max(finished_at) AS active_at, arg_max(status, turn) AS status,
            arg_max(execution_status, turn) AS execution_status
        FROM turns WHERE tenant = $tenant AND finished_at <= (SELECT as_of FROM moment) GROUP BY session_id
    ), failed AS (
        SELECT DISTINCT session_id, turn_attempted - 1 AS turn FROM turn_failures WHERE tenant = $tenant
    ), chosen AS (
        SELECT s.* REPLACE (
                coalesce(m.script_uuid, s.script_uuid) AS script_uuid, coalesce(m.script_id, s.script_id) AS script_id,
                coalesce(m.script_version, s.script_version) AS script_version, coalesce(m.digest, s.digest) AS digest
            ),
            latest.turn, greatest(latest.active_at, s.created_at) AS updated_at, f.turn IS NOT NULL AS failing
        FROM session_starts AS s JOIN latest USING (session_id) LEFT JOIN ({LAST_MOVES}) AS m USING (session_id)
        LEFT JOIN failed AS f ON f.session_id = s.session_id AND f.turn = latest.turn
        WHERE {conditions} AND s.created_at <= (SELECT as_of FROM moment)
            AND ($after_time IS NULL OR ({by}, s.session_id) < ($after_time::TIMESTAMPTZ, $after_id::UUID))
        ORDER BY {by} DESC, s.session_id DESC LIMIT $limit
    )"""  # noqa: S608


# The texts of turns are read of the sessions of the page alone.
_SAID = f"""
standing AS (
    SELECT t.*, {GAPS} AS gaps FROM turns AS t JOIN chosen USING (session_id, turn) WHERE t.tenant = $tenant
), theirs AS (
    SELECT session_id, turn, message_count, messages FROM turns
    WHERE tenant = $tenant AND messages <> '[]'
        AND session_id IN (SELECT session_id FROM chosen WHERE text_dropped_at IS NULL)
), said AS (
    SELECT session_id, arg_max(t.messages, t.turn) AS latest,
        arg_min(t.messages, t.turn) FILTER (contains(t.messages, '"role":"user","content":')) AS asked,
        arg_min(t.messages, t.turn) FILTER (contains(t.messages, '"role":"assistant","content":')) AS opened
    FROM theirs AS t JOIN standing USING (session_id)
    WHERE t.turn <= standing.turn AND {outside("standing.gaps", "t.message_count")} GROUP BY session_id
)"""  # noqa: S608
_PREVIEW = (
    f"coalesce({first_of('asked', 'user', PREVIEW_MESSAGES)}, {first_of('opened', 'assistant', PREVIEW_MESSAGES)})"
)
_LISTED = f"""
SELECT s.* EXCLUDE (failing), as_of,
    now.status, CASE WHEN failing THEN 'error' ELSE now.execution_status END AS execution_status,
    now.phase_id, now.topic_id, now.action_id, now.action_type, now.wait_kind, now.message_count, now.event_count,
    CASE WHEN now.status = 'completed' THEN now.finished_at END AS completed_at,
    {TITLE} AS title,
    left({_PREVIEW}, {WORDS_CHARS_MAX}) AS preview,
    left(from_json(said.latest, '{SPOKEN}')[-1].content, {WORDS_CHARS_MAX}) AS last_message
FROM chosen AS s CROSS JOIN moment JOIN standing AS now USING (session_id) LEFT JOIN said USING (session_id)
LEFT JOIN scripts AS script
    ON script.tenant = $tenant AND script.script_uuid = s.script_uuid AND script.version = s.script_version"""  # noqa: S608
