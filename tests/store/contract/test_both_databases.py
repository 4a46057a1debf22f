"""The same random work on a database file and on PostgreSQL gives the same answers, whatever is asked."""

import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from store.interface.errors import StoreError
from store.interface.list_rows import SearchFilter, SessionFilter
from store.interface.rows import ForkRow, UserVariableRow
from store.open_store import open_store
from store.store import Store
from tests.support.effort import repeats
from tests.support.store_rows import MOMENT, Conversation, draft_of, failure_of, timer_of, write_of

TENANT = "clinic"
USERS = ["ana", "ben", "cleo"]
STEPS = 60


class Work:
    """Random changes, of which each is made in both databases."""

    def __init__(self, seed: int, stores: tuple[Store, Store]) -> None:
        self.random = random.Random(seed)
        self.stores = stores
        self.talks: list[Conversation] = []
        self.changes: list[Callable[[], Awaitable[None]]] = [
            self.create, self.say, self.say, self.say, self.fork, self.label, self.delete, self.set_variables,
            self.fail, self.arm, self.draft, self.stale, self.erase, self.call,
        ]  # fmt: skip

    async def both(self, work: Callable[[Store], Awaitable[Any]]) -> None:
        """Do work in both, and compare what it returns or raises."""
        outcomes = []
        for store in self.stores:
            try:
                outcomes.append(msgspec.json.decode(msgspec.json.encode(await work(store))))
            except StoreError as error:
                outcomes.append((type(error).__name__, str(error)))
        assert outcomes[0] == outcomes[1]

    def new_id(self) -> str:
        return str(UUID(int=self.random.getrandbits(128), version=4))

    def talk(self) -> Conversation | None:
        return self.random.choice(self.talks) if self.talks else None

    async def create(self) -> None:
        talk = Conversation(TENANT, self.random.choice(USERS), self.new_id())
        key = self.random.choice([None, "a", "b", f"key {len(self.talks)}"])
        turn, session = talk.next_turn(), talk.session(key)
        await self.both(lambda store: store.turns.commit(turn, -1, session))
        if await self.stores[0].sessions.head(TENANT, talk.session_id) is not None:
            self.talks.append(talk)

    async def say(self) -> None:
        talk = self.talk()
        if talk is not None:
            value = self.random.choice([1, "x", None, [1, {"a": 2.5}], "睡眠 \x00 '"])
            name, scope = self.random.choice(["mood", "age"]), self.random.choice(["session", "global"])
            turn = talk.next_turn(variables=[write_of(name, value, scope=scope)])
            await self.both(lambda store: store.turns.commit(turn, turn.turn - 1))

    async def stale(self) -> None:
        talk = self.talk()
        if talk is not None:
            turn = talk.next_turn()
            talk.turns -= 1
            await self.both(lambda store: store.turns.commit(turn, turn.turn))

    async def call(self) -> None:
        talk = self.talk()
        if talk is not None:
            call = talk.call(self.new_id())
            await self.both(lambda store: store.turns.note_call(call))
            turn = talk.next_turn()
            await self.both(lambda store: store.turns.commit(turn, turn.turn - 1, calls_used=(call.call_id,)))

    async def fork(self) -> None:
        talk = self.talk()
        if talk is not None:
            turn = self.random.randrange(talk.turns + 1)
            copy = Conversation(TENANT, talk.user_id, self.new_id())
            row = ForkRow(TENANT, talk.session_id, turn, copy.session_id, None, {"of": turn}, MOMENT, None, None)
            await self.both(lambda store: store.sessions.fork(row))

    async def label(self) -> None:
        talk = self.talk()
        if talk is not None:
            key, metadata = self.random.choice([None, "a", "c"]), {"ward": self.random.choice("xy"), "n": 1}
            await self.both(lambda store: _label(store, talk.session_id, key, metadata))

    async def delete(self) -> None:
        talk = self.talk()
        if talk is not None and self.random.random() < 0.3:
            self.talks.remove(talk)
            await self.both(lambda store: store.maintenance.delete_session(TENANT, talk.session_id))

    async def erase(self) -> None:
        user, receipt = self.random.choice(USERS), self.new_id()
        if self.random.random() < 0.2:
            self.talks = [talk for talk in self.talks if talk.user_id != user]
            await self.both(lambda store: store.maintenance.erase_user(TENANT, user, receipt, MOMENT))

    async def set_variables(self) -> None:
        value = self.random.choice(["calm", 3, None])
        row = UserVariableRow(TENANT, self.random.choice(USERS), "channel", value, "text", "api", MOMENT)
        await self.both(lambda store: store.sessions.set_user_variables([row], 3))

    async def fail(self) -> None:
        talk = self.talk()
        if talk is not None:
            failure = failure_of(talk)
            await self.both(lambda store: store.turns.save_failure(failure))

    async def arm(self) -> None:
        talk = self.talk()
        if talk is not None:
            timers = [timer_of(TENANT, talk.user_id, talk.session_id)] * self.random.randrange(2)
            await self.both(lambda store: store.timers.replace(TENANT, talk.session_id, timers, talk.turns - 1))

    async def draft(self) -> None:
        draft, expected = draft_of(TENANT, self.random.choice(["a", "b"])), self.random.choice([None, 0, 1, 2])
        await self.both(lambda store: store.scripts.save_draft(draft, expected))

    async def compare(self) -> None:
        """Compare everything that can be read."""
        for which in (SessionFilter(), SessionFilter(user_id="ana"), SessionFilter(metadata=(("ward", "x"),))):
            await self.both(lambda store, which=which: store.sessions.page(TENANT, which, limit=7))
        await self.both(lambda store: store.sessions.page(TENANT, SessionFilter(execution_status="error")))
        for words in (("answer",), ("QUESTION", "1"), ("nothing",)):
            search = SearchFilter(words=words)
            await self.both(lambda store, what=search: store.turns.search(TENANT, what, limit=5))
        for user in USERS:
            await self.both(lambda store, user=user: store.sessions.user_variables(TENANT, user))
            await self.both(lambda store, user=user: store.sessions.ids_of_user(TENANT, user))
        for talk in self.talks:
            of = (TENANT, talk.session_id)
            for read in (
                lambda store, of=of: store.sessions.head(*of),
                lambda store, of=of: store.sessions.load(*of),
                lambda store, of=of: store.turns.messages(*of),
                lambda store, of=of: store.turns.recent_messages(*of, 3),
                lambda store, of=of: store.turns.range(*of),
                lambda store, of=of: store.turns.calls(*of),
                lambda store, of=of: store.turns.failures(*of),
                lambda store, of=of: store.turns.variable_history(*of),
                lambda store, of=of: store.sessions.statistics(*of),
                lambda store, of=of: store.timers.page(TENANT, session_id=of[1]),
            ):
                await self.both(read)


async def _label(store: Store, session_id: str, key: str | None, metadata: dict[str, Any]) -> bool:
    before = await store.sessions.start(TENANT, session_id)
    return before is not None and await store.sessions.label(before, key, metadata)


@pytest.mark.gate
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(repeats(20)))
async def test_both_databases_answer_the_same(tmp_path: Path, postgres_url: str, seed: int) -> None:
    stores = (open_store(tmp_path / "file"), open_store(tmp_path / "server", postgres_url))
    work = Work(seed, stores)
    try:
        for step in range(STEPS):
            await work.random.choice(work.changes)()
            if step % 20 == 19:
                await work.compare()
    finally:
        for store in stores:
            await store.close()
