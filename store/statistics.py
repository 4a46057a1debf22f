"""What a session came to: how much was said by whom, how long it took, and what its models used."""

from datetime import datetime

from msgspec import Struct

from store.fetch import Cursor, Parameters, fetch_one, iso
from store.rows import Role
from store.turns import Gaps, outside

_SPOKEN = '[{"role": "VARCHAR", "content": "VARCHAR", "characters": "INTEGER"}]'
_OF_SESSION = "tenant = $tenant AND session_id = try_cast($session_id AS UUID)"


class SpokenBy(Struct, frozen=True):
    """The messages of one role."""

    role: Role
    messages: int
    characters: int


class CallsUsed(Struct, frozen=True):
    """What the calls of language models took, also those of turns that failed; the cost is null where none is known."""

    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: float | None


class SessionStatistics(Struct, frozen=True):
    """What a session came to. Times are seconds; a mean of nothing is null."""

    turns: int
    started_at: datetime
    finished_at: datetime
    answered_in_s: float | None
    """From the end of a turn to the next message of the user, on average."""
    turn_took_s: float | None
    """From a message of the user to the end of its turn, on average."""
    said: list[SpokenBy]
    used: CallsUsed


def statistics(cursor: Cursor, tenant: str, session_id: str, without: Gaps) -> SessionStatistics | None:
    """What a session came to, in one query; not counting messages of turns `without` which it goes."""
    select = f"""
    WITH theirs AS (
        SELECT turn, started_at, finished_at, messages, message_count,
            contains(messages, '"role":"user","content":') AS answers,
            lag(finished_at) OVER (ORDER BY turn) AS asked_at
        FROM turns WHERE {_OF_SESSION}
    ), spoken AS (
        SELECT unnest(from_json(messages, '{_SPOKEN}'), max_depth := 2) FROM theirs
        WHERE messages <> '[]' {outside(without)}
    ), by_role AS (
        SELECT role, count(*) AS messages, sum(coalesce(spoken.characters, length(content)))::BIGINT AS characters
        FROM spoken GROUP BY role
    ), called AS (
        SELECT * FROM settled_calls WHERE {_OF_SESSION}
        UNION ALL BY NAME
        SELECT * FROM call_journal WHERE {_OF_SESSION}
        QUALIFY row_number() OVER (PARTITION BY call_id ORDER BY ended_at NULLS LAST) = 1
    )
    SELECT count(*) AS turns, {iso("min(started_at)")} AS started_at, {iso("max(finished_at)")} AS finished_at,
        avg({_seconds("asked_at", "started_at")}) FILTER (answers) AS answered_in_s,
        avg({_seconds("started_at", "finished_at")}) FILTER (answers) AS turn_took_s,
        (SELECT coalesce(list(by_role ORDER BY role), []) FROM by_role) AS said,
        (SELECT {{
            'calls': count(*), 'input_tokens': coalesce(sum(input_tokens), 0)::BIGINT,
            'cached_tokens': coalesce(sum(cached_tokens), 0)::BIGINT,
            'output_tokens': coalesce(sum(output_tokens), 0)::BIGINT, 'cost': sum(cost)
        }} FROM called) AS used
    FROM theirs HAVING count(*) > 0"""  # noqa: S608
    parameters: Parameters = {"tenant": tenant, "session_id": session_id}
    return fetch_one(cursor, SessionStatistics, select, parameters)


def _seconds(begin: str, end: str) -> str:
    return f"greatest(0, epoch_us({end}) - epoch_us({begin})) / 1e6"
