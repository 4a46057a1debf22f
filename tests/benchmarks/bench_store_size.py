"""What a store with many sessions costs: a session that is not cached, lists, the writer's look-ups, and the start.

Run by `make bench`; prints, asserts nothing. Every session goes on during the whole time, so its turns are in all parts
of the table: the worst case for scans. BENCH_STORE_SESSIONS and BENCH_STORE_TURNS set the numbers of sessions and of
turns. The baselines are DuckDB's scan for a session's last turn, and a look-up by primary key in a small SQLite table.
"""

import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from store.duckdb import committer, session_list, sessions
from store.duckdb.connection import DuckDBConnection
from store.duckdb.database import Database
from store.duckdb.session_heads import SessionHeads
from store.duckdb.statements import Cursor
from store.interface.list_rows import SessionFilter
from store.sql import calls, turns

SESSIONS = int(os.environ.get("BENCH_STORE_SESSIONS", "20000"))
TURNS = int(os.environ.get("BENCH_STORE_TURNS", "200000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "40"))
TENANT = "default"

# Ids as UUIDs of version 7: 48 bits of milliseconds, then random bits.
_MADE = """
CREATE TEMP TABLE made AS
SELECT s, created, (lpad(to_hex(epoch_ms(created)), 12, '0') || '7' || left(md5(s::VARCHAR), 3)
    || '8' || substr(md5(s::VARCHAR), 4, 15))::UUID AS session_id
FROM (SELECT s, TIMESTAMPTZ '2026-01-01' + INTERVAL 20 SECOND * s AS created FROM range($sessions) AS numbers(s))"""
_STARTS = f"""
INSERT INTO session_starts BY NAME
SELECT '{TENANT}' AS tenant, session_id, 'user' || (s % 2000) AS user_id, 'bench:' || s AS key, 'none' AS script_uuid,
    'bench' AS script_id, 1 AS script_version, 'none' AS digest, s AS seed,
    json_object('title', 'Session ' || s) AS metadata, created AS created_at, 'request' || s AS idempotency_key
FROM made ORDER BY s"""
_MESSAGE = """json_object('seq', turn * 2 + {number}, 'message_id', md5('{role}' || k)::UUID::VARCHAR, 'role', '{role}',
    'content', 'I slept well, ' || md5(k::VARCHAR), 'action_id', NULL, 'metadata', '{{}}'::JSON,
    'created_at', strftime(moment, '%Y-%m-%dT%H:%M:%SZ'))"""
_TURNS = f"""
INSERT INTO turns BY NAME
SELECT '{TENANT}' AS tenant, session_id, 'user' || (s % 2000) AS user_id, turn, moment AS started_at,
    moment AS finished_at, CASE WHEN turn > 0 AND s % 3 = 0 THEN 'completed' ELSE 'active' END AS status,
    'waiting_input' AS execution_status, 'main' AS phase_id, 'text' AS wait_kind,
    json_object('begun', true, 'turn', turn, 'filler', repeat(md5((s % 50)::VARCHAR), 30)) AS state,
    json_array({_MESSAGE.format(number=1, role="user")}, {_MESSAGE.format(number=2, role="assistant")}) AS messages,
    '[]' AS variables, '[]' AS events, turn * 2 + 2 AS message_count, 0 AS event_count, k + 1 AS commit_number
FROM (
    SELECT made.*, k, (k // $sessions)::INTEGER AS turn, TIMESTAMPTZ '2026-01-01' + INTERVAL 20 SECOND * k AS moment
    FROM range($turns) AS numbers(k) JOIN made ON made.s = k % $sessions
) ORDER BY k"""


def fill(folder: Path, count: int, turns_count: int) -> None:
    """Create the database."""
    database = Database.open(folder)
    cursor = database.cursor()
    cursor.execute(_MADE, {"sessions": count})
    cursor.execute(_STARTS)
    cursor.execute(_TURNS, {"sessions": count, "turns": turns_count})
    cursor.execute("CHECKPOINT cuebook")
    cursor.close()
    database.close()


def report(what: str, work: Callable[[str], object], ids: list[str]) -> float:
    """Print the median and the least time of `work` for each id, in ms, and its CPU time; return the median."""
    wall, cpu = [], []
    work(ids[0])
    for session_id in ids:
        start, start_cpu = time.perf_counter(), time.process_time()
        work(session_id)
        wall.append(1_000 * (time.perf_counter() - start))
        cpu.append(1_000 * (time.process_time() - start_cpu))
    median = statistics.median(wall)
    print(f"  {what:44} {median:8.2f} ms   least {min(wall):8.2f}   CPU {statistics.median(cpu):8.2f}")
    return median


def look_up(cursor: Cursor, heads: SessionHeads, ids: list[str]) -> None:
    """Print the times of look-ups and lists."""
    connection = DuckDBConnection(cursor, heads)

    def load(session_id: str) -> None:
        """Run the statements that load a session into the cache."""
        sessions.session_head(connection, TENANT, session_id)
        turns.recent_messages(connection, TENANT, session_id, 50)
        calls.unsettled_calls(connection, TENANT, session_id)
        turns.failures(connection, TENANT, session_id)

    def listed(**which: str) -> Callable[[str], object]:
        return lambda _: session_list.list_sessions(connection, TENANT, SessionFilter(**which), order="activity")

    def find_keys(session_id: str) -> None:
        """Look up the keys of a new session, as its commit does."""
        keys = [(TENANT, "key", f"new {session_id}"), (TENANT, "idempotency_key", session_id)]
        committer.load_starts(cursor, [], keys)

    scan = "SELECT max(turn) FROM turns WHERE tenant = ? AND session_id = ?"
    report("baseline: scan for the last turn", lambda each: cursor.execute(scan, [TENANT, each]).fetchall(), ids)
    report("head of a session", lambda each: sessions.session_head(connection, TENANT, each), ids)
    report("all of a session that a message needs", load, ids)
    report("writer: head", lambda each: committer.load_heads(cursor, [each]), ids)
    report("writer: keys of a new session", find_keys, ids)
    report("list: last active", listed(), ids[: ROUNDS // 4])
    report("list: of a status", listed(status="completed"), ids[: ROUNDS // 4])
    report("list: of a status that no session has", listed(status="failed"), ids[: ROUNDS // 4])


def look_up_in_sqlite(path: Path, ids: list[str], turns_each: int) -> None:
    """Print the time of a look-up by primary key in SQLite, with rows of the same size."""
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE turns (session_id TEXT, turn INTEGER, state TEXT, PRIMARY KEY (session_id, turn))"
        )
        rows = ((each, turn, "x" * 1_000) for each in ids for turn in range(turns_each))
        connection.executemany("INSERT INTO turns VALUES (?, ?, ?)", rows)
        select = "SELECT * FROM turns WHERE session_id = ? ORDER BY turn DESC LIMIT 1"
        report("baseline: SQLite, by primary key", lambda each: connection.execute(select, [each]).fetchall(), ids)


def main() -> None:
    """Print the figures."""
    for count, turns_count in ((SESSIONS // 20, TURNS // 20), (SESSIONS, TURNS)):
        with tempfile.TemporaryDirectory() as name:
            fill(Path(name), count, turns_count)
            print(f"{count:,} sessions, {turns_count:,} turns")
            start = time.perf_counter()
            database = Database.open(Path(name))
            print(f"  {'the database is open after':44} {1_000 * (time.perf_counter() - start):8.2f} ms")
            cursor = database.cursor()
            sample = "SELECT session_id::VARCHAR FROM session_starts ORDER BY hash(session_id) LIMIT ?"
            ids = [session_id for (session_id,) in cursor.execute(sample, [ROUNDS]).fetchall()]
            look_up(cursor, database.heads, ids)
            cursor.close()
            database.close()
            look_up_in_sqlite(Path(name) / "baseline.sqlite", ids, turns_count // count)


if __name__ == "__main__":
    main()
