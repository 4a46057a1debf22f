"""Session statistics: messages per role, durations, and the usage of language models."""

from store.duckdb.fetch import fetch_one
from store.duckdb.statements import Cursor
from store.interface.rows import Gaps
from store.interface.statistics_rows import SessionStatistics
from store.sql.calls import journaled
from store.sql.connection import OF_SESSION, of_session
from store.sql.turns import outside

_SPOKEN = '[{"role": "VARCHAR", "content": "VARCHAR", "characters": "INTEGER"}]'


def statistics(cursor: Cursor, tenant: str, session_id: str, *, without: Gaps = ()) -> SessionStatistics | None:
    """Return the statistics of a session, without the messages in the ranges `without`; in one query."""
    select = f"""
    WITH theirs AS (
        SELECT turn, started_at, finished_at, messages, message_count,
            contains(messages, '"role":"user","content":') AS answers,
            lag(finished_at) OVER (ORDER BY turn) AS asked_at
        FROM turns WHERE {OF_SESSION}
    ), spoken AS (
        SELECT unnest(from_json(messages, '{_SPOKEN}'), max_depth := 2) FROM theirs
        WHERE messages <> '[]' {outside(without)}
    ), by_role AS (
        SELECT role, count(*) AS messages, sum(coalesce(spoken.characters, length(content)))::BIGINT AS characters
        FROM spoken GROUP BY role
    ), called AS (
        SELECT * FROM (
            SELECT * FROM settled_calls WHERE {OF_SESSION} UNION ALL BY NAME {journaled("*", OF_SESSION)}
        ) AS every WHERE purpose != 'tool'
    )
    SELECT count(*) AS turns, min(started_at) AS started_at, max(finished_at) AS finished_at,
        avg({_seconds("asked_at", "started_at")}) FILTER (answers AND asked_at IS NOT NULL) AS answered_in_s,
        avg({_seconds("started_at", "finished_at")}) FILTER (answers) AS turn_took_s,
        (SELECT coalesce(list(by_role ORDER BY role), []) FROM by_role) AS said,
        (SELECT {{
            'calls': count(*), 'input_tokens': coalesce(sum(input_tokens), 0)::BIGINT,
            'cached_tokens': coalesce(sum(cached_tokens), 0)::BIGINT,
            'output_tokens': coalesce(sum(output_tokens), 0)::BIGINT, 'cost': sum(cost)
        }} FROM called) AS used
    FROM theirs HAVING count(*) > 0"""  # noqa: S608
    return fetch_one(cursor, SessionStatistics, select, of_session(tenant, session_id))


def _seconds(begin: str, end: str) -> str:
    return f"greatest(0, epoch_us({end}) - epoch_us({begin})) / 1e6"
