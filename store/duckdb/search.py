"""Full-text search: find the messages that contain all words, the most recent first.

There is no index. The JSON of every turn is matched against a regular expression for each word, newest first, and
DuckDB stops when it has enough turns: 3 ms for a common word, 70 ms for a word that is in none of 1,000,000 messages.
Only the messages of the matching turns are decoded and matched exactly.
"""

from functools import partial

import msgspec

from store.duckdb.statements import Cursor, fetch
from store.interface.list_rows import SearchFilter
from store.interface.rows import Role
from store.memory.filters_sql import exact_pattern
from store.sql.message_search import Candidate, Position, search_conditions, search_page
from store.sql.sessions import LAST_MOVES


def _candidates(cursor: Cursor, tenant: str, what: SearchFilter, start: Position | None, batch: int) -> list[Candidate]:
    conditions, parameters = search_conditions(tenant, what, start, batch)
    for number, word in enumerate(what.words):
        # first anywhere in the JSON of a turn: cheap, and misses no match
        conditions += [f"regexp_matches(messages, $stored_{number})", f"regexp_matches(messages, $within_{number})"]
        parameters |= {f"stored_{number}": f"(?i){_escape(word)}", f"within_{number}": _within(word, what.role)}
    return fetch(cursor, Candidate, _select(" AND ".join(conditions)), parameters)


search = partial(search_page, _candidates)


def _select(conditions: str) -> str:
    return f"""
    WITH candidates AS (
        SELECT session_id, user_id, turn, finished_at, messages, message_count FROM turns WHERE {conditions}
        ORDER BY finished_at DESC, session_id DESC, turn DESC LIMIT $batch
    ), latest AS (
        SELECT session_id, max(turn) AS turn FROM turns
        WHERE tenant = $tenant AND session_id IN (SELECT session_id FROM candidates) GROUP BY session_id
    ), current AS (
        SELECT t.session_id, {_GAPS} AS gaps
        FROM turns AS t JOIN latest USING (session_id, turn) WHERE t.tenant = $tenant
    )
    SELECT c.session_id, c.user_id, s.key, {_TITLE} AS title, c.turn, c.finished_at, c.messages,
        len(list_filter(current.gaps, lambda gap: c.message_count BETWEEN gap[1] AND gap[2])) = 0 AS is_outside
    FROM candidates AS c JOIN current USING (session_id)
    JOIN session_starts AS s ON s.tenant = $tenant AND s.session_id = c.session_id
    LEFT JOIN ({LAST_MOVES}) AS m ON m.session_id = c.session_id {_SCRIPT}
    ORDER BY c.finished_at DESC, c.session_id DESC, c.turn DESC"""  # noqa: S608


_SCRIPT = """
LEFT JOIN scripts AS script
    ON script.tenant = $tenant AND script.script_uuid = coalesce(m.script_uuid, s.script_uuid)
    AND script.version = coalesce(m.script_version, s.script_version)"""
"""Joins the version of the script that a session `s` runs now; `m` is its last migration."""

_TITLE = "coalesce(nullif(trim(s.metadata ->> '$.title'), ''), nullif(script.name, ''), s.script_id)"
"""The title of a session: `title` in its metadata, otherwise the name of its script."""

# The only field of a state that the store reads. Both ends of a gap are at the bounds of turns.
_GAPS = """coalesce(from_json(t.state -> '$.gaps', '[["INTEGER"]]'), [])"""
"""First and last numbers of the ranges of messages that are no longer in the conversation after turn `t`."""


# -- regular expressions --------------------------------------------------------------------------------------------


def _within(word: str, role: Role | None) -> str:
    """Return a regular expression that finds a word in the text of a message, not in names and ids of the JSON."""
    role_field = "" if role is None else f'"role":"{role}",'
    return rf'{role_field}"content":"(?:[^"\\]|\\.)*(?i:{_escape(word)})'


def _escape(word: str) -> str:
    """Return an RE2 regular expression that matches exactly this word as the encoder of the rows escapes it."""
    return exact_pattern(msgspec.json.encode(word)[1:-1].decode())
