"""Calls of language models: kept in the journal while a turn runs, settled when it is committed, and read again."""

from datetime import datetime

import msgspec

from store.fetch import Cursor, Page, Parameters, after, bounded, fetch, page, utc
from store.insert import as_list, encode
from store.rows import CallRow, SpentRow

UNSETTLED_MAX = 500
"""Calls of one turn that are read again: the latest."""

_OF_SESSION = "tenant = $tenant AND session_id = try_cast($session_id AS UUID)"
_TIMES = utc("started_at", "ended_at")


class Settlement(msgspec.Struct, frozen=True):
    """A turn that settles what its session's journal holds; `used` are the ids of those calls it was taken with, and
    `withheld` of those whose words were not said after all. They are not kept, nor those of calls that were not used.
    """

    tenant: str
    session_id: str
    turn: int
    used: tuple[str, ...]
    withheld: tuple[str, ...] = ()


def settle(cursor: Cursor, settlements: list[Settlement]) -> None:
    """Moves what the journal holds of these turns' sessions to the settled calls. Within a transaction."""
    parameter = [as_list(map(encode, settlements))]
    cursor.execute(_SETTLE, parameter)
    cursor.execute(_CLEAR, parameter)


def unsettled_calls(cursor: Cursor, tenant: str, session_id: str) -> list[CallRow]:
    """The last calls of attempts at a session's next turn, in their order."""
    select = f"""
        SELECT * {_TIMES} FROM call_journal WHERE {_OF_SESSION}
        QUALIFY row_number() OVER (PARTITION BY call_id ORDER BY call_journal.ended_at NULLS LAST) = 1
        ORDER BY number DESC LIMIT {UNSETTLED_MAX}"""  # noqa: S608
    return fetch(cursor, CallRow, select, {"tenant": tenant, "session_id": session_id})[::-1]


def calls(cursor: Cursor, tenant: str, session_id: str, limit: int, page_cursor: str | None) -> Page[CallRow]:
    """A page of a session's calls, in the order they were made; a reply is shown once the turn is taken with it."""
    # The condition stands in both parts of the view: through its window no filter is pushed down.
    select = f"""
        SELECT * {_TIMES} FROM (
            SELECT * FROM settled_calls WHERE {_OF_SESSION}
            UNION ALL BY NAME
            SELECT * REPLACE (NULL::JSON AS reply) FROM call_journal WHERE {_OF_SESSION}
            QUALIFY row_number() OVER (PARTITION BY call_id ORDER BY ended_at NULLS LAST) = 1
        ) AS found
        WHERE $after_time IS NULL OR (started_at, call_id) > ($after_time::TIMESTAMPTZ, $after_id)
        ORDER BY found.started_at, call_id LIMIT $limit"""  # noqa: S608
    limit = bounded(limit)
    parameters: Parameters = {"tenant": tenant, "session_id": session_id, "limit": limit + 1}
    rows = fetch(cursor, CallRow, select, parameters | after(page_cursor))
    return page(rows, limit, lambda row: (row.started_at, row.call_id))


def spent(cursor: Cursor, tenant: str, since: datetime, until: datetime, user_id: str | None) -> SpentRow:
    """What a tenant's calls, or one user's, took that were begun within a time, those for memories among them."""
    which = """tenant = $tenant AND started_at >= $since::TIMESTAMPTZ AND started_at < $until::TIMESTAMPTZ
        AND ($user_id IS NULL OR user_id = $user_id)"""
    select = f"""
        SELECT count(*) FILTER (attempts IS DISTINCT FROM 0) AS calls,
            coalesce(sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)), 0)::BIGINT AS tokens,
            coalesce(sum(cost), 0)::DOUBLE AS cost
        FROM (
            SELECT * FROM settled_calls WHERE {which}
            UNION ALL BY NAME
            SELECT * FROM call_journal WHERE {which}
            QUALIFY row_number() OVER (PARTITION BY call_id ORDER BY ended_at NULLS LAST) = 1
            UNION ALL BY NAME
            SELECT * FROM memory_calls WHERE {which}
        )"""  # noqa: S608
    parameters: Parameters = {
        "tenant": tenant,
        "user_id": user_id,
        "since": since.isoformat(),
        "until": until.isoformat(),
    }
    return fetch(cursor, SpentRow, select, parameters)[0]


_SETTLING = """
SELECT unnest(from_json_strict(?::JSON, '[{"tenant": "VARCHAR", "session_id": "UUID", "turn": "INTEGER",
    "used": ["VARCHAR"], "withheld": ["VARCHAR"]}]'), max_depth := 2)
"""
_WITHHELD = """(
    (list_contains(settling.withheld, kept.call_id) OR NOT list_contains(settling.used, kept.call_id))
    AND concat(kept.reply ->> 'text', kept.reply ->> 'raw') != ''
)"""
_SETTLE = f"""
INSERT INTO settled_calls BY NAME
SELECT kept.* REPLACE (
    settling.turn AS turn,
    list_contains(settling.used, kept.call_id) AS used,
    {_WITHHELD} AS withheld,
    CASE WHEN {_WITHHELD} THEN json_merge_patch(kept.reply, '{{"text": "", "raw": ""}}') ELSE kept.reply END AS reply
)
FROM (
    SELECT * FROM call_journal QUALIFY row_number() OVER (PARTITION BY call_id ORDER BY ended_at NULLS LAST) = 1
) AS kept
JOIN ({_SETTLING}) AS settling USING (tenant, session_id)
"""  # noqa: S608
_CLEAR = f"""
DELETE FROM call_journal USING ({_SETTLING}) AS settling
WHERE call_journal.tenant = settling.tenant AND call_journal.session_id = settling.session_id
"""  # noqa: S608
