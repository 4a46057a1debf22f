"""A simulated record is one as a server would have written it: it can be replayed, served and gone on with."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from api.app import utc_now
from api.caller import TENANT
from api.catalogue import Catalogue
from api.embedded import open_runtime
from api.replaying.recorded import find_session
from api.replaying.run import Source, replay
from api.settings import EXAMPLES
from api.simulation.conversation import Rules
from api.simulation.simulate import NotSimulated, Simulated, readings_of, simulate
from api.simulation.visits import Wish
from runtime.run import Limits
from store.record import Record

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
VERSION = """\
script: greeting
version: "{version}"
phases:
  - phase: main
    topics:
      - topic: hello
        actions: [{{ask: "{question}", id: ask_name, output: [{{get: name}}]}}]
"""


async def simulated(folder: Path, scripts: Sequence[Path], *, jobs: int = 1, **wished: Any) -> Simulated:
    """Simulates into a folder."""
    wish = Wish(**{"sessions": 24, "users": 8, "days": 14, "seed": 5, "until": UNTIL} | wished)
    record, counted = Record.open(folder), Simulated()
    try:
        await simulate(record, wish, readings_of(scripts), Rules(TENANT), jobs, counted)
    finally:
        await record.close()
    return counted


def ask(folder: Path, select: str) -> list[Any]:
    """The rows of a query over the record of a folder."""
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{folder}/cuebook.duckdb' AS cuebook (READ_ONLY)")
        connection.execute("USE cuebook")
        connection.execute("SET TimeZone = 'UTC'")
        return connection.execute(select).fetchall()


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with simulated traffic; nobody writes to it."""
    folder = tmp_path_factory.mktemp("traffic")
    asyncio.run(simulated(folder, SCRIPTS))
    return folder


def test_every_session_is_whole_and_within_its_days(traffic: Path):
    ((sessions, users, first),) = ask(
        traffic, "SELECT count(*), count(DISTINCT user_id), min(created_at) FROM session_starts"
    )
    assert (sessions, users) == (24, 8)
    assert first >= UNTIL - timedelta(days=14)
    turns = ask(traffic, "SELECT count(*), max(turn), max(finished_at) FROM turns GROUP BY session_id")
    assert len(turns) == 24
    assert all(count == last + 1 for count, last, _ in turns)
    assert max(finished for *_, finished in turns) <= UNTIL + timedelta(seconds=1)


def test_turns_stand_in_the_record_in_the_order_of_time(traffic: Path):
    moments = [moment for (moment,) in ask(traffic, "SELECT started_at FROM turns ORDER BY rowid")]
    assert moments == sorted(moments)


def test_people_are_misunderstood_leave_and_come_back(traffic: Path):
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


def test_a_script_is_talked_to_in_its_language(traffic: Path):
    said = ask(
        traffic,
        "SELECT content FROM messages JOIN session_starts USING (session_id) WHERE role = 'user'"
        " AND script_id = '睡眠回访' AND length(content) > 3",
    )
    assert said
    assert sum(any("一" <= letter <= "鿿" for letter in content) for (content,) in said) > len(said) / 2


async def test_sessions_come_out_again_as_they_were_recorded(traffic: Path):
    record = Record.open(traffic, read_only=True)
    try:
        source = Source(record, Catalogue(record, utc_now), Limits())
        for row in (await record.list_sessions(TENANT, limit=50)).rows:
            session = await find_session(record, TENANT, row.session_id)
            outcomes = {turn.outcome async for turn in replay(source, session)}
            assert outcomes == {"same"}, row.script_id
    finally:
        await record.close()


async def test_the_same_seed_makes_the_same_record_in_one_process_or_in_two(traffic: Path, tmp_path: Path):
    await simulated(tmp_path / "again", SCRIPTS, jobs=2)
    for table in ("turns", "session_starts", "user_variables", "scripts"):
        order = (
            "ORDER BY user_variables::VARCHAR" if table == "user_variables" else "ORDER BY rowid"
        )  # those are merged
        select = f"SELECT md5(string_agg({table}::VARCHAR, '\n' {order})), count(*) FROM {table}"
        assert ask(tmp_path / "again", select) == ask(traffic, select), table
    await simulated(tmp_path / "other", SCRIPTS[:1], seed=6, sessions=3, users=3)
    ids = "SELECT session_id, user_id FROM session_starts"
    assert not {id for row in ask(tmp_path / "other", ids) for id in row} & {
        id for row in ask(traffic, ids) for id in row
    }


async def test_a_server_goes_on_with_an_open_session(tmp_path: Path):
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


async def test_turns_that_fail_are_recorded_as_failures(tmp_path: Path):
    script = tmp_path / "failing.yaml"
    script.write_text(FAILING)
    counted = await simulated(tmp_path / "data", [script], sessions=6, users=6)
    assert counted.failures > 0
    assert counted.completed == 0
    codes = ask(tmp_path / "data", "SELECT DISTINCT code, action_id FROM turn_failures")
    assert codes == [("ACTION_EXECUTION_ERROR", "divide")]


async def test_a_second_version_takes_the_place_of_the_first_halfway(tmp_path: Path):
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


async def test_who_stops_it_has_a_whole_record(tmp_path: Path):
    counted, record = Simulated(), Record.open(tmp_path)
    wish = Wish(sessions=100_000, users=9_000, days=14, seed=5, until=UNTIL)
    some = asyncio.Event()
    simulating = asyncio.create_task(
        simulate(record, wish, readings_of(SCRIPTS[:1]), Rules(TENANT), 1, counted, lambda _: some.set())
    )
    async with asyncio.timeout(60):
        await some.wait()
    simulating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await simulating
    await record.close()
    assert ask(tmp_path, "SELECT count(*) FROM turns") == [(counted.turns,)]
    assert ask(tmp_path, "SELECT count(*) FROM session_starts") == [(counted.sessions,)]
    torn = "SELECT 1 FROM turns GROUP BY session_id HAVING count(*) <> max(turn) + 1"
    assert ask(tmp_path, torn) == []


async def test_a_seed_is_not_simulated_twice_into_one_record(tmp_path: Path):
    await simulated(tmp_path, SCRIPTS[:1], sessions=3, users=3)
    with pytest.raises(NotSimulated, match="seed 5"):
        await simulated(tmp_path, SCRIPTS[:1], sessions=9, users=3)
    await simulated(tmp_path, SCRIPTS[:1], sessions=3, users=3, seed=6)
    assert ask(tmp_path, "SELECT count(*) FROM session_starts") == [(6,)]
