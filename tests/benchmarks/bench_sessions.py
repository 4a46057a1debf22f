"""Lists of sessions and searches in what was said, over HTTP, beside the bare SQL in the same run.
Run by `make bench`; prints, asserts nothing.

The record holds 10,000 sessions with 1,000,000 messages, made in SQL from generated rows. The floor of a list is the
query for the last active sessions alone, that of a search the count of all turns in whose JSON the word stands.
"""

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlencode

from figures import line
from http_client import Connection
from measured_server import server

from store.duckdb.database import Database

SESSIONS = int(os.environ.get("BENCH_SESSIONS", "10000"))
TURNS_EACH = 50  # of two messages
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "40"))
# fmt: off
WORDS = [
    "garden", "sleep", "river", "talk", "evening", "morning", "doctor", "friend", "worry", "music", "train", "coffee",
    "letter", "window", "stone", "quiet", "walk", "dream", "mother", "brother", "summer", "winter", "paper", "light",
    "shadow", "table", "night", "water", "fire", "voice", "睡眠", "焦虑", "妈妈", "工作", "今天",
]
# fmt: on
LIST_GOAL_MS, SEARCH_GOAL_MS = 50, 300

_SAID = """list_aggregate(list_transform(
    range(12), lambda w: $words[1 + (hash(k * 31 + w + {salt}) % len($words))::INT]), 'string_agg', ' ')"""
_MESSAGE = """json_object(
    'seq', {number}, 'message_id', md5('{role}' || k)::UUID::VARCHAR, 'role', '{role}', 'content', {said},
    'action_id', NULL, 'metadata', '{{}}'::JSON, 'created_at', strftime(moment, '%Y-%m-%dT%H:%M:%SZ'))"""


def fill(folder: Path) -> None:
    """Makes the record."""
    database = Database.open(folder)
    cursor = database.cursor()
    cursor.execute(
        """INSERT INTO session_starts BY NAME
        SELECT 'default' AS tenant, md5(s::VARCHAR)::UUID AS session_id, 'user' || (s % 2000) AS user_id,
            'bench:' || s AS key, 'none' AS script_uuid, 'bench' AS script_id, 1 AS script_version, 'none' AS digest,
            1 AS seed, json_object('title', 'Session ' || s, 'shop', 's' || (s % 10)) AS metadata,
            TIMESTAMPTZ '2025-01-01' + INTERVAL 1 SECOND * s AS created_at
        FROM range($sessions) AS made(s)""",
        {"sessions": SESSIONS},
    )
    asked = _MESSAGE.format(number="turn * 2 + 1", role="user", said="asked")
    answered = _MESSAGE.format(number="turn * 2 + 2", role="assistant", said="answered")
    # in the order of time, as turns are recorded: the sessions go on one after the other, again and again
    cursor.execute(
        f"""INSERT INTO turns BY NAME
        SELECT 'default' AS tenant, md5((k % $sessions)::VARCHAR)::UUID AS session_id,
            'user' || (k % $sessions % 2000) AS user_id, turn, moment AS started_at, moment AS finished_at,
            CASE WHEN k % 5 = 0 AND turn = {TURNS_EACH - 1} THEN 'completed' ELSE 'active' END AS status,
            'waiting_input' AS execution_status, 'text' AS wait_kind,
            json_object('begun', true, 'filler', repeat('x', 1000)) AS state,
            json_array({asked}, {answered}) AS messages,
            '[]' AS variables, '[]' AS events, turn * 2 + 2 AS message_count, 0 AS event_count
        FROM (
            SELECT k, k // $sessions AS turn, TIMESTAMPTZ '2025-01-02' + INTERVAL 1 SECOND * k AS moment,
                {_SAID.format(salt=0)} || CASE WHEN k % 100003 = 77 THEN ' Zanzibar' ELSE '' END AS asked,
                {_SAID.format(salt=100)} AS answered
            FROM range($turns) AS made(k)
        ) ORDER BY k""",
        {"sessions": SESSIONS, "turns": SESSIONS * TURNS_EACH, "words": WORDS},
    )
    cursor.execute("CHECKPOINT cuebook")
    cursor.close()
    database.close()


async def timed(connection: Connection, path: str, **query: object) -> list[float]:
    """Seconds of each of some requests."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        await connection.get(f"{path}?{urlencode(query)}")
        times.append(time.perf_counter() - start)
    return times


async def deep_cursor(connection: Connection) -> str:
    """The cursor in the middle of the list."""
    query: dict[str, object] = {"limit": 200}
    for _ in range(max(1, SESSIONS // 400)):
        query["cursor"] = (await connection.get(f"/api/sessions?{urlencode(query)}"))["nextCursor"]
    return str(query["cursor"])


async def read(port: int) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Seconds of lists and of searches, by what was asked."""
    connection = Connection("127.0.0.1", port)
    listed, searched = "/api/sessions", "/api/sessions/search"
    lists = {
        "first page": await timed(connection, listed),
        "a page of 200": await timed(connection, listed, limit=200),
        "of a user": await timed(connection, listed, userId="user7"),
        "of a status": await timed(connection, listed, status="completed"),
        "by metadata": await timed(connection, listed, metadata="shop:s3"),
        "a page in the middle": await timed(connection, listed, cursor=await deep_cursor(connection)),
    }
    searches = {
        word: await timed(connection, searched, q=word)
        for word in ("zanzibar", "garden", "睡眠", '"river talk" 妈妈', "nowhere", "role")
    }
    await connection.close()
    return lists, searches


def floors(folder: Path, words: Iterable[str]) -> tuple[list[float], dict[str, list[float]]]:
    """Seconds of the bare SQL: of the last active sessions, and of every turn with a word."""
    database = Database.open(folder, read_only=True)
    cursor = database.cursor()

    def run(sql: str, *parameters: str) -> list[float]:
        times = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            cursor.execute(sql, parameters).fetchall()
            times.append(time.perf_counter() - start)
        return times

    latest = run(
        "SELECT session_id, max(finished_at) FROM turns WHERE tenant = 'default' GROUP BY ALL ORDER BY 2 DESC LIMIT 50"
    )
    count = "SELECT count(*) FROM turns WHERE tenant = 'default' AND regexp_matches(messages, '(?i)' || ?)"
    counted = {word: run(count, word.split()[-1].strip('"')) for word in words}
    cursor.close()
    database.close()
    return latest, counted


def main() -> None:
    """Prints the figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder / "data")
        with server(folder) as running:
            lists, searches = asyncio.run(read(running.port))
        latest, counted = floors(folder / "data", searches)
    floor = statistics.median(latest)
    print(f"{SESSIONS:,} sessions, {SESSIONS * TURNS_EACH * 2:,} messages; the goal of a list is {LIST_GOAL_MS} ms")
    print(line("raw SQL: the last active", latest, floor))
    for what, times in lists.items():
        print(line(f"list, {what}", times, floor))
    print(f"searches; the goal is {SEARCH_GOAL_MS} ms; the floor counts all turns with the word")
    for what, times in searches.items():
        floor = statistics.median(counted[what])
        print(line(f"raw SQL: {what}", counted[what], floor))
        print(line(f"search, {what}", times, floor))


if __name__ == "__main__":
    main()
