"""The same large data in a database file and in PostgreSQL, for benchmarks.

A server takes some conversations, and their rows are multiplied in SQL: each new session has the rows of one of them,
with other ids, times and words. So the rows are those that a server writes, as `cuebook verify` confirms, and the same
size always gives the same sessions. Most sessions end within minutes, others go on for weeks.
"""

import asyncio
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import psycopg
from http_client import Connection
from measured_server import server

from store.copy_database import TABLES
from store.duckdb.database import Database
from store.duckdb.database_file import attach, quote
from store.duckdb.statements import Cursor
from store.interface.private_files import FILE_NAME
from store.postgres.engine import PostgresEngine

SCRIPTS = {
    "talk.yaml": """\
script: talk
declare:
  - {var: count, type: number, value: 0}
  - {var: last, type: text}
phases:
  - phase: main
    topics:
      - topic: loop
        actions:
          - {ask: "What next?", id: ask, output: [{get: last}]}
          - {set: {count: count + 1}, id: add}
          - {say: "That was reply number {{ count }}. You said: {{ last }}", id: echo}
          - {goto: loop, id: again}
""",
    "survey.yaml": """\
script: survey
declare:
  - {var: mood, type: text}
  - {var: wish, type: text}
phases:
  - phase: first
    topics:
      - topic: mood
        actions:
          - {ask: "How was your day?", id: ask_mood, output: [{get: mood}]}
          - {say: "Thank you. You said: {{ mood }}", id: thank}
  - phase: second
    topics:
      - topic: wish
        actions:
          - {ask: "What do you wish for?", id: ask_wish, output: [{get: wish}]}
          - {say: "Goodbye.", id: bye}
""",
}
CONVERSATIONS = (("survey", 2), ("talk", 3), ("survey", 1), ("talk", 8), ("survey", 2), ("talk", 15), ("talk", 30))
"""The script and the number of replies of each conversation that is multiplied: about ten turns each."""
WORDS = (
    "garden sleep river evening doctor friend worry music train coffee letter window stone quiet 睡眠 焦虑 妈妈 工作"
)
RARE = "zanzibar"
"""A word in one of 100,003 turns."""
USERS_SHARE = 4  # sessions of a user
_CHUNK = 100_000  # turns in one statement

_MADE = """
CREATE TEMP TABLE made AS
SELECT s, c.session_id AS of_session, c.last_turn, created,
    (lpad(to_hex(epoch_ms(created)), 12, '0') || '7' || left(md5(s::VARCHAR), 3)
        || '8' || substr(md5(s::VARCHAR), 4, 15))::UUID AS session_id,
    'user' || (hash(s) % greatest($sessions // $users_share, 1)) AS user_id,
    (1 + hash(s, 1) % 60) * if(hash(s, 2) % 4 = 0, 20_000, 1) AS pause_s
FROM (SELECT s, TIMESTAMPTZ '2026-01-01' + INTERVAL 100 SECOND * s AS created FROM range($sessions) AS numbers(s))
JOIN conversations AS c ON c.number = s % (SELECT count(*) FROM conversations)"""
_PLAN = """
CREATE TEMP TABLE plan AS
SELECT row_number() OVER (ORDER BY moment, s, turn) AS place, *
FROM (
    SELECT s, of_session, session_id, user_id, turn::INTEGER AS turn,
        created + INTERVAL 1 SECOND * pause_s * turn AS moment
    FROM made, unnest(range(last_turn + 1)) AS turns(turn)
) ORDER BY moment, s, turn"""
_STARTS = """
INSERT INTO session_starts BY NAME
SELECT t.* REPLACE (m.session_id AS session_id, m.user_id AS user_id, m.created AS created_at, m.s AS seed,
    'key:' || m.s AS key, json_object('title', 'Session ' || m.s, 'shop', 's' || (m.s % 10)) AS metadata)
FROM made AS m JOIN template.session_starts AS t ON t.session_id = m.of_session ORDER BY m.s"""


def _said(turn: str) -> str:
    """Return SQL for the words of the user in a turn."""
    words = f"""list_aggregate(list_transform(range(8),
        lambda w: $words[1 + (hash(p.s, {turn}, w) % len($words))::INTEGER]), 'string_agg', ' ')"""
    return f"{words} || if(hash(p.s, {turn}) % 100003 = 7, ' {RARE}', '')"


def _changed(column: str) -> str:
    """Return SQL for a JSON column of the new turn: with other words, ids and times."""
    changed = (
        f"replace(replace(t.{column}, 'words' || p.turn || 'x', said), 'words' || (p.turn - 1) || 'x', said_before)"
    )
    changed = f"""regexp_replace({changed}, '("message_id":"[0-9a-f-]{{24}})[0-9a-f]{{12}}',
        '\\1' || lpad(to_hex(p.s), 12, '0'), 'g')"""
    changed = f"""regexp_replace({changed}, '("(?:created_at|last_updated)":")[^"]*', '\\1' || written_at, 'g')"""
    return f"""replace(replace({changed}, '"user_id":"bench"', '"user_id":"' || p.user_id || '"'),
        '"seed":' || seed, '"seed":' || p.s) AS {column}"""


_TURNS = f"""
INSERT INTO turns BY NAME
SELECT t.* REPLACE (p.session_id AS session_id, p.user_id AS user_id, p.moment AS started_at, p.moment AS finished_at,
    {", ".join(_changed(name) for name in ("state", "messages", "variables", "events"))}, p.place AS commit_number)
FROM (
    SELECT *, {_said("p.turn")} AS said, {_said("p.turn - 1")} AS said_before,
        strftime(moment, '%Y-%m-%dT%H:%M:%S.%fZ') AS written_at
    FROM plan AS p WHERE place > $first AND place <= $first + {_CHUNK}
) AS p JOIN template.turns AS t ON t.session_id = p.of_session AND t.turn = p.turn
JOIN (SELECT session_id, seed FROM template.session_starts) AS b ON b.session_id = p.of_session
ORDER BY p.place"""


def fill(folder: Path, sessions: int) -> int:
    """Create a database file in an empty folder; return the number of turns."""
    with tempfile.TemporaryDirectory() as name:
        template = _converse(Path(name))
        Database.open(folder).close()
        with closing(attach(folder / FILE_NAME, read_only=False)) as connection:
            connection.execute(f"ATTACH {quote(template)} AS template (READ_ONLY)")
            for table in ("scripts", "script_texts"):
                connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM template.{table}")
            return _multiply(connection, sessions)


def _converse(folder: Path) -> Path:
    """Let a server take the conversations; return its database file."""

    async def drive(port: int) -> None:
        connection = Connection("127.0.0.1", port)
        for script, replies in CONVERSATIONS:
            created = await connection.post("/api/sessions", {"userId": "bench", "scriptId": script})
            for reply in range(1, replies + 1):
                await connection.post(f"/api/sessions/{created['sessionId']}/messages", {"content": f"words{reply}x"})
        await connection.close()

    with server(folder, SCRIPTS) as running:
        asyncio.run(drive(running.port))
        return running.data / FILE_NAME


def _multiply(connection: Cursor, sessions: int) -> int:
    connection.execute(
        """CREATE TEMP TABLE conversations AS
        SELECT session_id, max(turn) AS last_turn, row_number() OVER (ORDER BY session_id) - 1 AS number
        FROM template.turns GROUP BY session_id"""
    )
    connection.execute(_MADE, {"sessions": sessions, "users_share": USERS_SHARE})
    connection.execute(_PLAN)
    connection.execute(_STARTS)
    turns = _count(connection, "plan")
    for first in range(0, turns, _CHUNK):
        connection.execute(_TURNS, {"first": first, "words": WORDS.split()})
        connection.execute("CHECKPOINT cuebook")
    connection.execute("UPDATE commits SET number = 0, merged_number = ?", [turns])
    connection.execute("CHECKPOINT cuebook")
    return turns


def _count(connection: Cursor, table: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0])


def copy_to_postgres(folder: Path, url: str) -> None:
    """Copy a database file into an empty PostgreSQL database, in the order in which the rows were written."""
    engine = PostgresEngine.open(url, read_only=False, read_timeout_s=0)
    engine.close()
    with (
        closing(attach(folder / FILE_NAME, read_only=True)) as source,
        psycopg.connect(url, autocommit=True) as target,
        tempfile.TemporaryDirectory() as name,
    ):
        for table in TABLES:
            _copy_table(source, target, table, engine.tables[table], Path(name, "rows.csv"))
        target.execute(_HEADS)
        target.execute(_TEXTS)
        target.execute("VACUUM ANALYZE")


_HEADS = """
INSERT INTO session_heads
SELECT DISTINCT ON (t.tenant, t.session_id) t.tenant, t.session_id, t.turn, t.message_count, t.event_count, t.status,
    t.execution_status, greatest(t.finished_at, s.created_at), t.state ->> 'outcome', coalesce(t.state -> 'gaps', '[]')
FROM turns AS t JOIN session_starts AS s ON s.tenant = t.tenant AND s.session_id = t.session_id
ORDER BY t.tenant, t.session_id, t.turn DESC"""


_TEXTS = """
INSERT INTO turn_texts
SELECT t.tenant, t.session_id, t.turn, t.finished_at, lower(string_agg(m ->> 'content', E'\n'))
FROM turns AS t, json_array_elements(t.messages) AS m GROUP BY t.tenant, t.session_id, t.turn"""


def _copy_table(
    source: Cursor, target: "psycopg.Connection[tuple[object, ...]]", table: str, types: Mapping[str, str], path: Path
) -> None:
    columns = {f'"{name}"': kind for name, kind in types.items() if kind != "xid8"}
    names = ", ".join(columns)
    arrays = {
        name: f"'{{' || array_to_string({name}, ',') || '}}'" for name, kind in columns.items() if kind.endswith("[]")
    }
    values = ", ".join(arrays.get(name, name) for name in columns)
    for first in range(0, _count(source, table), _CHUNK):
        rows = f"SELECT {values} FROM {table} WHERE rowid >= {first} AND rowid < {first + _CHUNK}"
        source.execute(f"COPY ({rows}) TO {quote(path)} (FORMAT csv, HEADER false)")
        with (
            path.open("rb") as written,
            target.cursor() as cursor,
            cursor.copy(f"COPY {table} ({names}) FROM STDIN (FORMAT csv)".encode()) as copy,
        ):
            while block := written.read(1 << 20):
                copy.write(block)
