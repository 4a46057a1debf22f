"""List sessions by last activity or by creation, filtered, each with its title and a preview of its messages."""

from datetime import datetime
from uuid import UUID

from store.duckdb.fetch import Cursor, Parameters, fetch, utc
from store.duckdb.sql_fragments import GAPS, LAST_MOVES, SCRIPT_NOW, SPOKEN, TITLE, first_of, outside
from store.interface.list_rows import PREVIEW_MESSAGES, WORDS_CHARS_MAX, Order, SessionFilter, SessionListed
from store.interface.pages import Page, bounded, cursor_of, position_of

_TIMES = utc("created_at", "updated_at", "completed_at", "redacted_at", "as_of")


def list_sessions(
    reader: Cursor,
    tenant: str,
    which: SessionFilter | None = None,
    *,
    order: Order = "created",
    limit: int = 50,
    cursor: str | None = None,
) -> Page[SessionListed]:
    """Return a page of sessions, the most recently active or the newest first. Raises CursorInvalid.

    All pages by activity describe the time when the first page was read. So a session that continues meanwhile is on
    exactly one page.
    """
    which = which or SessionFilter()
    limit = bounded(limit)
    parameters = _parameters(which) | _begin(order, cursor)
    parameters |= {"tenant": tenant, "limit": limit + 1}
    rows = fetch(reader, SessionListed, _select(which, order), parameters)
    page_rows = rows[:limit]
    if len(rows) <= limit:
        return Page(page_rows, None)
    last = page_rows[-1]
    if order == "created":
        return Page(page_rows, cursor_of((last.created_at, last.session_id)))
    return Page(page_rows, cursor_of((last.updated_at, last.session_id, last.as_of)))


def _begin(order: Order, page_cursor: str | None) -> Parameters:
    """Return the parameters for the start of a page and for the time that the list describes."""
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


def _filters(which: SessionFilter) -> dict[str, str | int]:
    """Return the filters that are set, except those by metadata."""
    values = {name: getattr(which, name) for name in _CONDITIONS}
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in values.items()
        if value is not None
    }


def _parameters(which: SessionFilter) -> Parameters:
    parameters: Parameters = dict(_filters(which))
    for number, (name, value) in enumerate(which.metadata):
        pointer = name.replace("~", "~0").replace("/", "~1")
        parameters |= {f"metadata_{number}": f"/{pointer}", f"metadata_{number}_value": value}
    return parameters


def _select(which: SessionFilter, order: Order) -> str:
    by = "updated_at" if order == "activity" else "created_at"
    return f"""
    WITH {_page_sessions(which, by)}, {_MESSAGES}
    SELECT * {_TIMES} FROM ({_LISTED}) AS found ORDER BY found.{by} DESC, session_id DESC"""  # noqa: S608


def _page_sessions(which: SessionFilter, by: str) -> str:
    """Return common table expressions; `chosen` has the sessions of the page.

    The latest turn of every session is read, since only turns have activity and status: 6 ms for 500,000 turns.
    """
    filters = [_CONDITIONS[name] for name in _filters(which)]
    filters += [
        f"s.metadata ->> $metadata_{number} = $metadata_{number}_value" for number in range(len(which.metadata))
    ]
    conditions = " AND ".join(["s.tenant = $tenant", *filters])
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
        SELECT s.* REPLACE ({SCRIPT_NOW}), latest.turn,
            greatest(latest.active_at, s.created_at) AS updated_at, f.turn IS NOT NULL AS failing
        FROM session_starts AS s JOIN latest USING (session_id) LEFT JOIN ({LAST_MOVES}) AS m USING (session_id)
        LEFT JOIN failed AS f ON f.session_id = s.session_id AND f.turn = latest.turn
        WHERE {conditions} AND s.created_at <= (SELECT as_of FROM moment)
            AND ($after_time IS NULL OR ({by}, s.session_id) < ($after_time::TIMESTAMPTZ, $after_id::UUID))
        ORDER BY {by} DESC, s.session_id DESC LIMIT $limit
    )"""  # noqa: S608


# The texts of turns are read only for the sessions of the page, because reading them is expensive.
_MESSAGES = f"""
current AS (
    SELECT t.*, {GAPS} AS gaps FROM turns AS t JOIN chosen USING (session_id, turn) WHERE t.tenant = $tenant
), theirs AS (
    SELECT session_id, turn, message_count, messages FROM turns
    WHERE tenant = $tenant AND messages <> '[]'
        AND session_id IN (SELECT session_id FROM chosen WHERE redacted_at IS NULL)
), said AS (
    SELECT session_id, arg_max(t.messages, t.turn) AS latest,
        arg_min(t.messages, t.turn) FILTER (contains(t.messages, '"role":"user","content":')) AS asked,
        arg_min(t.messages, t.turn) FILTER (contains(t.messages, '"role":"assistant","content":')) AS opened
    FROM theirs AS t JOIN current USING (session_id)
    WHERE t.turn <= current.turn AND {outside("current.gaps", "t.message_count")} GROUP BY session_id
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
FROM chosen AS s CROSS JOIN moment JOIN current AS now USING (session_id) LEFT JOIN said USING (session_id)
LEFT JOIN scripts AS script
    ON script.tenant = $tenant AND script.script_uuid = s.script_uuid AND script.version = s.script_version"""  # noqa: S608
