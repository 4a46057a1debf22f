"""Read the head of a session, and list sessions by last activity or by creation, filtered, each with its title and a
preview of its messages.

The heads of sessions have what most filters need.
"""

from datetime import datetime
from functools import partial

import msgspec

from store.interface.list_rows import ListedSession, Order, SessionFilter
from store.interface.rows import PositionRow, SessionHead, SessionSummary
from store.postgres.connection import PostgresConnection
from store.sql.connection import fetch_one, of_session
from store.sql.list_pages import ListStart, ListTexts, list_conditions, list_page


class _PageSession(msgspec.Struct, frozen=True):
    """A session of the page: its turn and last activity."""

    session_id: str
    turn: int
    updated_at: datetime


class _DescribedSession(SessionSummary, frozen=True, kw_only=True):
    """A session of the page, with the messages of three of its turns."""

    title: str
    last: str | None
    asked: str | None
    opened: str | None


MOVE = """LEFT JOIN LATERAL (
        SELECT script_uuid, script_id, script_version, digest FROM session_migrations
        WHERE tenant = s.tenant AND session_id = s.session_id ORDER BY turn DESC LIMIT 1
    ) AS m ON true"""
"""Joins the last migration `m` of a session `s`."""
SCRIPT = """LEFT JOIN scripts AS script ON script.tenant = s.tenant
    AND script.script_uuid = coalesce(m.script_uuid, s.script_uuid)
    AND script.version = coalesce(m.script_version, s.script_version)"""
"""Joins the version of the script that a session `s` runs now."""
TITLE = "coalesce(nullif(trim(s.metadata ->> 'title'), ''), nullif(script.name, ''), s.script_id) AS title"
_SESSION = """s.tenant, s.session_id, s.user_id, s.key, coalesce(m.script_uuid, s.script_uuid) AS script_uuid,
    coalesce(m.script_id, s.script_id) AS script_id, coalesce(m.script_version, s.script_version) AS script_version,
    coalesce(m.digest, s.digest) AS digest, s.locale, s.seed, s.metadata, s.created_at, s.idempotency_key,
    s.redacted_at, t.turn, t.message_count, t.event_count,
    CASE WHEN t.status = 'completed' THEN greatest(t.finished_at, s.created_at) END AS completed_at"""
"""Columns of a session `s` with the turn `t` and the last migration `m`."""
_HEAD = f"""
SELECT {_SESSION}, {", ".join(f"t.{name}" for name in PositionRow.__struct_fields__)}, t.state,
    greatest(t.finished_at, s.created_at) AS updated_at
FROM session_starts AS s
JOIN session_heads AS h ON h.tenant = s.tenant AND h.session_id = s.session_id
JOIN turns AS t ON t.tenant = h.tenant AND t.session_id = h.session_id AND t.turn = h.turn
{MOVE}
WHERE s.tenant = $tenant AND s.session_id = $session_id::UUID
"""  # noqa: S608


def session_head(connection: PostgresConnection, tenant: str, session_id: str) -> SessionHead | None:
    """Return a session with the state after its latest turn; None also for an id that is not a UUID."""
    return fetch_one(connection, SessionHead, _HEAD, of_session(tenant, session_id))


def _find(
    connection: PostgresConnection, tenant: str, which: SessionFilter, order: Order, start: ListStart | None, limit: int
) -> list[_PageSession]:
    """Return the first `limit` sessions after the start that match."""
    by = ("latest.active_at", "latest.session_id") if order == "activity" else ("s.created_at", "s.session_id")
    conditions, parameters = list_conditions(tenant, which, start, by)
    moved = MOVE if which.script is not None or which.script_version is not None else ""
    select = f"""
        SELECT s.session_id, latest.turn, latest.active_at AS updated_at FROM session_heads AS latest
        JOIN session_starts AS s ON s.tenant = $tenant AND s.session_id = latest.session_id {moved}
        WHERE {conditions} ORDER BY {by[0]} DESC, s.session_id DESC LIMIT $limit"""  # noqa: S608
    # filters select few or nearly all sessions
    return connection.fetch(_PageSession, select, parameters | {"limit": limit}, prepare=False)


_POSITION = ", ".join(f"t.{name}" for name in PositionRow.__struct_fields__ if name != "execution_status")
_SAID = """(SELECT x.messages::text FROM turns AS x WHERE x.tenant = s.tenant AND x.session_id = s.session_id
    AND s.redacted_at IS NULL AND x.messages::text <> '[]' AND NOT EXISTS (
        SELECT 1 FROM json_array_elements(h.gaps) AS gap
        WHERE x.message_count BETWEEN (gap ->> 0)::INTEGER AND (gap ->> 1)::INTEGER
    )"""


def _first(role: str) -> str:
    return f"""{_SAID} AND strpos(x.messages::text, '"role":"{role}","content":') > 0 ORDER BY x.turn LIMIT 1)"""


_DESCRIBED = f"""
SELECT {_SESSION}, {_POSITION},
    CASE WHEN EXISTS (
        SELECT 1 FROM turn_failures AS f WHERE f.tenant = s.tenant AND f.session_id = s.session_id
            AND f.turn_attempted - 1 = t.turn
    ) THEN 'error' ELSE t.execution_status END AS execution_status,
    listed.updated_at, {TITLE},
    {_SAID} ORDER BY x.turn DESC LIMIT 1) AS last, {_first("user")} AS asked, {_first("assistant")} AS opened
FROM (SELECT unnest($sessions::UUID[]) AS session_id, unnest($turns::INTEGER[]) AS turn,
    unnest($times::TIMESTAMPTZ[]) AS updated_at, generate_series(1, $count) AS place) AS listed
JOIN session_starts AS s ON s.tenant = $tenant AND s.session_id = listed.session_id
JOIN session_heads AS h ON h.tenant = $tenant AND h.session_id = listed.session_id
JOIN turns AS t ON t.tenant = $tenant AND t.session_id = listed.session_id AND t.turn = listed.turn
{MOVE}
{SCRIPT}
ORDER BY listed.place
"""  # noqa: S608


def _describe(connection: PostgresConnection, tenant: str, found: list[_PageSession]) -> list[ListedSession]:
    """Return the sessions of a page in the same order."""
    if not found:
        return []
    rows = connection.fetch(
        _DescribedSession,
        _DESCRIBED,
        {
            "tenant": tenant,
            "sessions": [each.session_id for each in found],
            "turns": [each.turn for each in found],
            "times": [each.updated_at for each in found],
            "count": len(found),
        },
    )
    return [_list_entry(row) for row in rows]


def _list_entry(row: _DescribedSession) -> ListedSession:
    texts = ListTexts(row.last, row.asked, row.opened)
    columns = {name: getattr(row, name) for name in SessionSummary.__struct_fields__}
    return ListedSession(**columns, title=row.title, preview=texts.preview(), last_message=texts.last_message())


list_sessions = partial(list_page, _find, _describe)
