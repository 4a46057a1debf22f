"""List sessions by last activity or by creation, filtered, each with its title and a preview of its messages.

A page needs few of many sessions, and most of the time it takes to find the latest turn of each session. So a page is
looked for among the sessions that were active or created shortly before it, then among more, then among all.
"""

from collections.abc import Iterator
from datetime import datetime

from store.duckdb.fetch import Cursor, from_micros, snapshot
from store.duckdb.list_texts import Found, describe
from store.interface.list_rows import Order, SessionFilter, SessionListed
from store.interface.pages import Page, bounded
from store.sql.connection import Scalar
from store.sql.list_pages import ListStart, list_page, list_start
from store.sql.sessions import LAST_MOVES

REACH_ROWS = 1_024
"""A page is looked for in the time of so many turns, or of so many starts of sessions, first."""
REACH_FACTOR = 16
"""Then in a time that is so many times as long, then in all."""


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
    start = list_start(order, cursor)
    with snapshot(reader):
        as_of = start.as_of or _now(reader, tenant)
        if as_of is None:
            return Page([], None)
        found = _find(reader, tenant, which, order, start, as_of, limit + 1)
        rows = describe(reader, tenant, found[:limit], as_of)
    return list_page(rows, order, has_more=len(found) > limit)


def _now(reader: Cursor, tenant: str) -> datetime | None:
    """Return the time of the last turn or the last start of a session; None if there is no session."""
    ((micros,),) = reader.execute(
        """SELECT epoch_us(greatest(
            (SELECT max(finished_at) FROM turns WHERE tenant = $tenant),
            (SELECT max(created_at) FROM session_starts WHERE tenant = $tenant)))""",
        {"tenant": tenant},
    ).fetchall()
    return None if micros is None else from_micros(micros)


def _find(
    reader: Cursor, tenant: str, which: SessionFilter, order: Order, start: ListStart, as_of: datetime, limit: int
) -> list[Found]:
    """Return the first `limit` sessions after the start that match."""
    until = as_of if start.after_time is None else min(as_of, start.after_time)
    parameters: dict[str, Scalar] = {
        "tenant": tenant,
        "as_of": as_of.isoformat(),
        "after_time": None if start.after_time is None else start.after_time.isoformat(),
        "after_id": None if start.after_id is None else str(start.after_id),
        "limit": limit,
    }
    parameters |= _parameters(which)
    for since in _reaches(reader, tenant, which, order, until):
        bounds: dict[str, Scalar] = {} if since is None else {"since": since.isoformat(), "until": until.isoformat()}
        select = _select(which, order, is_bounded=since is not None)
        rows = reader.execute(select, parameters | bounds).fetchall()
        if len(rows) == limit or since is None:
            break
    return [Found(session_id, row_number, from_micros(micros)) for session_id, row_number, micros, *_ in rows]


def _reaches(
    reader: Cursor, tenant: str, which: SessionFilter, order: Order, until: datetime
) -> Iterator[datetime | None]:
    """Yield earlier and earlier times; all sessions that match and are later are read. None for the last one.

    The times decide only how much is read.
    """
    table, moment = ("session_starts", "created_at") if order == "created" else ("turns", "finished_at")
    if not _is_selective(which):
        rows = reader.execute(
            f"""SELECT epoch_us({moment}) FROM {table} WHERE tenant = $tenant AND {moment} <= $until::TIMESTAMPTZ
            ORDER BY {moment} DESC LIMIT 1 OFFSET {REACH_ROWS}""",  # noqa: S608
            {"tenant": tenant, "until": until.isoformat()},
        ).fetchall()
        for (micros,) in rows:
            since = from_micros(micros)
            yield since
            yield until - REACH_FACTOR * (until - since)
    yield None


_CONDITIONS = {
    "user_id": "s.user_id = $user_id",
    "status": "latest.status = $status",
    "execution_status": "CASE WHEN f.turn IS NULL THEN latest.execution_status ELSE 'error' END = $execution_status",
    "outcome": "ended.state ->> '$.outcome' = $outcome",
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


def _parameters(which: SessionFilter) -> dict[str, Scalar]:
    parameters: dict[str, Scalar] = dict(_filters(which))
    for number, (name, value) in enumerate(which.metadata):
        pointer = name.replace("~", "~0").replace("/", "~1")
        parameters |= {f"metadata_{number}": f"/{pointer}", f"metadata_{number}_value": value}
    return parameters


_SELECTIVE = ("user_id", "key", "key_prefix")
"""Filters that few sessions match: only these sessions are read, wherever they are."""


def _is_selective(which: SessionFilter) -> bool:
    return any(getattr(which, name) is not None for name in _SELECTIVE)


def _candidates(which: SessionFilter, order: Order, *, is_bounded: bool) -> str:
    """Return the SELECT of sessions among which all that match are, as far back as `$since`; empty for all sessions.

    A session was active at the time of one of its turns or when it was created.
    """
    conditions = [_CONDITIONS[name] for name in _SELECTIVE if getattr(which, name) is not None]
    span = "BETWEEN $since::TIMESTAMPTZ AND $until::TIMESTAMPTZ"
    started = "SELECT session_id FROM session_starts AS s WHERE s.tenant = $tenant"
    if conditions:
        return f"{started} AND {' AND '.join(conditions)}"
    if not is_bounded:
        return ""
    if order == "created":
        return f"{started} AND created_at {span}"
    return f"""{started} AND created_at {span}
        UNION SELECT session_id FROM turns WHERE tenant = $tenant AND finished_at {span}"""  # noqa: S608


_MOVED = f" LEFT JOIN ({LAST_MOVES}) AS m USING (session_id)"
_FAILED = """ LEFT JOIN (
            SELECT DISTINCT session_id, turn_attempted - 1 AS turn FROM turn_failures WHERE tenant = $tenant
        ) AS f ON f.session_id = s.session_id AND f.turn = latest.turn"""
_ENDED = " JOIN turns AS ended ON ended.rowid = latest.row_number"
_JOINS = {"script": _MOVED, "script_version": _MOVED, "execution_status": _FAILED, "outcome": _ENDED}
"""What a filter needs besides the start and the latest turn of a session. Each join takes time to plan."""


def _select(which: SessionFilter, order: Order, *, is_bounded: bool) -> str:
    """Return the SELECT of the sessions of a page. Only turns have activity and status."""
    by = "updated_at" if order == "activity" else "created_at"
    names = _filters(which)
    filters = [_CONDITIONS[name] for name in names]
    filters += [
        f"s.metadata ->> $metadata_{number} = $metadata_{number}_value" for number in range(len(which.metadata))
    ]
    filters += [f"{by} >= $since::TIMESTAMPTZ"] * is_bounded
    joins = "".join(dict.fromkeys(_JOINS[name] for name in names if name in _JOINS))
    candidates = _candidates(which, order, is_bounded=is_bounded)
    return f"""
    WITH latest AS (
        SELECT session_id, max(turn) AS turn, arg_max(rowid, turn) AS row_number, max(finished_at) AS active_at,
            arg_max(status, turn) AS status, arg_max(execution_status, turn) AS execution_status
        FROM turns {f"SEMI JOIN ({candidates}) AS candidates USING (session_id)" if candidates else ""}
        WHERE tenant = $tenant AND finished_at <= $as_of::TIMESTAMPTZ GROUP BY session_id
    )
    SELECT s.session_id::VARCHAR, latest.row_number, epoch_us(greatest(latest.active_at, s.created_at)) AS micros,
        greatest(latest.active_at, s.created_at) AS updated_at
    FROM session_starts AS s JOIN latest USING (session_id){joins}
    WHERE {" AND ".join(["s.tenant = $tenant", *filters])} AND s.created_at <= $as_of::TIMESTAMPTZ
        AND ($after_time IS NULL OR ({by}, s.session_id) < ($after_time::TIMESTAMPTZ, $after_id::UUID))
    ORDER BY {by} DESC, s.session_id DESC LIMIT $limit"""  # noqa: S608
