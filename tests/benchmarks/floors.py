"""What the same rows cost without Cuebook: one row group a turn in SQLite and in DuckDB, each commit on disk."""

import sqlite3
import time
from pathlib import Path

import duckdb
from measured_server import REPLY

STATE = "x" * 1_200


def sqlite_floor(file: Path, turns: int) -> list[float]:
    """Return the seconds of each turn's rows in SQLite (WAL, synchronous=FULL), one transaction a turn."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE messages (session TEXT, turn INT, role TEXT, content TEXT)")
    connection.execute("CREATE TABLE states (session TEXT, turn INT, state TEXT)")
    times = []
    for turn in range(turns):
        start = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        rows = [("s", turn, "user", REPLY), ("s", turn, "ai", REPLY), ("s", turn, "ai", REPLY), ("s", turn, "ai", "?")]
        connection.executemany("INSERT INTO messages VALUES (?, ?, ?, ?)", rows)
        connection.execute("INSERT INTO states VALUES (?, ?, ?)", ("s", turn, STATE))
        connection.execute("COMMIT")
        times.append(time.perf_counter() - start)
    connection.close()
    return times


def duckdb_floor(file: Path, turns: int) -> list[float]:
    """Return the seconds of each turn's row in DuckDB, one commit a turn."""
    with duckdb.connect(file) as connection:
        connection.execute("CREATE TABLE turns (session VARCHAR, turn INTEGER, messages VARCHAR, state VARCHAR)")
        times = []
        for turn in range(turns):
            start = time.perf_counter()
            connection.execute("INSERT INTO turns VALUES (?, ?, ?, ?)", ["s", turn, REPLY * 3, STATE])
            times.append(time.perf_counter() - start)
    return times
