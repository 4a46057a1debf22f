"""A session's move to another version is a turn and a row, both or neither; older files learn of it when opened."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import msgspec
import pytest

from store.analytics.query import query
from store.duckdb import schema
from store.duckdb.database import Database
from store.duckdb.statements import Inserts
from store.interface.errors import RowRefused, TurnConflict
from store.interface.list_rows import SessionFilter
from store.interface.private_files import FILE_NAME
from store.open_store import open_store
from store.store import Store
from tests.support.paths import ROOT
from tests.support.store_rows import Conversation


async def test_a_session_runs_the_version_it_moved_to_last(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    other = Conversation()
    await other.create(store)
    first = await conversation.migrate(store)
    await conversation.say(store)
    second = await conversation.migrate(store, "digest 3")
    head = await store.sessions.head("clinic", conversation.session_id)
    assert (head.digest, head.script_version, head.turn) == ("digest 3", 3, 3)
    assert await store.sessions.migrations("clinic", conversation.session_id) == [second, first]
    listed = {row.session_id: row.digest for row in (await store.sessions.page("clinic")).rows}
    assert listed == {conversation.session_id: "digest 3", other.session_id: "digest"}
    filtered = (await store.sessions.page("clinic", SessionFilter(status="active"))).rows
    assert {row.session_id: row.script_version for row in filtered} == {conversation.session_id: 3, other.session_id: 1}
    assert (await store.sessions.by_key("clinic", "none")) is None


async def test_each_turn_says_which_version_it_ran_on(tmp_path: Path) -> None:
    store, conversation = open_store(tmp_path), Conversation()
    await conversation.create(store)
    await conversation.migrate(store)
    await conversation.say(store)
    await conversation.migrate(store, "digest 3")
    await store.close()
    found = query(tmp_path / FILE_NAME, "SELECT turn, digest, script_version FROM turn_scripts ORDER BY turn").rows
    assert found == [(0, "digest", 1), (1, "digest 2", 2), (2, "digest 2", 2), (3, "digest 3", 3)]
    assert query(tmp_path / FILE_NAME, "SELECT digest, script_version, turn FROM sessions").rows == [("digest 3", 3, 3)]


async def test_of_two_moves_from_one_turn_one_wins(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    turn = conversation.next_turn()
    moves = [store.turns.commit(turn, 0, migration=conversation.migration(1, f"digest {n}")) for n in (2, 3)]
    outcomes = await asyncio.gather(*moves, return_exceptions=True)
    assert sorted(type(outcome) for outcome in outcomes if outcome) == [TurnConflict]
    assert len(await store.sessions.migrations("clinic", conversation.session_id)) == 1


async def test_a_move_that_is_not_that_of_its_turn_is_refused(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    for moved in (conversation.migration(2), Conversation().migration(1)):
        with pytest.raises(RowRefused):
            await store.turns.commit(conversation.next_turn(), 0, migration=moved)
        conversation.turns = 1
    with pytest.raises(RowRefused):
        await store.turns.commit(conversation.next_turn(), 0, migration=conversation.migration(1, why=[object()]))
    assert (await store.sessions.head("clinic", conversation.session_id)).digest == "digest"
    assert await store.sessions.migrations("clinic", conversation.session_id) == []


def test_an_older_file_with_turns_in_it_learns_of_moves(tmp_path: Path) -> None:
    conversation, path = Conversation(), tmp_path / FILE_NAME
    with duckdb.connect(path) as earlier:
        schema.migrate(earlier, path, schema.known_migrations()[:1])
        write_as_before(earlier, conversation)
        assert earlier.execute("SELECT count(*) FROM turns").fetchall() == [(2,)]

    async def go_on() -> None:
        store = open_store(tmp_path)
        head = await store.sessions.head("clinic", conversation.session_id)
        assert (head.digest, head.turn, head.message_count) == ("digest", 1, 4)
        await conversation.migrate(store)
        assert (await store.sessions.head("clinic", conversation.session_id)).digest == "digest 2"
        await store.close()

    asyncio.run(go_on())
    assert query_of(tmp_path, "SELECT turn, digest FROM turn_scripts ORDER BY turn") == [
        (0, "digest"),
        (1, "digest"),
        (2, "digest 2"),
    ]


def write_as_before(connection: duckdb.DuckDBPyConnection, conversation) -> None:
    """Write a session and two turns with the statements of a program that knows only the first migration."""
    start = msgspec.json.decode(msgspec.json.encode(conversation.session()))
    del start["redacted_at"]  # it came later
    Inserts(connection).insert("session_starts", [msgspec.json.encode(start)])
    for number in range(2):
        turn = msgspec.json.decode(msgspec.json.encode(conversation.next_turn()))
        turn |= {"message_count": 2 * number + 2, "event_count": 3 * number + 3}
        Inserts(connection).insert("turns", [msgspec.json.encode(turn)])


def query_of(folder: Path, sql: str) -> list[tuple[object, ...]]:
    database = Database.open(folder)
    found = database.cursor().execute(sql).fetchall()
    database.close()
    return found


MOVE = """
import asyncio, sys
from pathlib import Path
from store.open_store import open_store
from store.store import Store
from tests.support.store_rows import Conversation

async def main():
    store = open_store(Path(sys.argv[1]))
    conversation = Conversation()
    await conversation.create(store)
    print("open", flush=True)
    for n in range(100000):
        await conversation.migrate(store, f"digest {n % 10}")
        print(n, flush=True)

asyncio.run(main())
"""


@pytest.mark.slow
def test_process_killed_during_a_migration_moves_all_or_none(tmp_path: Path) -> None:
    for moves in (3, 12, 30):
        with subprocess.Popen(
            [sys.executable, "-c", MOVE, str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        ) as mover:
            assert mover.stdout is not None
            assert [mover.stdout.readline() for _ in range(moves)] == ["open\n", *(f"{n}\n" for n in range(moves - 1))]
            mover.send_signal(signal.SIGKILL)
    torn = """
        SELECT count(*) FROM session_migrations
        FULL JOIN (SELECT * FROM turns WHERE turn > 0) USING (tenant, session_id, turn)
        WHERE kind IS NULL OR state IS NULL"""
    assert query_of(tmp_path, torn) == [(0,)]
    ((moved,),) = query_of(tmp_path, "SELECT count(*) FROM session_migrations")
    assert moved >= 2 + 11 + 29
