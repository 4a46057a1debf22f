"""A simulated database is like one that a server has written: it can be replayed and served, and sessions continue."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from api.catalog.catalog import Catalog
from api.embedded import open_runtime
from api.replay.recorded_session import ReplaySource, find_session
from api.replay.replay_session import replay
from api.schemas.ids import TENANT
from api.schemas.timestamps import utc_now
from api.settings import EXAMPLES
from api.testing.simulation.simulate import SimulationCounts, TurnSettings, simulate
from api.testing.simulation.traffic import LoadProfile, SimulationFailed, read_scripts
from runtime.state.limits import Limits
from store.open_store import open_store
from tests.support.data_folders import database_file

UNTIL = datetime(2026, 3, 4, tzinfo=UTC)
SCRIPTS = [EXAMPLES / "check_in", EXAMPLES / "winding_down.yaml", EXAMPLES / "sleep_followup_zh.yaml"]
FAILING = """\
script: failing
phases:
  - phase: main
    topics:
      - topic: sums
        actions:
          - ask: How many?
            id: ask_count
            output: [{get: count, type: number, min: 0, max: 1}]
          - set: {share: 1 / 0}
            id: divide
"""
SLEEPY = """\
cuebook: 1
script: sleepy
timezone: UTC
actions:
  - {say: Until Thursday., id: bye}
  - {wait: 3 days, id: pause}
  - ask: How was it?
    id: ask_it
    into: it
    remind: [{after: 5 seconds, say: Are you there?}]
    expire: {after: 20 seconds, then: skip}
  - {say: Good., id: good}
"""
VERSION = """\
script: greeting
version: "{version}"
phases:
  - phase: main
    topics:
      - topic: hello
        actions: [{{ask: "{question}", id: ask_name, output: [{{get: name}}]}}]
"""


async def simulated(folder: Path, scripts: Sequence[Path], **changes: Any) -> SimulationCounts:
    """Simulate traffic into a folder."""
    profile = LoadProfile(**{"sessions": 24, "users": 8, "days": 14, "seed": 5, "ends_at": UNTIL} | changes)
    store, counted = open_store(folder), SimulationCounts()
    try:
        await simulate(store, profile, read_scripts(scripts), TurnSettings(), counted)
    finally:
        await store.close()
    return counted


def ask(folder: Path, select: str) -> list[Any]:
    """Return the rows of a query over the database of a folder."""
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{database_file(folder)}' AS cuebook (READ_ONLY)")
        connection.execute("USE cuebook")
        connection.execute("SET TimeZone = 'UTC'")
        return connection.execute(select).fetchall()


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with simulated traffic, which no test changes."""
    folder = tmp_path_factory.mktemp("traffic")
    asyncio.run(simulated(folder, SCRIPTS))
    return folder


def test_sessions_are_complete_and_start_within_the_days(traffic: Path) -> None:
    ((sessions, users, first),) = ask(
        traffic, "SELECT count(*), count(DISTINCT user_id), min(created_at) FROM session_starts"
    )
    assert (sessions, users) == (24, 8)
    assert first >= UNTIL - timedelta(days=14)
    turns = ask(traffic, "SELECT count(*), max(turn), max(finished_at) FROM turns GROUP BY session_id")
    assert len(turns) == 24
    assert all(count == last + 1 for count, last, _ in turns)
    assert max(finished for *_, finished in turns) <= UNTIL + timedelta(seconds=1)


@pytest.mark.database_file
def test_turns_are_stored_in_the_order_of_time(traffic: Path) -> None:
    moments = [moment for (moment,) in ask(traffic, "SELECT started_at FROM turns ORDER BY rowid")]
    assert moments == sorted(moments)


def test_users_complete_leave_and_return(traffic: Path) -> None:
    ((finished, left),) = ask(
        traffic,
        """SELECT count(*) FILTER (status = 'completed'), count(*) FILTER (status = 'active') FROM
        (SELECT arg_max(status, turn) AS status FROM turns GROUP BY session_id)""",
    )
    assert finished > 1
    assert left > 1
    writes = ask(traffic, "SELECT DISTINCT name FROM variable_history WHERE scope = 'global' AND old IS NOT NULL")
    assert ("sessions_count",) in writes
    ((again,),) = ask(traffic, "SELECT max(n) FROM (SELECT count(*) AS n FROM session_starts GROUP BY user_id)")
    assert again > 2


def test_sessions_of_a_translated_script_use_all_its_languages(traffic: Path) -> None:
    found = ask(traffic, "SELECT DISTINCT locale FROM session_starts WHERE script_id = 'check_in' ORDER BY locale")
    assert found == [("en",), ("zh",)]


def test_questions_in_any_language_are_answered(traffic: Path) -> None:
    found = ask(
        traffic,
        """SELECT count(*) FILTER (status = 'completed') FROM turns JOIN session_starts USING (session_id)
        WHERE script_id = '睡眠回访'""",
    )
    assert found > [(0,)]


@pytest.mark.gate
async def test_replay_reproduces_simulated_sessions(traffic: Path) -> None:
    store = open_store(traffic, read_only=True)
    try:
        assert (await store.timers.page(TENANT)).rows == []  # a server would fire them in sessions that nobody has
        source = ReplaySource(store, Catalog(store, utc_now), Limits())
        for row in (await store.sessions.page(TENANT, limit=50)).rows:
            session = await find_session(source, TENANT, row.session_id)
            outcomes = {turn.outcome async for turn in replay(session)}
            assert outcomes == {"same"}, row.script_id
    finally:
        await store.close()


@pytest.mark.gate
async def test_sessions_sleep_remind_and_expire_on_the_virtual_clock(tmp_path: Path) -> None:
    script = tmp_path / "sleepy.yaml"
    script.write_text(SLEEPY)
    folder = tmp_path / "data"
    await simulated(folder, [script])
    slept = ask(
        folder,
        """SELECT max(finished_at) FILTER (turn = 1) - max(finished_at) FILTER (turn = 0) FROM turns
        GROUP BY session_id HAVING max(turn) > 0""",
    )
    assert slept
    assert min(pause for (pause,) in slept) > timedelta(days=3) - timedelta(seconds=1)
    kinds = ask(folder, "SELECT data ->> 'timer_id', count(*) FROM events WHERE kind = 'timer' GROUP BY ALL")
    fired = {timer_id.split("/")[-1]: count for timer_id, count in kinds}
    assert len(fired) == 3, fired  # the wait, the reminder and the expiry
    store = open_store(folder, read_only=True)
    try:
        source = ReplaySource(store, Catalog(store, utc_now), Limits())
        for row in (await store.sessions.page(TENANT, limit=50)).rows:
            session = await find_session(source, TENANT, row.session_id)
            assert {turn.outcome async for turn in replay(session)} == {"same"}
    finally:
        await store.close()


@pytest.mark.gate
async def test_a_seed_gives_the_same_rows_again(traffic: Path, tmp_path: Path) -> None:
    await simulated(tmp_path / "again", SCRIPTS)
    for table in ("turns", "session_starts", "user_variables", "scripts"):
        order = (
            "ORDER BY user_variables::VARCHAR" if table == "user_variables" else "ORDER BY rowid"
        )  # those are merged
        rows = table if table != "turns" else "(SELECT * EXCLUDE (commit_number), rowid FROM turns) AS turns"
        select = f"SELECT md5(string_agg({table}::VARCHAR, '\n' {order})), count(*) FROM {rows}"
        assert ask(tmp_path / "again", select) == ask(traffic, select), table
    await simulated(tmp_path / "other", SCRIPTS[:1], seed=6, sessions=3, users=3)
    ids = "SELECT session_id, user_id FROM session_starts"
    assert not {id for row in ask(tmp_path / "other", ids) for id in row} & {
        id for row in ask(traffic, ids) for id in row
    }


async def test_a_server_continues_an_open_session(tmp_path: Path) -> None:
    await simulated(tmp_path, SCRIPTS[1:2], sessions=12, users=12)
    ((session_id, turn),) = ask(
        tmp_path,
        """SELECT session_id::VARCHAR, max(turn) FROM turns GROUP BY session_id
        HAVING arg_max(status, turn) = 'active' ORDER BY session_id LIMIT 1""",
    )
    async with open_runtime(tmp_path, scripts=SCRIPTS[1], settings={"embedder": "none"}) as client:
        answer = await client.sessions.send(session_id, "I am back")
    assert answer.messages
    assert ask(tmp_path, f"SELECT max(turn) FROM turns WHERE session_id = '{session_id}'") == [(turn + 1,)]


async def test_failed_turns_are_stored_as_failures(tmp_path: Path) -> None:
    script = tmp_path / "failing.yaml"
    script.write_text(FAILING)
    counted = await simulated(tmp_path / "data", [script], sessions=6, users=6)
    assert counted.failures > 0
    assert counted.completed == 0
    codes = ask(tmp_path / "data", "SELECT DISTINCT code, action_id FROM turn_failures")
    assert codes == [("ACTION_EXECUTION_ERROR", "divide")]


async def test_a_second_version_replaces_the_first_halfway(tmp_path: Path) -> None:
    files = [tmp_path / "one.yaml", tmp_path / "two.yaml"]
    for number, file in enumerate(files, start=1):
        file.write_text(VERSION.format(version=number, question=f"Your name, {'please' * number}?"))
    await simulated(tmp_path / "data", files, sessions=40, users=20)
    found = ask(
        tmp_path / "data",
        "SELECT script_version, min(created_at), max(created_at) FROM session_starts GROUP BY 1 ORDER BY 1",
    )
    middle = UNTIL - timedelta(days=7)
    (first, _, last_of_one), (second, first_of_two, _) = found
    assert (first, second) == (1, 2)
    assert last_of_one < middle <= first_of_two


@pytest.mark.gate
async def test_a_cancelled_simulation_leaves_complete_sessions(tmp_path: Path) -> None:
    counted, store = SimulationCounts(), open_store(tmp_path)
    profile = LoadProfile(sessions=100_000, users=9_000, days=14, seed=5, ends_at=UNTIL)
    some = asyncio.Event()
    simulating = asyncio.create_task(
        simulate(store, profile, read_scripts(SCRIPTS[:1]), TurnSettings(), counted, lambda _: some.set())
    )
    async with asyncio.timeout(60):
        await some.wait()
    simulating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await simulating
    await store.close()
    assert ask(tmp_path, "SELECT count(*) FROM turns") == [(counted.turns,)]
    assert ask(tmp_path, "SELECT count(*) FROM session_starts") == [(counted.sessions,)]
    torn = "SELECT 1 FROM turns GROUP BY session_id HAVING count(*) <> max(turn) + 1"
    assert ask(tmp_path, torn) == []


async def test_a_seed_is_accepted_once_per_database(tmp_path: Path) -> None:
    await simulated(tmp_path, SCRIPTS[:1], sessions=3, users=3)
    with pytest.raises(SimulationFailed, match="seed 5"):
        await simulated(tmp_path, SCRIPTS[:1], sessions=9, users=3)
    await simulated(tmp_path, SCRIPTS[:1], sessions=3, users=3, seed=6)
    assert ask(tmp_path, "SELECT count(*) FROM session_starts") == [(6,)]
