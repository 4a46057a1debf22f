"""Calls of language models: journaled while a turn runs, settled when it is committed, and listed."""

from datetime import datetime

from store.duckdb.fetch import Cursor, Parameters, fetch, fetch_page, utc
from store.duckdb.insert import as_list
from store.interface.encoding import encode
from store.interface.pages import Page
from store.interface.rows import CallRow, SpentRow
from store.interface.turn_group import Settlement

UNSETTLED_MAX = 500
"""Maximum number of calls of one turn that are read: the latest ones."""

_OF_SESSION = "tenant = $tenant AND session_id = try_cast($session_id AS UUID)"
_TIMES = utc("started_at", "ended_at")


def journaled(which: str = "true") -> str:
    """Return SQL for the journaled calls that meet a condition, each once, with its result if it has one.

    A condition around the SELECT would be slow, because DuckDB does not push a filter down through the window.
    """
    return f"""SELECT * FROM call_journal WHERE {which}
        QUALIFY row_number() OVER (PARTITION BY call_id ORDER BY call_journal.ended_at NULLS LAST) = 1"""  # noqa: S608


def settle(cursor: Cursor, settlements: list[Settlement]) -> None:
    """Move the journaled calls of these turns' sessions to the settled calls. Within a transaction."""
    parameter = [as_list(map(encode, settlements))]
    cursor.execute(_SETTLE, parameter)
    cursor.execute(_CLEAR, parameter)


def unsettled_calls(cursor: Cursor, tenant: str, session_id: str) -> list[CallRow]:
    """Return the last calls that attempts at a session's next turn have made, in order; at most UNSETTLED_MAX."""
    parameters: Parameters = {"tenant": tenant, "session_id": session_id}
    # Nearly all sessions have none, and the statement below takes five times as long as this one.
    if not cursor.execute(f"SELECT true FROM call_journal WHERE {_OF_SESSION} LIMIT 1", parameters).fetchall():  # noqa: S608
        return []
    select = f"SELECT * {_TIMES} FROM ({journaled(_OF_SESSION)}) AS logged ORDER BY number DESC LIMIT {UNSETTLED_MAX}"  # noqa: S608
    return fetch(cursor, CallRow, select, parameters)[::-1]


def calls(
    reader: Cursor, tenant: str, session_id: str, *, limit: int = 100, cursor: str | None = None
) -> Page[CallRow]:
    """Return a page of a session's calls, in the order they were made. Replies are returned for settled calls only."""
    select = f"""
        SELECT * {_TIMES} FROM (
            SELECT * FROM settled_calls WHERE {_OF_SESSION}
            UNION ALL BY NAME SELECT * REPLACE (NULL::JSON AS reply) FROM ({journaled(_OF_SESSION)})
        ) AS found
        WHERE $after_time IS NULL OR (started_at, call_id) > ($after_time::TIMESTAMPTZ, $after_id)
        ORDER BY found.started_at, call_id LIMIT $limit"""  # noqa: S608
    parameters: Parameters = {"tenant": tenant, "session_id": session_id}
    return fetch_page(reader, CallRow, select, parameters, limit, cursor, lambda row: (row.started_at, row.call_id))


def spent(cursor: Cursor, tenant: str, since: datetime, until: datetime, user_id: str | None = None) -> SpentRow:
    """Return the usage of a tenant's or one user's calls that started in a time range, including calls for memory."""
    # calls of tools have no tokens and no price, and budgets count calls of models
    which = """purpose != 'tool' AND tenant = $tenant
        AND started_at >= $since::TIMESTAMPTZ AND started_at < $until::TIMESTAMPTZ
        AND ($user_id IS NULL OR user_id = $user_id)"""
    select = f"""
        SELECT count(*) FILTER (attempts IS DISTINCT FROM 0) AS calls,
            coalesce(sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)), 0)::BIGINT AS tokens,
            coalesce(sum(cost), 0)::DOUBLE AS cost
        FROM (
            SELECT * FROM settled_calls WHERE {which} UNION ALL BY NAME {journaled(which)}
            UNION ALL BY NAME SELECT * FROM memory_calls WHERE {which}
        )"""  # noqa: S608
    between: Parameters = {"since": since.isoformat(), "until": until.isoformat()}
    return fetch(cursor, SpentRow, select, between | {"tenant": tenant, "user_id": user_id})[0]


_SETTLING = """
SELECT unnest(from_json_strict(?::JSON, '[{"tenant": "VARCHAR", "session_id": "UUID", "turn": "INTEGER",
    "used": ["VARCHAR"], "withheld": ["VARCHAR"]}]'), max_depth := 2)
"""
_WITHHELD = """(
    (list_contains(settling.withheld, logged.call_id) OR NOT list_contains(settling.used, logged.call_id))
    AND concat(logged.reply ->> 'text', logged.reply ->> 'raw') != ''
)"""
_SETTLE = f"""
INSERT INTO settled_calls BY NAME
SELECT logged.* REPLACE (
    settling.turn AS turn,
    list_contains(settling.used, logged.call_id) AS used,
    {_WITHHELD} AS withheld,
    CASE WHEN {_WITHHELD} THEN json_merge_patch(logged.reply, '{{"text": "", "raw": ""}}')
        ELSE logged.reply END AS reply
)
FROM ({journaled()}) AS logged
JOIN ({_SETTLING}) AS settling USING (tenant, session_id)
"""  # noqa: S608
_CLEAR = f"""
DELETE FROM call_journal USING ({_SETTLING}) AS settling
WHERE call_journal.tenant = settling.tenant AND call_journal.session_id = settling.session_id
"""  # noqa: S608
