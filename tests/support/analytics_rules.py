"""Rules that the tables of every analytics file obey, against each other: a second account of what a refresh writes."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import duckdb

from store.analytics.snapshots import check

FOUND_MAX = 100


class Violation(NamedTuple):
    """A row, a session or a table that breaks a rule."""

    code: str
    table: str
    session_id: str | None
    turn: int | None
    what: str


class _Rule(NamedTuple):
    """A rule; `found` selects its violations: `what`, and if known `session_id` and `turn`."""

    code: str
    table: str
    found: str


def problems(path: Path) -> list[object]:
    """Return what is wrong with a file: the findings of the product's own check, and what breaks these rules."""
    with closing(duckdb.connect(str(path), read_only=True)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return [*check(path).findings, *(each for rule in _RULES for each in _broken(connection, rule))]


def _broken(connection: duckdb.DuckDBPyConnection, rule: _Rule) -> Iterator[Violation]:
    select = f"""SELECT session_id::VARCHAR, turn, what FROM (SELECT NULL AS session_id, NULL AS turn, NULL AS what
        WHERE false UNION ALL BY NAME {rule.found}) ORDER BY ALL LIMIT {FOUND_MAX}"""
    for session_id, turn, what in connection.execute(select).fetchall():
        yield Violation(rule.code, rule.table, session_id, turn, str(what))


def _numbered(table: str, of_turn: str, of_session: str) -> tuple[_Rule, _Rule]:
    """Return the rules that rows are numbered from 1 without gaps, and match the counts of their session and turn."""
    in_session = f"""SELECT session_id, 'its {table} have gaps in their numbers, or differ from its count' AS what
        FROM (SELECT session_id, count(*) AS n, min(seq) AS first, max(seq) AS last, count(DISTINCT seq) AS d
            FROM {table} GROUP BY session_id) FULL JOIN (FROM sessions WHERE {of_session} > 0) AS s USING (session_id)
        WHERE (n, first, last, d)
            IS DISTINCT FROM (s.{of_session}::BIGINT, 1, s.{of_session}, s.{of_session}::BIGINT)"""
    in_turn = f"""SELECT session_id, turn, 'the number of its {table} differs from its count' AS what
        FROM (SELECT session_id, turn, count(*) AS n FROM {table} WHERE session_id IS NOT NULL GROUP BY ALL)
        FULL JOIN (FROM turns WHERE {of_turn} > 0) AS t USING (session_id, turn)
        WHERE n IS DISTINCT FROM t.{of_turn}"""
    return _Rule("file_misnumbered", table, in_session), _Rule("file_misnumbered", table, in_turn)


_TURNS = """SELECT session_id, 'its turns have gaps in their numbers, or do not end with its latest' AS what
    FROM (SELECT session_id, count(*) AS n, min(turn) AS first, max(turn) AS last, count(DISTINCT turn) AS d
        FROM turns GROUP BY session_id) FULL JOIN sessions AS s USING (session_id)
    WHERE (n, first, last, d) IS DISTINCT FROM (s.turn + 1::BIGINT, 0, s.turn, s.turn + 1::BIGINT)"""

_LATEST = """SELECT s.session_id, s.turn, 'its position or state differs from its latest turn' AS what
    FROM sessions AS s JOIN turns AS t USING (session_id, turn)
    WHERE (s.user_id, s.status, s.phase_id, s.topic_id, s.action_id, s.action_type, s.wait_kind, s.updated_at, s.digest,
            s.script_id, s.script_version)
        IS DISTINCT FROM (t.user_id, t.status, t.phase_id, t.topic_id, t.action_id, t.action_type, t.wait_kind,
            t.finished_at, t.digest, t.script_id, t.script_version)
        OR s.execution_status NOT IN (t.execution_status, 'error')"""

_COMPLETED = """SELECT s.session_id, 'its time of completion is not that of the turn that ended it' AS what
    FROM sessions AS s LEFT JOIN (
        SELECT t.session_id, min(t.finished_at) AS ended_at FROM turns AS t
        WHERE t.status = 'completed' AND NOT EXISTS (
            FROM turns AS o WHERE o.session_id = t.session_id AND o.turn > t.turn AND o.status <> 'completed')
        GROUP BY t.session_id
    ) USING (session_id)
    WHERE s.completed_at IS DISTINCT FROM ended_at"""

_USER_MESSAGES = """SELECT session_id, 'its count of user messages differs from its messages' AS what FROM sessions AS s
    LEFT JOIN (SELECT session_id, count(*) AS n FROM messages WHERE role = 'user' GROUP BY ALL) USING (session_id)
    WHERE coalesce(n, 0) <> s.user_messages"""

_NUMBERS = """SELECT session_id, 'its number among the sessions of its user is wrong' AS what FROM sessions
    QUALIFY row_number() OVER (PARTITION BY user_id ORDER BY created_at, session_id) <> number"""

_USERS = """SELECT 'user ' || user_id || ' differs from the sessions' AS what FROM users AS u
    FULL JOIN (
        SELECT user_id, min(created_at) AS first_seen_at, max(updated_at) AS last_seen_at,
            count(session_id) AS sessions, count(*) FILTER (status = 'completed') AS completed,
            coalesce(sum(turn + 1), 0) AS turns, coalesce(sum(user_messages), 0) AS said
        FROM (SELECT user_id, session_id, created_at, updated_at, status, turn, user_messages FROM sessions
            UNION ALL BY NAME SELECT DISTINCT user_id FROM variables_current WHERE session_id IS NULL)
        GROUP BY user_id
    ) AS s USING (user_id)
    WHERE (u.first_seen_at, u.last_seen_at, u.sessions, u.completed_sessions, u.turns, u.user_messages)
        IS DISTINCT FROM (s.first_seen_at, s.last_seen_at, s.sessions, s.completed, s.turns, s.said)"""

_SCOPES = """(SELECT session_id, max(seq) AS topic_seq, max(seq) FILTER (data ->> '$.scope' = 'phase') AS phase_seq
    FROM events WHERE kind IN ('scope_entered', 'scope_left') GROUP BY session_id)"""
_CALLABLE = "(SELECT DISTINCT digest, topic_id FROM script_actions WHERE phase_position = 0)"

# The values from a replay of the log: for each scope, the last write of a name since the scope began. Topics of skills
# are left out.
_REPLAYED = f"""
    SELECT w.session_id, w.scope, w.name, w.type, w."new" AS value FROM (
        SELECT v.*, t.digest FROM variable_history AS v JOIN turns AS t USING (session_id, turn)
        WHERE v.scope <> 'global'
    ) AS w LEFT JOIN {_SCOPES} AS s USING (session_id)
    ANTI JOIN {_CALLABLE} AS c ON w.scope = 'topic' AND c.digest = w.digest AND c.topic_id = w.topic_id
    WHERE w.seq > CASE w.scope WHEN 'session' THEN 0 WHEN 'phase' THEN coalesce(s.phase_seq, 0)
        ELSE coalesce(s.topic_seq, 0) END
    QUALIFY row_number() OVER (PARTITION BY w.session_id, w.scope, w.name ORDER BY w.seq DESC) = 1"""

_VARIABLES = f"""SELECT session_id,
        'the ' || scope || ' variable `' || name || '` differs from its last write' AS what
    FROM (FROM ({_REPLAYED}) WHERE type <> 'null') AS r
    FULL JOIN (FROM variables_current WHERE session_id IS NOT NULL) AS v USING (session_id, scope, name)
    WHERE (r.type, r.value::VARCHAR) IS DISTINCT FROM (v.type, v.value::VARCHAR)"""

_GLOBALS = """SELECT 'a global variable has two values' AS what FROM variables_current WHERE session_id IS NULL
    GROUP BY user_id, name HAVING count(*) > 1"""


def _each_once(table: str, kinds: str, seq: str = "seq") -> _Rule:
    """Return the rule that every event of these kinds has exactly one row in a table."""
    found = f"""SELECT e.session_id, e.turn, 'event ' || e.seq || ' has ' || count(t.session_id) || ' rows' AS what
        FROM (FROM events WHERE kind IN ({kinds})) AS e
        LEFT JOIN {table} AS t ON t.session_id = e.session_id AND t.{seq} = e.seq
        GROUP BY e.session_id, e.turn, e.seq HAVING count(t.session_id) <> 1"""
    return _Rule("file_differs", table, found)


def _of_event(table: str, seq: str, kinds: str, which: str = "true") -> _Rule:
    """Return the rule that every row of a table belongs to an event of these kinds."""
    found = f"""SELECT t.session_id, 'a row belongs to event ' || t.{seq} || ', which has another kind' AS what
        FROM {table} AS t LEFT JOIN events AS e ON e.session_id = t.session_id AND e.seq = t.{seq}
        WHERE {which} AND t.session_id IS NOT NULL AND coalesce(e.kind NOT IN ({kinds}), true)"""
    return _Rule("file_differs", table, found)


# After a rewind or a migration, the session waits again without another event.
_WAITS = """SELECT session_id, turn,
        'it has ' || coalesce(w.n, 0) || ' waits, but ' || coalesce(e.n, 0) || ' events of waits' AS what
    FROM (SELECT session_id, turn, count(*) AS n FROM events WHERE kind = 'wait' GROUP BY ALL) AS e
    FULL JOIN (SELECT session_id, turn, count(*) AS n FROM waits GROUP BY ALL) AS w USING (session_id, turn)
    ANTI JOIN (FROM events WHERE kind IN ('intervention', 'migrated')) AS i USING (session_id, turn)
    WHERE e.n IS DISTINCT FROM w.n"""

_ANSWERS = """SELECT w.session_id, w.turn, 'the answer of a wait does not match its outcome, ' || outcome AS what
    FROM waits AS w LEFT JOIN turns AS t ON t.session_id = w.session_id AND t.turn = w.answered_turn
    WHERE (outcome = 'answered') <> (t.session_id IS NOT NULL) OR answered_turn <= w.turn"""

_CALLS = """SELECT c.session_id, c.turn, 'a call belongs to a turn that was not committed' AS what
    FROM llm_calls AS c LEFT JOIN sessions AS s USING (session_id)
    WHERE c.used IS NOT NULL AND c.session_id IS NOT NULL AND coalesce(c.turn > s.turn, true)"""


def _orphaned(table: str) -> _Rule:
    found = f"""SELECT session_id, count(*) || ' rows of a session that does not exist' AS what FROM {table}
        WHERE session_id IS NOT NULL AND session_id NOT IN (SELECT session_id FROM sessions) GROUP BY ALL"""
    return _Rule("file_differs", table, found)


_OUTLINES = """SELECT session_id, min(turn) AS turn, 'no action of its script is known' AS what FROM turns
    WHERE digest NOT IN (
        SELECT digest FROM script_actions UNION ALL SELECT digest FROM script_variables WHERE name = '*')
    GROUP BY session_id, digest"""

_PERSONAL_NOT_MARKED = """
    SELECT v.session_id, v.turn, '`' || v.name || '` is personal, but is not marked as such' AS what
    FROM variable_history AS v LEFT JOIN turns AS t USING (session_id, turn)
    SEMI JOIN (FROM script_variables WHERE is_pii) AS p
        ON p.name IN (v.name, '*') AND (v.scope = 'global' OR p.digest = t.digest)
    WHERE NOT v.is_pii"""

_RULES = (
    _Rule("file_misnumbered", "turns", _TURNS),
    *_numbered("messages", "messages", "message_count"),
    *_numbered("events", "events", "event_count"),
    _numbered("variable_history", "writes", "event_count")[1],
    _of_event("variable_history", "seq", "'variable'"),
    _Rule("file_differs", "sessions", _LATEST),
    _Rule("file_differs", "sessions", _COMPLETED),
    _Rule("file_differs", "sessions", _USER_MESSAGES),
    _Rule("file_differs", "sessions", _NUMBERS),
    _Rule("file_differs", "users", _USERS),
    _Rule("file_differs", "script_actions", _OUTLINES),
    _Rule("file_differs", "variable_history", _PERSONAL_NOT_MARKED),
    _Rule("file_differs", "variables_current", _VARIABLES),
    _Rule("file_differs", "variables_current", _GLOBALS),
    _each_once("action_visits", "'action_entered', 'action_skipped'"),
    _of_event("action_visits", "left_seq", "'action_left'", "t.outcome = 'done'"),
    _each_once("scope_visits", "'scope_entered', 'scope_skipped'"),
    _of_event("scope_visits", "seq", "'scope_entered', 'scope_skipped'"),
    _each_once("detections", "'detected'"),
    _of_event("detections", "seq", "'detected'"),
    _each_once("exposures", "'exposed'"),
    _of_event("exposures", "seq", "'exposed'"),
    _each_once("milestones", "'milestone'"),
    _of_event("milestones", "seq", "'milestone'"),
    _Rule("file_differs", "waits", _WAITS),
    _Rule("file_differs", "waits", _ANSWERS),
    _Rule("file_differs", "llm_calls", _CALLS),
    *(_orphaned(table) for table in ("failed_turns", "session_migrations", "waits", "action_visits", "memory_units")),
)
