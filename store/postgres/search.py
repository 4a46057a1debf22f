"""Full-text search: find the messages that contain all words, the most recent first.

There is no index of words. What is said in the newest turns is compared with each word, then that of more of them,
until there are enough turns; the messages of these turns are decoded and matched exactly.
"""

from functools import partial

from store.interface.list_rows import SearchFilter
from store.postgres.connection import PostgresConnection
from store.postgres.derived_rows import without_case
from store.postgres.sessions import MOVE, SCRIPT, TITLE
from store.sql.message_search import CONDITIONS, OF_SCRIPT, Candidate, Position, search_conditions, search_page

WINDOWS = (4_000, 32_000, None)
"""How many of the newest turns are searched; None: all, which PostgreSQL may then read in any order. It cannot know how
many of them have a word, and would read all for a word that is in every second turn."""
FEW = 1_000
"""The turns of a script with at most this number of sessions are read by the ids of the sessions; those of other
scripts are filtered from the newest turns. PostgreSQL takes every script for a rare one, so it must not see that it
could join (`IS TRUE`)."""


def _candidates(
    connection: PostgresConnection, tenant: str, what: SearchFilter, start: Position | None, batch: int
) -> list[Candidate]:
    conditions, parameters = search_conditions(tenant, what, start, batch, _CONDITIONS)
    words = []
    for number, word in enumerate(what.words):
        words.append(f"position($word_{number} IN t.content) > 0")
        parameters[f"word_{number}"] = without_case(word)
    found: list[Candidate] = []
    is_narrow = what.user_id is not None or what.session_id is not None  # an index finds these few turns
    if what.script is not None and not is_narrow:
        is_narrow = _has_few(connection, tenant, what.script)
        if not is_narrow:
            conditions[conditions.index(_CONDITIONS["script"])] = f"({_CONDITIONS['script']}) IS TRUE"
    for window in (None,) if is_narrow else WINDOWS:
        newest = "" if window is None else f"{_ORDER} LIMIT {window}"
        select = _SELECT.format(conditions=" AND ".join(conditions), newest=newest, words=" AND ".join(words) or "true")
        found = connection.fetch(Candidate, select, parameters, prepare=False)
        if len(found) == batch:
            break
    return found


search = partial(search_page, _candidates)


def _has_few(connection: PostgresConnection, tenant: str, script: str) -> bool:
    """Return whether a script has at most FEW sessions."""
    first = f"{OF_SCRIPT} LIMIT {FEW + 1}"
    return len(connection.rows(first, {"tenant": tenant, "script": script})) <= FEW


_CONDITIONS = CONDITIONS | {
    "user_id": "session_id IN (SELECT session_id FROM session_starts WHERE tenant = $tenant AND user_id = $user_id)"
}
_ORDER = "ORDER BY t.finished_at DESC, t.session_id DESC, t.turn DESC"
_SELECT = f"""
WITH found AS MATERIALIZED (
    SELECT t.session_id, t.turn, t.finished_at
    FROM (SELECT * FROM turn_texts AS t WHERE {{conditions}} {{newest}}) AS t WHERE {{words}}
), candidates AS MATERIALIZED (
    SELECT t.session_id, t.turn, t.finished_at FROM found AS t {_ORDER} LIMIT $batch
)
SELECT c.session_id, t.user_id, s.key, c.turn, c.finished_at, t.messages,
    {TITLE}, NOT EXISTS (SELECT 1 FROM json_array_elements(h.gaps) AS gap
        WHERE t.message_count BETWEEN (gap ->> 0)::INTEGER AND (gap ->> 1)::INTEGER) AS is_outside
FROM candidates AS c
JOIN turns AS t ON t.tenant = $tenant AND t.session_id = c.session_id AND t.turn = c.turn
JOIN session_heads AS h ON h.tenant = $tenant AND h.session_id = c.session_id
JOIN session_starts AS s ON s.tenant = $tenant AND s.session_id = c.session_id
{MOVE}
{SCRIPT}
ORDER BY c.finished_at DESC, c.session_id DESC, c.turn DESC
"""  # noqa: S608
