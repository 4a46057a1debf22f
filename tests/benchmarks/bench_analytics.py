"""Each report over a large record, beside the same question asked of SQLite in the same run. Run by `make
bench-analytics`; prints, and stops only where the two answer differently.

The record is made by `cuebook simulate`, whose users talk with the example scripts: 100,000 sessions unless
SIM_SESSIONS says otherwise, some ten minutes; SIM_DATA names a folder that holds a record already. A report is
timed as analysts get it: enclosed and on one thread, the query looked at, its rows fetched. SQLite has
the same tables with indexes on the session, all in its cache; what its SQL cannot do, percentiles, is done in Python.
"""

import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import msgspec
from sqlite_reports import ASKED, Asked, connected

from api.analytics.outlines import outline_of
from scripts.parse.read_script import Source, read_script
from store.analytics.delta import write_delta
from store.analytics.file import Place
from store.analytics.outlines import OUTLINES
from store.analytics.query import QueryLimits, Table, answer, connect_enclosed
from store.analytics.refresh import Masking, refresh
from store.analytics.reporting import report_named, statement
from store.duckdb.database import Database

SESSIONS = int(os.environ.get("SIM_SESSIONS", "100000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
GOAL_MS, FUNNEL_GOAL_MS = 1_000, 300
TENANT = "default"
LIMITS = QueryLimits(rows_max=100_000, timeout_s=120.0)


def simulated(folder: Path) -> Path:
    """A record of made-up users, unless there is one already."""
    given = os.environ.get("SIM_DATA")
    if given:
        return Path(given)
    began = time.perf_counter()
    wanted = ["--sessions", str(SESSIONS), "--users", str(max(SESSIONS // 4, 1)), "--days", "180", "--seed", "1"]
    subprocess.run([Path(sys.executable).with_name("cuebook"), "simulate", *wanted, "--data", folder], check=True)
    print(f"simulated in {time.perf_counter() - began:,.0f} s")
    return folder


def brought(store: Path, folder: Path) -> Path:
    """The analytics file of a record."""
    began = time.perf_counter()
    database = Database.open(store, read_only=True)
    place = Place(folder / "full.duckdb")
    while True:
        with tempfile.TemporaryDirectory(dir=folder) as name, database.cursor() as cursor:
            delta = write_delta(cursor, TENANT, Path(name), place.read_known(), units=False)
            scripts = {}
            for digest in delta.digests:
                (found,) = cursor.execute("SELECT text, files FROM script_texts WHERE digest = ?", [digest]).fetchall()
                files = msgspec.json.decode(found[1], type=dict[str, str])
                scripts[digest] = read_script(Source(found[0], "", files), "compat").script
            (Path(name) / OUTLINES).write_bytes(msgspec.json.encode(outline_of(scripts.items())))
            refresh(place, Path(name), Masking(is_masked=False))
        if not delta.left:
            break
    database.close()
    size = place.path.stat().st_size / 1e6
    print(f"brought into an analytics file of {size:,.0f} MB in {time.perf_counter() - began:,.0f} s")
    return place.path


def timed(ask: Callable[[], object]) -> float:
    """Milliseconds, the median of some rounds after one that warms up."""
    ask()
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        ask()
        times.append((time.perf_counter() - began) * 1_000)
    return statistics.median(times)


def facts(file: Path) -> dict[str, str]:
    """What reports are asked about: the script with the most sessions, and a session of it."""
    with duckdb.connect(str(file), read_only=True) as connection:
        counts = connection.execute("SELECT sessions, turns, messages, events FROM about").fetchall()[0]
        print("sessions, turns, messages, events: " + ", ".join(f"{count:,}" for count in counts))
        (found,) = connection.execute(
            """SELECT script_id, any_value(session_id)::VARCHAR FROM sessions WHERE turn > 3 AND forked_from IS NULL
            GROUP BY script_id ORDER BY count(*) DESC LIMIT 1"""
        ).fetchall()
    return {"script": found[0], "session": found[1]}


def differ(table: Table, rows: list[tuple[object, ...]], asked: Asked) -> bool:
    """Whether the columns that SQLite gives differ."""
    names = [column.name for column in table.columns]
    places = [names.index(name) for name in asked.columns]
    ours = {tuple(str(row[place]) for place in places) for row in table.rows}
    return ours != {tuple(str(value) for value in row) for row in rows}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = brought(simulated(folder / "record"), folder)
        about = facts(file)
        lite = connected(file, folder / "lite.db")
        print(f"opening the file, before each question: {timed(lambda: connect_enclosed(file, LIMITS).close()):.0f} ms")
        compare(connect_enclosed(file, LIMITS), lite, about)
        lite.close()


def compare(connection: duckdb.DuckDBPyConnection, lite: sqlite3.Connection, about: dict[str, str]) -> None:
    """Time each report on both, and print it."""
    print(f"{'report':34} {'Cuebook':>9} {'SQLite':>10}  ratio")
    for asked in ASKED:
        given = {each: about[each] for each in asked.needs} | asked.given
        sql = statement(report_named(asked.report), given)
        ours = timed(lambda sql=sql: answer(connection, sql, LIMITS))  # type: ignore[misc]
        goal = FUNNEL_GOAL_MS if asked.report == "funnel" else GOAL_MS
        late = "" if ours <= goal else f"  over {goal} ms"
        label = " ".join([asked.report, *asked.given.values()])
        if asked.ask is None:
            print(f"{label:34} {ours:6.0f} ms {'none':>10}  {asked.note}{late}")
            continue
        theirs = timed(lambda each=asked: each.ask(lite, about))  # type: ignore[misc]
        print(f"{label:34} {ours:6.0f} ms {theirs:7.0f} ms  {theirs / ours:5.1f}  {asked.note}{late}")
        if asked.columns and differ(answer(connection, sql, LIMITS), asked.ask(lite, about), asked):
            raise SystemExit(f"{label}: SQLite says something else")


if __name__ == "__main__":
    sqlite3.enable_callback_tracebacks(True)
    main()
