"""List sessions by last activity or by creation, filtered, each with its title and a preview of its messages.

The heads of sessions, which are in memory, have what most filters need. A list by activity describes the time of its
first page: of a session that had a turn since, the turn before that time is looked up.
"""

from datetime import datetime

from store.duckdb.connection import DuckDBConnection
from store.duckdb.list_texts import Found, describe
from store.duckdb.session_heads import TABLE
from store.duckdb.statements import Cursor, execute, from_micros, snapshot
from store.interface.list_rows import Order, SessionFilter, SessionListed
from store.interface.pages import Page, bounded
from store.sql.list_pages import CONDITIONS, ListStart, list_page, list_start, set_filters
from store.sql.sessions import LAST_MOVES


def list_sessions(
    connection: DuckDBConnection,
    tenant: str,
    which: SessionFilter | None = None,
    *,
    order: Order = "created",
    limit: int = 50,
    cursor: str | None = None,
) -> Page[SessionListed]:
    """Return a page of sessions, the most recently active or the newest first. Raises CursorInvalid.

    All pages by activity describe the time when the first page was read. So a session that continues meanwhile is on
    exactly one page. A session that is deleted meanwhile is left out.
    """
    which = which or SessionFilter()
    limit = bounded(limit)
    start = list_start(order, cursor)
    reader = connection.cursor
    connection.heads.refresh(reader)
    with snapshot(reader):
        now = _now(reader, tenant)
        if now is None:
            return Page([], None)
        as_of = start.as_of or now
        found = _find(reader, tenant, which, order, start, as_of if as_of < now else None, limit + 1)
        rows = describe(reader, tenant, found[:limit], as_of)
    return list_page(rows, order, has_more=bool(rows) and len(found) > limit)


def _now(reader: Cursor, tenant: str) -> datetime | None:
    """Return the time of the last turn or the last start of a session; None if there is no session."""
    select = f"SELECT epoch_us(max(active_at)) FROM {TABLE} WHERE tenant = ?"  # noqa: S608
    ((micros,),) = execute(reader, select, [tenant]).fetchall()
    return None if micros is None else from_micros(micros)


def _find(
    reader: Cursor,
    tenant: str,
    which: SessionFilter,
    order: Order,
    start: ListStart,
    as_of: datetime | None,
    limit: int,
) -> list[Found]:
    """Return the first `limit` sessions after the start that match, as of a time; None: as they are now."""
    conditions, parameters = set_filters(which, _CONDITIONS)
    conditions.append("latest.tenant = $tenant")
    parameters |= {"tenant": tenant, "limit": limit}
    for number, (name, value) in enumerate(which.metadata):
        pointer = name.replace("~", "~0").replace("/", "~1")
        conditions.append(f"s.metadata ->> $metadata_{number} = $value_{number}")
        parameters |= {f"metadata_{number}": f"/{pointer}", f"value_{number}": value}
    by = "active_at" if order == "activity" else "created_at"
    if start.after_time is not None:
        conditions.append(f"(latest.{by}, latest.session_id) < ($after_time::TIMESTAMPTZ, $after_id::UUID)")
        parameters |= {"after_time": start.after_time.isoformat(), "after_id": str(start.after_id)}
    if as_of is not None:
        parameters["as_of"] = as_of.isoformat()
    joins = _joins(which)
    # the outer SELECT converts the rows of the page only
    select = f"""
    SELECT session_id::VARCHAR, turn, finished_at::VARCHAR, epoch_us(active_at), is_moved FROM (
        SELECT latest.* FROM {f"({_AS_OF})" if as_of is not None else TABLE} AS latest{joins}
        WHERE {" AND ".join(conditions)} ORDER BY latest.{by} DESC, latest.session_id DESC LIMIT $limit
    ) AS page ORDER BY {by} DESC, session_id DESC"""  # noqa: S608
    rows = execute(reader, select, parameters).fetchall()
    return [
        Found(session_id, turn, finished_at, from_micros(micros), is_moved)
        for session_id, turn, finished_at, micros, is_moved in rows
    ]


_AS_OF = f"""
    SELECT * FROM {TABLE} WHERE tenant = $tenant AND active_at <= $as_of::TIMESTAMPTZ
    UNION ALL BY NAME
    SELECT h.* REPLACE (t.turn AS turn, t.finished_at AS finished_at, t.status AS status,
        t.execution_status AS execution_status, greatest(t.active_at, h.created_at) AS active_at)
    FROM {TABLE} AS h JOIN (
        SELECT session_id, max(turn) AS turn, arg_max(finished_at, turn) AS finished_at, max(finished_at) AS active_at,
            arg_max(status, turn) AS status, arg_max(execution_status, turn) AS execution_status
        FROM turns WHERE tenant = $tenant AND finished_at <= $as_of::TIMESTAMPTZ AND session_id IN (
            SELECT session_id FROM {TABLE} WHERE tenant = $tenant AND active_at > $as_of::TIMESTAMPTZ
        ) GROUP BY session_id
    ) AS t USING (session_id)
    WHERE h.tenant = $tenant AND h.created_at <= $as_of::TIMESTAMPTZ"""  # noqa: S608
_CONDITIONS = CONDITIONS | {
    "created_after": "latest.created_at >= $created_after::TIMESTAMPTZ",
    "created_before": "latest.created_at < $created_before::TIMESTAMPTZ",
}
_STARTED = " JOIN session_starts AS s ON s.tenant = $tenant AND s.session_id = latest.session_id"
_MOVED = f"{_STARTED} LEFT JOIN ({LAST_MOVES}) AS m ON m.session_id = latest.session_id"


def _joins(which: SessionFilter) -> str:
    """Return what the filters need besides the heads of sessions. Each join takes time to plan."""
    is_of_script = which.script is not None or which.script_version is not None
    is_of_start = which.metadata or any(value is not None for value in (which.user_id, which.key, which.key_prefix))
    return _MOVED if is_of_script else _STARTED if is_of_start else ""
