"""Whether an analytics file, or a snapshot of one, is sound: its tables against the model and against each other.

It is opened read-only and nothing outside of it can be reached, whoever made it.
"""

import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import duckdb
from msgspec import Struct

from store.analytics.file import About, about, connect, run_sql, sql_of
from store.errors import AnalyticsUnreadable
from store.event_fields import kept_of_event
from store.masking import HIDDEN, MASKED, Treatment
from store.verification.findings import FOUND_MAX, Finding

ENCLOSURE = "SET enable_external_access = false; SET lock_configuration = true"
TEXTS: dict[str, tuple[str, ...]] = {"variable_history": ("old", "new"), "variables_current": ("value",)}
"""Columns that hold no text in a masked file but of choices and dates, and no list or record."""
PSEUDONYM = "^u_[0-9a-f]{16}$"


class Checked(Struct, frozen=True):
    """What the file is, and what is wrong with it."""

    about: About
    findings: list[Finding]


class _Rule(Struct, frozen=True):
    """What must hold: `found` selects `what`, and where there is one `session_id` and `turn`, of what breaks it."""

    code: str
    table: str
    found: str


def check(path: Path, tell: Callable[[int, int], None] = lambda done, total: None) -> Checked:
    """What is wrong with a file; `tell` hears how many of the rules were looked at, of how many. Blocks.

    Raises AnalyticsUnreadable where it is no file of this version of the model.
    """
    if not path.is_file():
        raise AnalyticsUnreadable(f"there is no file {path}")
    with tempfile.TemporaryDirectory(prefix="cuebook-verify-") as spill:
        connection = connect(path, Path(spill), read_only=True)
        try:
            run_sql(connection, ENCLOSURE)
            return _check(connection, about(connection), tell)
        except duckdb.Error as error:
            raise AnalyticsUnreadable(f"{path} cannot be read: {error}") from error
        finally:
            connection.close()


def _check(connection: duckdb.DuckDBPyConnection, found: About, tell: Callable[[int, int], None]) -> Checked:
    findings = list(_schema(connection, found.tenant))
    if findings:  # the other rules are about these very tables
        return Checked(found, findings)
    rules = [*_RULES, *(_masking() if found.is_masked else ())]
    for number, rule in enumerate(rules, start=1):
        findings += _broken(connection, rule, found.tenant)
        tell(number, len(rules))
    return Checked(found, findings)


def _broken(connection: duckdb.DuckDBPyConnection, rule: _Rule, tenant: str) -> Iterator[Finding]:
    select = f"""SELECT session_id::VARCHAR, turn, what FROM (SELECT NULL AS session_id, NULL AS turn, NULL AS what
        WHERE false UNION ALL BY NAME {rule.found}) ORDER BY ALL LIMIT {FOUND_MAX}"""  # noqa: S608
    for session_id, turn, what in connection.execute(select).fetchall():
        yield Finding(code=rule.code, table=rule.table, tenant=tenant, session_id=session_id, turn=turn, what=str(what))


# -- the model --------------------------------------------------------------------------------------------------------

_COLUMNS = """SELECT table_name, column_name, data_type FROM duckdb_columns()
    WHERE database_name = current_database() AND schema_name = 'main' AND NOT internal"""


@cache
def model_columns() -> dict[str, dict[str, str]]:
    """The columns of every table of the model, with their types."""
    connection = duckdb.connect(":memory:")
    try:
        connection.execute("BEGIN")  # half a thousand comments are not half a thousand transactions
        run_sql(connection, sql_of("tables"))
        return _columns(connection)
    finally:
        connection.close()


def _columns(connection: duckdb.DuckDBPyConnection) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for table, column, kind in connection.execute(_COLUMNS).fetchall():
        found.setdefault(table, {})[column] = kind
    return found


def _schema(connection: duckdb.DuckDBPyConnection, tenant: str) -> Iterator[Finding]:
    there = _columns(connection)
    for table, columns in model_columns().items():
        if table not in there:
            yield Finding(code="model_differs", table=table, tenant=tenant, what="the table is not there")
            continue
        for column, kind in columns.items():
            now = there[table].get(column)
            if now != kind:
                what = f"the column {column} is " + ("not there" if now is None else f"{now} and not {kind}")
                yield Finding(code="model_differs", table=table, tenant=tenant, what=what)


# -- tables against each other ----------------------------------------------------------------------------------------


def _counted(table: str) -> _Rule:
    found = f"""SELECT 'there are ' || count(*) || ' rows, the record had ' || any_value(a.{table}) AS what
        FROM about AS a LEFT JOIN {table} AS t ON true HAVING count(t.session_id) <> any_value(a.{table})"""  # noqa: S608
    return _Rule("file_counts_differ", table, found.replace("count(*)", "count(t.session_id)"))


def _numbered(table: str, of_turn: str, of_session: str) -> tuple[_Rule, _Rule]:
    """Rows of a session are numbered from 1 without gaps, and as many as it says; so are those of each turn."""
    in_session = f"""SELECT session_id, 'its {table} are numbered with gaps, or are not as many as it says' AS what
        FROM (SELECT session_id, count(*) AS n, min(seq) AS first, max(seq) AS last, count(DISTINCT seq) AS d
            FROM {table} GROUP BY session_id) FULL JOIN (FROM sessions WHERE {of_session} > 0) AS s USING (session_id)
        WHERE (n, first, last, d)
            IS DISTINCT FROM (s.{of_session}::BIGINT, 1, s.{of_session}, s.{of_session}::BIGINT)"""  # noqa: S608
    in_turn = f"""SELECT session_id, turn, 'its {table} are not as many as it says' AS what
        FROM (SELECT session_id, turn, count(*) AS n FROM {table} WHERE session_id IS NOT NULL GROUP BY ALL)
        FULL JOIN (FROM turns WHERE {of_turn} > 0) AS t USING (session_id, turn)
        WHERE n IS DISTINCT FROM t.{of_turn}"""  # noqa: S608
    return _Rule("file_misnumbered", table, in_session), _Rule("file_misnumbered", table, in_turn)


_TURNS = """SELECT session_id, 'its turns are numbered with gaps, or not up to its latest' AS what
    FROM (SELECT session_id, count(*) AS n, min(turn) AS first, max(turn) AS last, count(DISTINCT turn) AS d
        FROM turns GROUP BY session_id) FULL JOIN sessions AS s USING (session_id)
    WHERE (n, first, last, d) IS DISTINCT FROM (s.turn + 1::BIGINT, 0, s.turn, s.turn + 1::BIGINT)"""

_LATEST = """SELECT s.session_id, s.turn, 'it stands elsewhere than its latest turn left it' AS what
    FROM sessions AS s JOIN turns AS t USING (session_id, turn)
    WHERE (s.user_id, s.status, s.phase_id, s.topic_id, s.action_id, s.action_type, s.wait_kind, s.updated_at, s.digest,
            s.script_id, s.script_version, s.completed_at)
        IS DISTINCT FROM (t.user_id, t.status, t.phase_id, t.topic_id, t.action_id, t.action_type, t.wait_kind,
            t.finished_at, t.digest, t.script_id, t.script_version, if(t.status = 'completed', t.finished_at, NULL))
        OR s.execution_status NOT IN (t.execution_status, 'error')"""

_SAID = """SELECT session_id, 'it counts other messages of the user than there are' AS what FROM sessions AS s
    LEFT JOIN (SELECT session_id, count(*) AS n FROM messages WHERE role = 'user' GROUP BY ALL) USING (session_id)
    WHERE coalesce(n, 0) <> s.user_messages"""

_NUMBERS = """SELECT session_id, 'it is not the session of its user that it says' AS what FROM sessions
    QUALIFY row_number() OVER (PARTITION BY user_id ORDER BY created_at, session_id) <> number"""

_USERS = """SELECT 'user ' || user_id || ' is not as the sessions have it' AS what FROM users AS u
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

# The log played once more: of each layer the last write of a name since the layer began. Skills have layers of theirs.
_REPLAYED = f"""
    SELECT w.session_id, w.scope, w.name, w.type, w."new" AS value FROM (
        SELECT v.*, t.digest FROM variable_history AS v JOIN turns AS t USING (session_id, turn)
        WHERE v.scope <> 'global'
    ) AS w LEFT JOIN {_SCOPES} AS s USING (session_id)
    ANTI JOIN {_CALLABLE} AS c ON w.scope = 'topic' AND c.digest = w.digest AND c.topic_id = w.topic_id
    WHERE w.seq > CASE w.scope WHEN 'session' THEN 0 WHEN 'phase' THEN coalesce(s.phase_seq, 0)
        ELSE coalesce(s.topic_seq, 0) END
    QUALIFY row_number() OVER (PARTITION BY w.session_id, w.scope, w.name ORDER BY w.seq DESC) = 1"""  # noqa: S608

_VARIABLES = f"""SELECT session_id,
        'the ' || scope || ' variable `' || name || '` is not as it was written last' AS what
    FROM (FROM ({_REPLAYED}) WHERE type <> 'null') AS r
    FULL JOIN (FROM variables_current WHERE session_id IS NOT NULL) AS v USING (session_id, scope, name)
    WHERE (r.type, r.value::VARCHAR) IS DISTINCT FROM (v.type, v.value::VARCHAR)"""  # noqa: S608

_GLOBALS = """SELECT 'a global variable has two values' AS what FROM variables_current WHERE session_id IS NULL
    GROUP BY user_id, name HAVING count(*) > 1"""


def _each_once(table: str, kinds: str, seq: str = "seq") -> _Rule:
    """Every event of these kinds is one row of a table, by its number."""
    found = f"""SELECT e.session_id, e.turn, 'event ' || e.seq || ' is ' || count(t.session_id) || ' rows of it' AS what
        FROM (FROM events WHERE kind IN ({kinds})) AS e
        LEFT JOIN {table} AS t ON t.session_id = e.session_id AND t.{seq} = e.seq
        GROUP BY e.session_id, e.turn, e.seq HAVING count(t.session_id) <> 1"""  # noqa: S608
    return _Rule("file_differs", table, found)


def _of_event(table: str, seq: str, kinds: str, which: str = "true") -> _Rule:
    """Every row of a table is of an event of these kinds."""
    found = f"""SELECT t.session_id, 'a row is of event ' || t.{seq} || ', which is none of its kind' AS what
        FROM {table} AS t LEFT JOIN events AS e ON e.session_id = t.session_id AND e.seq = t.{seq}
        WHERE {which} AND t.session_id IS NOT NULL AND coalesce(e.kind NOT IN ({kinds}), true)"""  # noqa: S608
    return _Rule("file_differs", table, found)


# After a rewind or a move the session waits as it did before, without an event of its own.
_WAITS = """SELECT session_id, turn,
        'it has ' || coalesce(w.n, 0) || ' waits, and ' || coalesce(e.n, 0) || ' events of one' AS what
    FROM (SELECT session_id, turn, count(*) AS n FROM events WHERE kind = 'wait' GROUP BY ALL) AS e
    FULL JOIN (SELECT session_id, turn, count(*) AS n FROM waits GROUP BY ALL) AS w USING (session_id, turn)
    ANTI JOIN (FROM events WHERE kind IN ('intervention', 'migrated')) AS i USING (session_id, turn)
    WHERE e.n IS DISTINCT FROM w.n"""

_ANSWERS = """SELECT w.session_id, w.turn, 'a wait is ' || outcome || ', and its answer is none' AS what
    FROM waits AS w LEFT JOIN turns AS t ON t.session_id = w.session_id AND t.turn = w.answered_turn
    WHERE (outcome = 'answered') <> (t.session_id IS NOT NULL) OR answered_turn <= w.turn"""

_CALLS = """SELECT c.session_id, c.turn, 'a call is of a turn that was not taken' AS what
    FROM llm_calls AS c LEFT JOIN sessions AS s USING (session_id)
    WHERE c.used IS NOT NULL AND c.session_id IS NOT NULL AND coalesce(c.turn > s.turn, true)"""


def _orphaned(table: str) -> _Rule:
    found = f"""SELECT session_id, count(*) || ' rows of a session that is not there' AS what FROM {table}
        WHERE session_id IS NOT NULL AND session_id NOT IN (SELECT session_id FROM sessions) GROUP BY ALL"""  # noqa: S608
    return _Rule("file_differs", table, found)


_OUTLINES = """SELECT session_id, min(turn) AS turn, 'of its script no action is known' AS what FROM turns
    WHERE digest NOT IN (
        SELECT digest FROM script_actions UNION ALL SELECT digest FROM script_variables WHERE name = '*')
    GROUP BY session_id, digest"""

_PERSONAL_NOT_MARKED = """
    SELECT v.session_id, v.turn, '`' || v.name || '` is personal, and is not marked as such' AS what
    FROM variable_history AS v LEFT JOIN turns AS t USING (session_id, turn)
    SEMI JOIN (FROM script_variables WHERE is_pii) AS p
        ON p.name IN (v.name, '*') AND (v.scope = 'global' OR p.digest = t.digest)
    WHERE NOT v.is_pii"""

_RULES = (
    *(_counted(table) for table in ("sessions", "turns", "messages", "events")),
    _Rule("file_misnumbered", "turns", _TURNS),
    *_numbered("messages", "messages", "message_count"),
    *_numbered("events", "events", "event_count"),
    _numbered("variable_history", "writes", "event_count")[1],
    _of_event("variable_history", "seq", "'variable'"),
    _Rule("file_differs", "sessions", _LATEST),
    _Rule("file_differs", "sessions", _SAID),
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
    _Rule("file_differs", "waits", _WAITS),
    _Rule("file_differs", "waits", _ANSWERS),
    _Rule("file_differs", "llm_calls", _CALLS),
    *(_orphaned(table) for table in ("failed_turns", "session_migrations", "waits", "action_visits", "memory_units")),
)


# -- masking ----------------------------------------------------------------------------------------------------------


def _masking() -> Iterator[_Rule]:
    """What must not be in a masked file."""
    for table, columns_there in model_columns().items():
        for column in columns_there.keys() & _treated(table, "words", "digest"):
            yield _unmasked(table, column, f"{column} IS NOT NULL")
        for column in columns_there.keys() & _treated(table, "flag"):
            yield _unmasked(table, column, f"{column} NOT IN ('', '{HIDDEN}')")
        if values := _treated(table, "value"):
            filled = " OR ".join(f'"{column}" IS NOT NULL' for column in sorted(values))
            yield _unmasked(table, "a value of a personal variable", f"is_pii AND ({filled})")
    unwritten = "end_reason IS NOT NULL AND end_reason NOT IN (SELECT reason FROM internal.end_reasons)"
    yield _unmasked("sessions", "a reason for the end that stands in no script", unwritten)
    for table, columns in TEXTS.items():
        for column in columns:
            text = f"""json_type("{column}") IN ('ARRAY', 'OBJECT')
                OR (json_type("{column}") = 'VARCHAR' AND type NOT IN ('choice', 'date'))"""
            yield _unmasked(table, "a text, a list or a record", text)
    kept = kept_of_event("kind", "data")
    yield _unmasked("events", "data", f"data::VARCHAR IS DISTINCT FROM ({kept})::VARCHAR")
    for table, columns_there in model_columns().items():
        if "user_id" in columns_there:
            yield _unmasked(table, "users under their own ids", f"NOT regexp_matches(user_id, '{PSEUDONYM}')")


def _treated(table: str, *treatments: Treatment) -> set[str]:
    """The columns of a table that are masked in one of these ways."""
    return {column for column, treatment in MASKED.get(table, {}).items() if treatment in treatments}


def _unmasked(table: str, what: str, where: str) -> _Rule:
    found = f"SELECT count(*) || ' rows hold {what}' AS what FROM {table} WHERE {where} HAVING count(*) > 0"  # noqa: S608
    return _Rule("file_unmasked", table, found)
