"""A session's move to another version is a turn and a row, both or neither; older files learn of it when opened."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from store import schema
from store.analytics.query import query
from store.database import FILE_NAME, Database
from store.errors import RowRefused, TurnConflict
from store.insert import as_list, insert_statement
from store.record import Record
from store.session_list import SessionFilter

ROOT = Path(__file__).parents[2]


async def test_a_session_runs_the_version_it_moved_to_last(record, conversation, rows) -> None:
    await conversation.create(record)
    other = rows.Conversation()
    await other.create(record)
    first = await conversation.migrate(record)
    await conversation.say(record)
    second = await conversation.migrate(record, "digest 3")
    head = await record.session_head("clinic", conversation.session_id)
    assert (head.digest, head.script_version, head.turn) == ("digest 3", 3, 3)
    assert await record.migrations("clinic", conversation.session_id) == [second, first]
    listed = {row.session_id: row.digest for row in (await record.list_sessions("clinic")).rows}
    assert listed == {conversation.session_id: "digest 3", other.session_id: "digest"}
    filtered = (await record.list_sessions("clinic", SessionFilter(status="active"))).rows
    assert {row.session_id: row.script_version for row in filtered} == {conversation.session_id: 3, other.session_id: 1}
    assert (await record.session_by_key("clinic", "none")) is None


async def test_each_turn_says_which_version_it_ran_on(tmp_path, rows) -> None:
    record, conversation = Record.open(tmp_path), rows.Conversation()
    await conversation.create(record)
    await conversation.migrate(record)
    await conversation.say(record)
    await conversation.migrate(record, "digest 3")
    await record.close()
    found = query(tmp_path / FILE_NAME, "SELECT turn, digest, script_version FROM turn_scripts ORDER BY turn").rows
    assert found == [(0, "digest", 1), (1, "digest 2", 2), (2, "digest 2", 2), (3, "digest 3", 3)]
    assert query(tmp_path / FILE_NAME, "SELECT digest, script_version, turn FROM sessions").rows == [("digest 3", 3, 3)]


async def test_of_two_moves_from_one_turn_one_wins(record, conversation) -> None:
    await conversation.create(record)
    turn = conversation.next_turn()
    moves = [record.commit(turn, 0, migration=conversation.migration(1, f"digest {n}")) for n in (2, 3)]
    outcomes = await asyncio.gather(*moves, return_exceptions=True)
    assert sorted(type(outcome) for outcome in outcomes if outcome) == [TurnConflict]
    assert len(await record.migrations("clinic", conversation.session_id)) == 1


async def test_a_move_that_is_not_that_of_its_turn_is_refused(record, conversation, rows) -> None:
    await conversation.create(record)
    for moved in (conversation.migration(2), rows.Conversation().migration(1)):
        with pytest.raises(RowRefused):
            await record.commit(conversation.next_turn(), 0, migration=moved)
        conversation.turns = 1
    with pytest.raises(RowRefused):
        await record.commit(conversation.next_turn(), 0, migration=conversation.migration(1, why=[object()]))
    assert (await record.session_head("clinic", conversation.session_id)).digest == "digest"
    assert await record.migrations("clinic", conversation.session_id) == []


def test_an_older_file_with_turns_in_it_learns_of_moves(tmp_path, monkeypatch, rows) -> None:
    every = schema.known_migrations()
    with monkeypatch.context() as patched:
        patched.setattr(schema, "known_migrations", lambda: every[:1])
        database = Database.open(tmp_path)
        conversation = rows.Conversation()
        write_as_before(database, conversation)
        database.close()
    assert query_of(tmp_path, "SELECT count(*) FROM turns") == [(2,)]

    async def go_on() -> None:
        record = Record.open(tmp_path)
        head = await record.session_head("clinic", conversation.session_id)
        assert (head.digest, head.turn, head.message_count) == ("digest", 1, 4)
        await conversation.migrate(record)
        assert (await record.session_head("clinic", conversation.session_id)).digest == "digest 2"
        await record.close()

    asyncio.run(go_on())
    assert query_of(tmp_path, "SELECT turn, digest FROM turn_scripts ORDER BY turn") == [
        (0, "digest"),
        (1, "digest"),
        (2, "digest 2"),
    ]


def write_as_before(database: Database, conversation) -> None:
    """A session and two turns, with the statements of a program that knows only the first migration."""
    cursor = database.cursor()
    cursor.execute(insert_statement(cursor, "session_starts"), [as_list([msgspec.json.encode(conversation.session())])])
    for number in range(2):
        turn = msgspec.json.decode(msgspec.json.encode(conversation.next_turn()))
        turn |= {"message_count": 2 * number + 2, "event_count": 3 * number + 3}
        cursor.execute(insert_statement(cursor, "turns"), [as_list([msgspec.json.encode(turn)])])
    cursor.close()


def query_of(folder: Path, sql: str) -> list[tuple[object, ...]]:
    database = Database.open(folder)
    found = database.cursor().execute(sql).fetchall()
    database.close()
    return found


MOVE = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from conftest import Conversation
from store.record import Record

async def main():
    record = Record.open(Path(sys.argv[1]))
    conversation = Conversation()
    await conversation.create(record)
    print("open", flush=True)
    for n in range(100000):
        await conversation.migrate(record, f"digest {n % 10}")
        print(n, flush=True)

asyncio.run(main())
"""


def test_a_process_killed_while_it_moves_sessions_leaves_both_or_neither(tmp_path: Path) -> None:
    for moves in (3, 12, 30):
        with subprocess.Popen(
            [sys.executable, "-c", MOVE, str(tmp_path), str(Path(__file__).parent)],
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
