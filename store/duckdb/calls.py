"""Calls of language models: journaled while a turn runs, settled when it is committed, and listed."""

from datetime import datetime

from store.duckdb.fetch import Cursor, Parameters, exists, fetch, fetch_page, utc
from store.duckdb.insert import as_list
from store.interface.encoding import encode
from store.interface.pages import Page
from store.interface.rows import CallRow, SettledCallRow, SpentRow
from store.interface.settlement import Settlement, last_rows, settled_calls

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


def settle(cursor: Cursor, settlements: list[Settlement], insert: str) -> None:
    """Move the journaled calls of these turns' sessions to the settled calls. Within a transaction.

    `insert` is the INSERT statement of the settled calls. The rows pass through Python, because DuckDB 2.0 damaged its
    memory now and then when one INSERT joined, numbered and changed the journal's rows.
    """
    # the columns are compared, not the pair of them: with a list of pairs, DuckDB joins the table
    sessions = " OR ".join(["(tenant = ? AND session_id = ?::UUID)"] * len(settlements))
    values = [value for each in settlements for value in (each.tenant, each.session_id)]
    logged = fetch(cursor, CallRow, f"SELECT * {_TIMES} FROM call_journal WHERE {sessions}", values)  # noqa: S608
    if not logged:
        return
    cursor.execute(insert, [as_list(map(encode, settled_calls(logged, settlements)))])
    cursor.execute(f"DELETE FROM call_journal WHERE {sessions}", values)  # noqa: S608


def unsettled_calls(cursor: Cursor, tenant: str, session_id: str) -> list[CallRow]:
    """Return the last calls that attempts at a session's next turn have made, in order; at most UNSETTLED_MAX."""
    parameters: Parameters = {"tenant": tenant, "session_id": session_id}
    if not exists(cursor, "call_journal", _OF_SESSION, parameters):
        return []
    select = f"SELECT * {_TIMES} FROM call_journal WHERE {_OF_SESSION} ORDER BY number DESC LIMIT {2 * UNSETTLED_MAX}"  # noqa: S608
    logged = fetch(cursor, CallRow, select, parameters)
    return last_rows(logged)[:UNSETTLED_MAX][::-1]


def calls(
    reader: Cursor, tenant: str, session_id: str, *, limit: int = 100, cursor: str | None = None
) -> Page[SettledCallRow]:
    """Return a page of a session's calls, in the order they were made. Prompts and replies are returned for settled
    calls only."""
    select = f"""
        SELECT * {_TIMES} FROM (
            SELECT * FROM settled_calls WHERE {_OF_SESSION}
            UNION ALL BY NAME SELECT * REPLACE (NULL::JSON AS reply) FROM ({journaled(_OF_SESSION)})
        ) AS found
        WHERE $after_time IS NULL OR (started_at, call_id) > ($after_time::TIMESTAMPTZ, $after_id)
        ORDER BY found.started_at, call_id LIMIT $limit"""  # noqa: S608
    parameters: Parameters = {"tenant": tenant, "session_id": session_id}
    return fetch_page(
        reader, SettledCallRow, select, parameters, limit, cursor, lambda row: (row.started_at, row.call_id)
    )


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
