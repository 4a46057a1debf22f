"""The questions of the reports, as SQLite can be asked them: the same tables, the same answers."""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

import duckdb
from msgspec import Struct

Answer = list[tuple[object, ...]]
TABLES = (
    "about", "scripts", "script_actions", "sessions", "turns", "messages", "action_visits", "scope_visits", "waits",
    "variable_history", "llm_calls", "detections",
)  # fmt: skip
_DAY_US = 86_400_000_000
_CHOSEN = "(SELECT * FROM sessions WHERE forked_from IS NULL)"
_OF_SCRIPT = "(SELECT * FROM sessions WHERE forked_from IS NULL AND script_id = :script)"


class Asked(Struct, frozen=True, kw_only=True):
    """A report, and how SQLite is asked the same."""

    report: str
    needs: tuple[str, ...] = ()
    given: dict[str, str] = {}
    ask: Callable[[sqlite3.Connection, Mapping[str, str]], Answer] | None = None
    columns: tuple[str, ...] = ()
    """Those of the report that SQLite gives, in its order; none: the two are not compared."""
    note: str = ""


def connected(file: Path, path: Path) -> sqlite3.Connection:
    """The tables of an analytics file in SQLite; times are microseconds, ids and lists are text."""
    lite = sqlite3.connect(path, isolation_level=None)
    lite.executescript("PRAGMA journal_mode = off; PRAGMA synchronous = off; PRAGMA cache_size = -4000000;")
    with duckdb.connect(str(file), read_only=True) as connection:
        for table in TABLES:
            columns = connection.execute(
                "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? AND schema_name = 'main'",
                [table],
            ).fetchall()
            shown = ", ".join(_shown(name, kind) for name, kind in columns)
            names = ", ".join(f'"{name}"' for name, _ in columns)
            lite.execute(f"CREATE TABLE {table} ({names})")
            found = connection.execute(f"SELECT {shown} FROM {table}")
            lite.execute("BEGIN")
            while rows := found.fetchmany(50_000):
                lite.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", rows)
            lite.execute("COMMIT")
            if "session_id" in {name for name, _ in columns}:
                lite.execute(f"CREATE INDEX {table}_session ON {table} (session_id)")
    lite.execute("ANALYZE")
    return lite


def _shown(name: str, kind: str) -> str:
    if kind == "TIMESTAMP WITH TIME ZONE":
        return f'epoch_us("{name}")'
    return f'"{name}"::VARCHAR' if kind in {"UUID", "JSON", "VARCHAR[]"} else f'"{name}"'


def sql(text: str) -> Callable[[sqlite3.Connection, Mapping[str, str]], Answer]:
    return lambda lite, about: lite.execute(text, dict(about)).fetchall()


def percentiles(text: str, keys: int) -> Callable[[sqlite3.Connection, Mapping[str, str]], Answer]:
    """Rows of so many keys and a number, whose percentiles are taken in Python, since SQLite has none."""

    def ask(lite: sqlite3.Connection, about: Mapping[str, str]) -> Answer:
        groups: dict[tuple[object, ...], list[float]] = defaultdict(list)
        for row in lite.execute(text, dict(about)):
            groups[row[:keys]].append(row[keys])
        return [(*key, *(_quantile(sorted(values), at) for at in (0.5, 0.9, 0.95))) for key, values in groups.items()]

    return ask


def _quantile(ordered: list[float], at: float) -> float:
    place = at * (len(ordered) - 1)
    below = int(place)
    return ordered[below] + (ordered[min(below + 1, len(ordered) - 1)] - ordered[below]) * (place - below)


def funnel(level: str) -> Callable[[sqlite3.Connection, Mapping[str, str]], Answer]:
    ids = {"phase": "phase_id", "topic": "phase_id || '/' || topic_id"}.get(
        level, "phase_id || '/' || topic_id || '/' || action_id"
    )
    table, only = ("scope_visits", f"scope = '{level}'")
    if level == "action":
        table, only = "action_visits", "skill IS NULL AND interrupt IS NULL AND detector IS NULL"
    return sql(
        f"""WITH entered AS (
            SELECT {ids} AS step, count(*) AS reached FROM {table}
            WHERE visit = 1 AND {only} AND session_id IN (SELECT session_id FROM {_OF_SCRIPT}) GROUP BY 1
        ), written AS (
            SELECT DISTINCT {ids} AS step FROM script_actions WHERE script_id = :script AND phase_position > 0
        )
        SELECT step, coalesce(reached, 0) FROM written LEFT JOIN entered USING (step)
        UNION SELECT step, reached FROM entered"""
    )


_SLOTS = f"""WITH visited AS (
    SELECT v.* FROM action_visits AS v JOIN {_CHOSEN} AS s USING (session_id)
    WHERE v.visit > 0 AND v.action_type IN ('ask', 'ai_ask', 'choose', 'form', 'chat')
)
SELECT v.script_id, h.scope, h.name, count(DISTINCT v.session_id)
FROM visited AS v JOIN variable_history AS h ON h.session_id = v.session_id AND h.action_id = v.action_id
    AND h.seq > v.seq AND h.seq < coalesce(v.left_seq, 2147483647)
WHERE h.source IN ('user', 'model') AND h.type <> 'null'
GROUP BY v.script_id, h.scope, h.name, v.phase_id, v.topic_id, coalesce(v.skill, v.interrupt, v.detector),
    v.action_id"""
_WEEK = "date({} / 1000000, 'unixepoch', '-6 days', 'weekday 1')"
_DAY = "date({} / 1000000, 'unixepoch')"
_SEARCH = f"""SELECT m.session_id, m.seq FROM messages AS m JOIN {_CHOSEN} AS s USING (session_id)
WHERE {{}} ORDER BY m.created_at DESC, m.session_id, m.seq DESC LIMIT 100"""

ASKED: tuple[Asked, ...] = (
    *(
        Asked(
            report="funnel", needs=("script",), given={"level": level}, ask=funnel(level), columns=("step", "reached")
        )
        for level in ("phase", "topic", "action")
    ),
    Asked(
        report="drop_off",
        columns=("script_id", "sessions"),
        ask=sql(
            f"""SELECT script_id, count(*) FROM {_CHOSEN} WHERE status = 'active'
            AND (SELECT as_of FROM about) - updated_at >= 7 * {_DAY_US}
            GROUP BY script_id, phase_id, topic_id, action_id"""
        ),
    ),
    Asked(
        report="completion",
        columns=("script_id", "script_version", "started", "completed", "abandoned"),
        ask=sql(
            f"""SELECT script_id, first_version, count(*), sum(status = 'completed'),
            sum(status = 'active' AND (SELECT as_of FROM about) - updated_at >= 7 * {_DAY_US})
            FROM {_CHOSEN} GROUP BY 1, 2"""
        ),
    ),
    Asked(
        report="time_to_complete",
        note="percentiles in Python",
        ask=percentiles(
            f"SELECT script_id, first_version, completed_at - created_at FROM {_CHOSEN} WHERE completed_at IS NOT NULL",
            2,
        ),
    ),
    Asked(
        report="time_to_answer",
        note="percentiles in Python",
        ask=percentiles(
            f"""SELECT w.script_id, w.phase_id, w.topic_id, w.action_id, w.kind, w.seconds FROM waits AS w
            JOIN {_CHOSEN} AS s USING (session_id) WHERE w.outcome = 'answered'""",
            5,
        ),
    ),
    Asked(
        report="re_asked",
        columns=("script_id", "action_type", "visits", "asked_again"),
        ask=sql(
            f"""SELECT w.script_id, w.action_type, sum(round = 1), sum(round = 2) FROM waits AS w
            JOIN {_CHOSEN} AS s USING (session_id) WHERE w.action_type IN ('ask', 'ai_ask', 'choose', 'form')
            GROUP BY w.script_id, w.action_type, w.phase_id, w.topic_id, w.action_id"""
        ),
    ),
    Asked(report="slots", columns=("script_id", "scope", "name", "filled"), ask=sql(_SLOTS)),
    Asked(
        report="next_steps",
        needs=("script",),
        columns=("step", "next_step", "times"),
        ask=sql(
            f"""SELECT step, next_step, count(*) FROM (
                SELECT v.phase_id || '/' || v.topic_id AS step, coalesce(lead(v.phase_id || '/' || v.topic_id)
                    OVER (PARTITION BY v.session_id ORDER BY v.seq), iif(s.status = 'completed',
                    'completed', 'stands')) AS next_step
                FROM scope_visits AS v JOIN {_OF_SCRIPT} AS s USING (session_id)
                WHERE v.scope = 'topic' AND v.outcome <> 'skipped'
            ) GROUP BY 1, 2"""
        ),
    ),
    Asked(
        report="activity",
        note="turns only",
        ask=sql(
            f"""SELECT {_DAY.format("finished_at")}, count(DISTINCT session_id), count(DISTINCT user_id), count(*),
                sum(messages)
            FROM turns WHERE session_id NOT IN (SELECT session_id FROM sessions WHERE forked_from IS NOT NULL)
            GROUP BY 1"""
        ),
    ),
    Asked(
        report="returning_users",
        columns=("begins", "sessions", "users", "new_users"),
        ask=sql(
            f"""WITH firsts AS (SELECT user_id, {_WEEK.format("min(created_at)")} AS first
                FROM {_CHOSEN} GROUP BY user_id)
            SELECT week, count(*), count(DISTINCT user_id), count(DISTINCT iif(first = week, user_id, NULL)) FROM (
                SELECT user_id, {_WEEK.format("created_at")} AS week FROM {_CHOSEN}
            ) JOIN firsts USING (user_id) GROUP BY week"""
        ),
    ),
    Asked(
        report="cohorts",
        note="weeks in which somebody came",
        ask=sql(
            f"""WITH firsts AS (SELECT user_id, {_WEEK.format("min(created_at)")} AS cohort
                FROM {_CHOSEN} GROUP BY user_id)
            SELECT cohort, week, count(DISTINCT user_id) FROM (
                SELECT user_id, {_WEEK.format("created_at")} AS week FROM {_CHOSEN}
            ) JOIN firsts USING (user_id) GROUP BY cohort, week"""
        ),
    ),
    Asked(
        report="model_cost",
        columns=("script_id", "script_version", "model", "purpose", "calls", "input_tokens"),
        ask=sql(
            """SELECT script_id, script_version, model, purpose, count(*), coalesce(sum(input_tokens), 0) FROM llm_calls
            GROUP BY 1, 2, 3, 4"""
        ),
        note="the offline model makes no calls",
    ),
    Asked(
        report="detector_hits",
        columns=("script_id", "detector", "label", "seen_by", "hits", "sessions"),
        ask=sql(
            f"""SELECT s.script_id, d.detector, d.label, d.seen_by, count(*), count(DISTINCT d.session_id)
            FROM detections AS d JOIN {_CHOSEN} AS s USING (session_id) GROUP BY 1, 2, 3, 4"""
        ),
    ),
    Asked(report="experiments", note="intervals and p-values, which SQLite's SQL has no functions for"),
    Asked(
        report="message_search",
        given={"words": "nowhere to be found"},
        columns=("session_id", "seq"),
        ask=sql(
            _SEARCH.format(" AND ".join(f"m.content LIKE '%{word}%'" for word in ("nowhere", "to", "be", "found")))
        ),
    ),
    Asked(
        report="message_search",
        given={"words": "work"},
        columns=("session_id", "seq"),
        ask=sql(_SEARCH.format("m.content LIKE '%work%'")),
    ),
    Asked(report="session_at", needs=("session",), given={"turn": "3"}, note="a session's own rows"),
    Asked(report="variables_at", needs=("session",), given={"turn": "3"}, note="a session's own rows"),
)
