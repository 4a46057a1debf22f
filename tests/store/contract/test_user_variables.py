"""Global variables are in turns, in a table and in memory: every way to read them gives the same values."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from store.duckdb import variable_cache, writer
from store.duckdb.connection import with_cursor
from store.duckdb.statements import Cursor
from store.duckdb.variable_cache import UserVariableCache
from store.duckdb.variables import merge_writes, unmerged_turns, user_variables
from store.interface.errors import StoreUnavailable
from store.interface.rows import ForkRow, SessionDocument, UserVariableRow
from store.open_store import open_store
from store.postgres_store import PostgresStore
from store.store import Store
from tests.support.duckdb_engine import engine_of
from tests.support.effort import repeats
from tests.support.store_rows import MOMENT, Conversation, write_of

TENANT = "clinic"
USERS = ("ana", "ben")
NAMES = ("age", "name", "visits")


def value_of(name: str, value: Any, user_id: str = "ana") -> UserVariableRow:
    return UserVariableRow(TENANT, user_id, name, value, "text", "api", MOMENT)


class Users:
    """Users with two sessions each, and the values that their variables should have."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.sessions = {user_id: [Conversation(TENANT, user_id) for _ in range(2)] for user_id in USERS}
        self.expected: dict[str, dict[str, Any]] = {user_id: {} for user_id in USERS}

    async def step(self, store: Store) -> None:
        """Make one random change."""
        user_id = self.random.choice(USERS)
        change = self.random.choices(
            [self.talk, self.set_outside, self.delete_session, self.import_session, self.fork, self.erase],
            [12, 3, 1, 1, 1, 1],
        )[0]
        await change(store, user_id)

    async def talk(self, store: Store, user_id: str) -> None:
        said = self.random.choice(self.sessions[user_id])
        if said.turns == 0:
            await said.create(store)
        writes = [(self.random.choice(NAMES), self.random.choice([None, 1, "x", [1]])) for _ in range(3)]
        await said.say(store, [write_of(name, value, scope="global") for name, value in writes])
        self._expect(user_id, dict(writes))

    async def set_outside(self, store: Store, user_id: str) -> None:
        name, value = self.random.choice(NAMES), self.random.choice([None, 2])
        await store.sessions.set_user_variables([value_of(name, value, user_id)], 10)
        self._expect(user_id, {name: value})

    async def delete_session(self, store: Store, user_id: str) -> None:
        deleted = self.sessions[user_id].pop(0)
        await store.maintenance.delete_session(TENANT, deleted.session_id)
        self.sessions[user_id].append(Conversation(TENANT, user_id))

    async def import_session(self, store: Store, user_id: str) -> None:
        """Import a session; it brings only variables that are not set."""
        other = Conversation(TENANT, user_id)
        values = [value_of(name, "imported", user_id) for name in NAMES[:2]]
        await store.sessions.import_session(
            SessionDocument(
                session=other.session(),
                turns=[other.next_turn(variables=[write_of("age", "imported", scope="global")])],
                migrations=[],
                calls=[],
                texts=[],
                variables=values,
            )
        )
        self.expected[user_id] = {row.name: row.value for row in values} | self.expected[user_id]

    async def fork(self, store: Store, user_id: str) -> None:
        """Fork a session: what it wrote is not written again."""
        source = self.sessions[user_id][0]
        if source.turns:
            turn = source.turns - 1
            await store.sessions.fork(
                ForkRow(TENANT, source.session_id, turn, str(uuid4()), None, {}, MOMENT, None, None)
            )

    async def erase(self, store: Store, user_id: str) -> None:
        await store.maintenance.erase_user(TENANT, user_id, f"receipt {self.random.random()}", MOMENT)
        self.sessions[user_id] = [Conversation(TENANT, user_id) for _ in range(2)]
        self.expected[user_id] = {}

    def _expect(self, user_id: str, writes: dict[str, Any]) -> None:
        values = self.expected[user_id] | writes
        self.expected[user_id] = {name: value for name, value in values.items() if value is not None}


def in_view(cursor: Cursor, user_id: str) -> dict[str, Any]:
    """Return the values that SQL reads."""
    rows = cursor.execute("SELECT name, value FROM user_variables WHERE user_id = ?", [user_id]).fetchall()
    return {name: msgspec.json.decode(value) for name, value in rows}


async def read_in_every_way(store: Store, user_id: str) -> list[dict[str, Any]]:
    """Return the values from the cache, from the tables and from the view."""
    cached = await store.sessions.user_variables(TENANT, user_id)
    if isinstance(store, PostgresStore):
        return [{row.name: row.value for row in cached}] * 3
    stored = await engine_of(store).read(lambda connection: user_variables(connection.cursor, TENANT, user_id))
    seen = await engine_of(store).read(lambda connection: in_view(connection.cursor, user_id))
    return [{row.name: row.value for row in cached}, {row.name: row.value for row in stored}, seen]


@pytest.mark.gate
@pytest.mark.parametrize("seed", range(repeats(20)))
async def test_every_read_gives_the_same_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    random = Random(seed)
    monkeypatch.setattr(writer, "MERGE_TURNS", random.choice([1, 3, 10, 1_000]))
    users, store = Users(random), open_store(tmp_path)
    for _ in range(40):
        await users.step(store)
        if random.random() < 0.05:
            await store.maintenance.compact()
        if random.random() < 0.05:
            await store.close()
            store = open_store(tmp_path)
        for user_id in USERS:
            assert await read_in_every_way(store, user_id) == [users.expected[user_id]] * 3
    await store.close()


@pytest.mark.database_file
async def test_writes_are_merged_once(store: Store) -> None:
    talk = Conversation()
    await talk.create(store)
    await talk.say(store, [write_of("last", 1, scope="global")])
    engine = engine_of(store)
    await engine.write(with_cursor(merge_writes))
    assert await engine.read(with_cursor(unmerged_turns)) == 0
    assert await read_in_every_way(store, "ana") == [{"last": 1}] * 3
    await talk.say(store, [write_of("last", 2, scope="global")])
    assert await engine.read(with_cursor(unmerged_turns)) == 1
    assert await read_in_every_way(store, "ana") == [{"last": 2}] * 3


async def test_turns_of_one_group_count_in_their_order(store: Store) -> None:
    talks = [Conversation() for _ in range(5)]
    await asyncio.gather(*(each.create(store) for each in talks))
    await store.sessions.user_variables(TENANT, "ana")
    await asyncio.gather(
        *(each.say(store, [write_of("last", number, scope="global")]) for number, each in enumerate(talks))
    )
    assert await read_in_every_way(store, "ana") == [{"last": 4}] * 3


async def test_a_read_that_a_write_overtakes_is_not_cached() -> None:
    cache, may_return = UserVariableCache(), asyncio.Event()

    async def slow() -> list[UserVariableRow]:
        await may_return.wait()
        return [value_of("name", "old")]

    async def quick() -> list[UserVariableRow]:
        return [value_of("name", "new")]

    reading = asyncio.create_task(cache.get((TENANT, "ana"), slow))
    await asyncio.sleep(0)
    cache.apply([value_of("name", "new")])
    may_return.set()
    assert await reading == [value_of("name", "old")]
    assert await cache.get((TENANT, "ana"), quick) == [value_of("name", "new")]
    assert await cache.get((TENANT, "ana"), slow) == [value_of("name", "new")]


async def test_a_failed_read_is_forgotten() -> None:
    cache = UserVariableCache()

    async def failing() -> list[UserVariableRow]:
        raise StoreUnavailable("no")

    async def none() -> list[UserVariableRow]:
        return []

    with pytest.raises(StoreUnavailable):
        await cache.get((TENANT, "ana"), failing)
    assert await cache.get((TENANT, "ana"), none) == []
    assert await cache.get((TENANT, "ana"), failing) == []


async def test_the_number_of_cached_values_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variable_cache, "VARIABLES_MAX", 10)
    cache, reads = UserVariableCache(), []

    async def get(user_id: str, count: int) -> None:
        async def read() -> list[UserVariableRow]:
            reads.append(user_id)
            return [value_of(f"name {number}", number, user_id) for number in range(count)]

        await cache.get((TENANT, user_id), read)

    for user_id, count in (
        ("ana", 3),
        ("ben", 3),
        ("ana", 3),
        ("cid", 3),
        ("ana", 3),
        ("ben", 3),
        ("eve", 20),
        ("eve", 20),
    ):
        await get(user_id, count)
    assert reads == ["ana", "ben", "cid", "ben", "eve", "eve"]


async def test_writes_of_one_turn_are_in_their_order_on_all_pages(store: Store) -> None:
    talk = Conversation()
    await talk.create(store)
    await talk.say(store, [write_of("visits", number, scope="global") for number in range(300)])
    pages = [await store.sessions.user_history(TENANT, "ana", offset=offset, limit=50) for offset in range(0, 350, 50)]
    assert [row.new for page in pages for row in page] == list(range(300))


async def test_concurrent_writes_outside_sessions_are_in_their_order(store: Store) -> None:
    for number in range(60):
        await store.sessions.set_user_variables([value_of("visits", number)], 10)
    pages = [await store.sessions.user_history(TENANT, "ana", offset=offset, limit=7) for offset in range(0, 60, 7)]
    assert len({row.written_at for page in pages for row in page}) == 1
    assert [row.new for page in pages for row in page] == list(range(60))
