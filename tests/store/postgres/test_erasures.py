"""What one server began before another one erased the user, or redacted the session, is refused, and leaves nothing."""

import asyncio
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Literal

import psycopg
import pytest
from msgspec.structs import replace

from store.interface.errors import MemoryMoved, StoreBusy, TurnClaimed, TurnConflict, UserErased
from store.interface.memory_rows import MemoryChange
from store.interface.retention_rows import Policy
from store.interface.rows import NO_TURN
from store.postgres import engine, erasures
from store.postgres.connection import LOCK_TIMEOUT_S, PostgresConnection
from store.postgres_store import PostgresStore
from store.store import Store
from tests.support.effort import repeats
from tests.support.postgres_server import expire_claims
from tests.support.store_rows import MOMENT, Conversation, answered, failure_of, memory_call_of, memory_of

LATER = MOMENT + timedelta(seconds=1)


async def erase(store: Store) -> None:
    await store.maintenance.erase_user("clinic", "ana", Conversation().session_id, LATER)


def rows_with(store: Store, text: str) -> list[str]:
    """Return the tables that have a row with a text."""
    assert isinstance(store, PostgresStore)
    with psycopg.connect(str(store._engine.pool.conninfo)) as connection:
        return [
            table
            for table in store._engine.tables
            if connection.execute(f"SELECT 1 FROM {table} AS t WHERE t::text LIKE %s", [f"%{text}%"]).fetchone()
        ]


async def test_session_begun_before_is_refused_and_a_later_one_is_not(stores: tuple[Store, Store]) -> None:
    one, two = stores
    early, late = Conversation(), Conversation()
    await erase(one)
    call = early.call("a")
    await two.turns.note_call(call)
    await two.turns.note_call(replace(call, ended_at=LATER, outcome="done"))
    with pytest.raises(UserErased):
        await early.create(two)
    assert rows_with(one, early.session_id) == rows_with(one, "ana") == []
    await two.turns.commit(late.next_turn(), NO_TURN, late.session(created_at=LATER))


async def test_an_erasure_waits_for_what_another_server_is_creating(
    stores: tuple[Store, Store], postgres_url: str
) -> None:
    one = stores[0]
    with psycopg.connect(postgres_url) as creating:
        creating.execute("LOCK TABLE erased_users IN ROW SHARE MODE")
        creating.execute("INSERT INTO user_variable_values VALUES ('clinic', 'ana', 'x', '1', 'number', 'api', now())")
        erasing = asyncio.create_task(erase(one))
        await asyncio.sleep(0.3)
    await erasing
    assert rows_with(one, "ana") == []


async def test_waiting_erasure_delays_no_session_and_says_why_it_fails(
    stores: tuple[Store, Store], postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "RETRY_S", 2.0)
    one, two = stores
    with psycopg.connect(postgres_url) as importing:
        importing.execute("LOCK TABLE erased_users IN ROW SHARE MODE")
        erasing = asyncio.create_task(erase(one))
        await asyncio.sleep(0.3)
        async with asyncio.timeout(LOCK_TIMEOUT_S / 2):
            await Conversation(user_id="ben").create(two)
        with pytest.raises(StoreBusy, match="other transactions prevented the write"):
            await erasing
    assert one.ready() is None
    await erase(one)


async def test_session_created_when_an_erasure_begins_waits_for_it(
    stores: tuple[Store, Store], postgres_url: str, conversation: Conversation
) -> None:
    with psycopg.connect(postgres_url, cursor_factory=psycopg.RawCursor) as erasing:
        erasures.note(PostgresConnection(erasing, {}), "clinic", "ana", LATER)
        creating = asyncio.create_task(conversation.create(stores[1]))
        await asyncio.sleep(0.3)
    with pytest.raises(UserErased):
        await creating


async def test_sessions_created_during_an_erasure_do_not_outlive_it(stores: tuple[Store, Store]) -> None:
    one, two = stores
    for _ in range(repeats(40)):
        creations = [Conversation().create(store) for store in (one, two, two)]
        outcomes = await asyncio.gather(*creations[:2], erase(one), creations[2], return_exceptions=True)
        assert {type(each) for each in outcomes if isinstance(each, Exception)} <= {UserErased}
        assert await one.sessions.ids_of_user("clinic", "ana") == []


async def test_turn_that_ends_or_fails_after_erasure_leaves_nothing(
    stores: tuple[Store, Store], conversation: Conversation
) -> None:
    one, two = stores
    await conversation.create(one)
    await erase(one)
    call = conversation.call("a")
    await two.turns.note_call(call)
    with pytest.raises(TurnConflict):
        await conversation.say(two, calls_used=("a",))
    assert rows_with(one, "ana") == []
    await two.turns.note_call(call)
    await two.turns.save_failure(failure_of(conversation))
    assert rows_with(one, conversation.session_id) == ["changed_sessions"]


async def test_a_memory_that_was_read_before_is_not_written_after(stores: tuple[Store, Store]) -> None:
    one, two = stores
    assert one.shared is not None
    change = memory_of("clinic", "ana", Conversation().session_id, "word", 1)
    await erase(one)
    with pytest.raises(MemoryMoved):
        await two.memory.change(replace(change, version=0))
    assert rows_with(one, "ana") == []
    version = await one.shared.memory_version("clinic", "ana")
    assert await two.memory.change(replace(change, version=version)) > version


@pytest.mark.parametrize("action", ["delete", "redact"])
async def test_a_memory_is_not_written_after_its_session_is_removed(
    stores: tuple[Store, Store], conversation: Conversation, action: Literal["delete", "redact"]
) -> None:
    """A server adds the turns of a session to the memory, which knew nothing of it, while another one removes it."""
    one, two = stores
    assert two.shared is not None
    await conversation.create(one)
    version = await two.shared.memory_version("clinic", "ana")
    policies = [Policy(after_days=30, action=action)]
    await one.retention.apply("clinic", [conversation.session_id], policies, MOMENT + timedelta(days=40))
    change = memory_of("clinic", "ana", conversation.session_id, "word", 1)
    with pytest.raises(MemoryMoved):
        await two.memory.change(replace(change, version=version))
    assert "memory_unit_rows" not in rows_with(one, conversation.session_id)


async def test_no_model_is_called_for_a_memory_erased_elsewhere(stores: tuple[Store, Store]) -> None:
    one, two = stores
    change = memory_of("clinic", "ana", Conversation().session_id, "word", 1)
    await two.memory.change(change)
    call = memory_call_of("clinic", "ana", "a")
    await two.memory.begin_call(call)
    await erase(one)
    with pytest.raises(MemoryMoved):
        await two.memory.begin_call(memory_call_of("clinic", "ana", "b"))
    await two.memory.end_call(call)
    assert rows_with(one, "ana") == []
    await two.memory.change(change)
    await two.memory.begin_call(call)


async def test_memory_imported_when_an_erasure_begins_is_erased(
    stores: tuple[Store, Store],
) -> None:
    one, two = stores
    loop, erasing = asyncio.get_running_loop(), []

    def changes() -> Iterator[MemoryChange]:
        erasing.append(asyncio.run_coroutine_threadsafe(erase(one), loop))
        time.sleep(0.5)
        yield memory_of("clinic", "ana", Conversation().session_id, "word", 1)

    await two.memory.import_units("clinic", "ana", await two.memory.stamp("clinic", "ana"), changes())
    await asyncio.wrap_future(erasing[0])
    assert rows_with(one, "ana") == []


async def test_import_begun_before_an_erasure_is_not_written_after_it(
    stores: tuple[Store, Store],
) -> None:
    one, two = stores
    stamp = await two.memory.stamp("clinic", "ana")
    change = memory_of("clinic", "ana", Conversation().session_id, "word", 1)
    await erase(one)
    with pytest.raises(MemoryMoved):
        await two.memory.import_units("clinic", "ana", stamp, [change])
    assert rows_with(one, "ana") == []
    assert change.owner is not None
    later = replace(change, owner=replace(change.owner, created_at=LATER))
    await two.memory.import_units("clinic", "ana", stamp, [later])


async def test_turn_begun_before_the_redaction_is_refused(
    stores: tuple[Store, Store], conversation: Conversation
) -> None:
    one, two = stores
    await conversation.create(one)
    await two.turns.note_call(conversation.call("a"))
    expire_claims(one)
    await one.retention.apply("clinic", [conversation.session_id], [Policy(after_days=30)], MOMENT + timedelta(days=40))
    await two.turns.note_call(replace(conversation.call("a"), **answered()))
    with pytest.raises(TurnClaimed):
        await two.turns.note_call(conversation.call("b"))
    with pytest.raises(TurnConflict):
        await conversation.say(two, calls_used=("a",))
    assert (await one.turns.calls("clinic", conversation.session_id)).rows == []
    assert len(await one.turns.range("clinic", conversation.session_id)) == 1
