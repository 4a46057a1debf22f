"""Two servers write to one database: each row is written once, and a race has one winner."""

import asyncio
import os
import signal
from datetime import timedelta
from pathlib import Path

import msgspec
import psycopg
import pytest

from store.interface.admission import ProposedTurn
from store.interface.errors import KeyTaken, RowRefused, StoreError, StoreUnavailable, TurnConflict
from store.interface.rows import NO_TURN
from store.open_store import open_store
from store.postgres.committer import GroupCommitter
from store.postgres.connection import LOCK_TIMEOUT_S, PostgresConnection
from store.postgres.due import DELIVERY_LEASE_S, TIMER_LEASE_S
from store.postgres.engine import RETRY_S
from store.postgres_store import PostgresStore
from store.store import Store
from tests.support.effort import repeats
from tests.support.postgres_server import PostgresServer, programs, running_server
from tests.support.store_rows import MOMENT, WEBHOOK, Conversation, timer_of, webhook_of, write_of


async def test_of_two_servers_that_commit_a_turn_one_wins(stores: tuple[Store, Store]) -> None:
    for _ in range(repeats(50)):
        talk = Conversation()
        await talk.create(stores[0])
        rival = talk.next_turn()
        outcomes = await asyncio.gather(*(store.turns.commit(rival, 0) for store in stores), return_exceptions=True)
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["NoneType", "TurnConflict"]


async def test_of_two_servers_that_create_sessions_with_a_key_one_wins(stores: tuple[Store, Store]) -> None:
    for number in range(repeats(50)):
        talks = [Conversation(), Conversation()]
        created = [
            store.turns.commit(talk.next_turn(), NO_TURN, talk.session(f"key {number}"))
            for store, talk in zip(stores, talks, strict=True)
        ]
        outcomes = await asyncio.gather(*created, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {type(None), KeyTaken}


async def test_groups_of_opposite_order_do_not_wait_for_each_other(stores: tuple[Store, Store]) -> None:
    users = [f"user {number}" for number in range(5)]
    talks = [[Conversation(user_id=user) for user in users] for _ in stores]
    for store, of_store in zip(stores, talks, strict=True):
        await asyncio.gather(*(talk.create(store) for talk in of_store))
    for number in range(repeats(20)):
        said = [
            talk.say(store, [write_of(name, number, scope="global") for name in ("a", "b")])
            for store, of_store, order in zip(stores, talks, (1, -1), strict=True)
            for talk in of_store[::order]
        ]
        await asyncio.gather(*said)
    for user in users:
        values = {row.name: row.value for row in await stores[0].sessions.user_variables("clinic", user)}
        assert values.keys() == {"a", "b"}


async def test_due_rows_are_taken_once_and_again_after_their_lease(stores: tuple[Store, Store]) -> None:
    one, _ = stores
    await one.delivery.add_webhook(webhook_of())
    talks = [Conversation() for _ in range(20)]
    for talk in talks:
        await talk.create(one)
        await talk.say(one, deliveries=(talk.delivery(next_attempt_at=MOMENT),))
        timer = msgspec.structs.replace(timer_of("clinic", "ana", talk.session_id), next_attempt_at=MOMENT, due=MOMENT)
        await one.timers.replace("clinic", talk.session_id, [timer], 1)
    now = MOMENT + timedelta(seconds=1)
    taken: list[str] = []
    while len(taken) < len(talks):  # reads at the same moment find the same rows, and all but one get none of them
        timers = await asyncio.gather(*(store.timers.ahead(now, 12) for store in stores for _ in range(2)))
        assert any(found.due for found in timers)
        taken += [row.session_id for found in timers for row in found.due]
        assert timers[0].next_due is not None
    assert len(taken) == len(set(taken)) == len(talks)
    sent = await asyncio.gather(*(store.delivery.ahead({WEBHOOK: 12}, 12, now) for store in stores for _ in range(2)))
    taken = [row.delivery_id for found in sent for row in found.due]
    assert len(taken) == len(set(taken))
    for store in stores:
        assert (await store.timers.ahead(now, 100)).due == []
    later = now + timedelta(seconds=max(TIMER_LEASE_S, DELIVERY_LEASE_S) + 1)
    assert len((await one.timers.ahead(later, 100)).due) == len(talks)


async def test_a_turn_whose_commit_is_not_known_is_looked_up(
    stores: tuple[Store, Store], conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks after COMMIT was sent: the turn is there, or it is committed again; never twice."""
    one, _ = stores
    attempt, losses = GroupCommitter._try, 0

    def lose(self: GroupCommitter, group: list, number: int, *, is_unknown: bool) -> object:
        nonlocal losses
        if losses % 2 == 0 and not is_unknown:
            losses += 1
            attempt(self, group, number, is_unknown=is_unknown)
            raise psycopg.OperationalError("the connection was lost")
        losses += 1
        return attempt(self, group, number, is_unknown=is_unknown)

    await conversation.create(one)
    monkeypatch.setattr(GroupCommitter, "_try", lose)
    for _ in range(6):
        await conversation.say(one)
    assert losses >= 6
    turns = await one.turns.range("clinic", conversation.session_id)
    assert [turn.turn for turn in turns] == list(range(7))
    conversation.turns = 1
    with pytest.raises(TurnConflict):
        await conversation.say(one)


async def test_committed_turn_is_not_refused_with_a_bad_row_in_group(
    stores: tuple[Store, Store], conversation: Conversation, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    """One turn is committed as the connection breaks; the other one waits for a lock, and then is refused."""
    one, other = stores[0], Conversation()
    assert isinstance(one, PostgresStore)
    for talk in (conversation, other):
        await talk.create(one)
    bad = other.delivery(delivery_id="no UUID")
    group = [
        ProposedTurn(conversation.next_turn(), 0, None),
        ProposedTurn(other.next_turn(), 0, None, deliveries=(bad,)),
    ]
    attempt = GroupCommitter._try
    with psycopg.connect(postgres_url) as locking:
        locking.execute("SELECT 1 FROM session_heads WHERE session_id = %s FOR UPDATE", [other.session_id])

        def lose(self: GroupCommitter, group: list, number: int, *, is_unknown: bool) -> object:
            outcomes = attempt(self, group, number, is_unknown=is_unknown)
            if not locking.closed:
                locking.close()
                raise psycopg.OperationalError("the connection was lost")
            return outcomes

        monkeypatch.setattr(GroupCommitter, "_try", lose)
        outcomes = await asyncio.to_thread(GroupCommitter(one._engine).commit, group)
    assert [type(outcome) for outcome in outcomes] == [type(None), RowRefused]


async def test_session_locked_by_another_transaction_delays_no_other(
    stores: tuple[Store, Store], conversation: Conversation, postgres_url: str
) -> None:
    one, other = stores[0], Conversation()
    for talk in (conversation, other):
        await talk.create(one)
    with psycopg.connect(postgres_url) as locking:
        locking.execute("SELECT 1 FROM session_heads WHERE session_id = %s FOR UPDATE", [conversation.session_id])
        waiting = asyncio.create_task(conversation.say(one))
        await asyncio.sleep(0.2)
        async with asyncio.timeout(RETRY_S / 2):
            await other.say(one)
        assert not waiting.done()
    await waiting


async def test_row_of_another_transaction_delays_no_other_turn(
    stores: tuple[Store, Store], conversation: Conversation, postgres_url: str
) -> None:
    """Of two servers, one is stopped after it has inserted a session with the key, before its COMMIT."""
    one, new = stores[0], Conversation()
    await conversation.create(one)
    assert isinstance(one, PostgresStore)
    with psycopg.connect(postgres_url, cursor_factory=psycopg.RawCursor) as writing:
        PostgresConnection(writing, one._engine.tables).insert("session_starts", [Conversation().session("key")])
        waiting = asyncio.create_task(one.turns.commit(new.next_turn(), NO_TURN, new.session("key")))
        await asyncio.sleep(0.1)
        for _ in range(3):
            async with asyncio.timeout(LOCK_TIMEOUT_S / 2):
                await conversation.say(one)
        assert not waiting.done()
        writing.commit()
    with pytest.raises(KeyTaken):
        await waiting


async def test_a_row_that_is_there_already_refuses_only_its_own_turn(
    stores: tuple[Store, Store], conversation: Conversation
) -> None:
    one, other = stores[0], Conversation()
    for talk in (conversation, other):
        await talk.create(one)
    twice = (other.delivery(),) * 2
    said = [conversation.say(one), other.say(one, deliveries=twice)]
    outcomes = await asyncio.gather(*said, return_exceptions=True)
    assert [isinstance(outcome, RowRefused) for outcome in outcomes] == [False, True]
    assert one.ready() is None


@pytest.mark.gate
@pytest.mark.timeout(200)
async def test_killed_database_loses_no_acknowledged_turn(tmp_path: Path) -> None:
    found = programs()
    if found is None:
        pytest.skip("PostgreSQL is not installed")
    with running_server(found, options=()) as server:
        url = server.new_database()
        store = open_store(tmp_path, url)
        talks = [Conversation() for _ in range(4)]
        for talk in talks:
            await talk.create(store)
        for _ in range(max(2, repeats(20))):
            await _kill_during_turns(server, store, talks)
        for talk in talks:
            head = await store.sessions.head("clinic", talk.session_id)
            assert head is not None
            assert head.turn == talk.turns - 1
        await store.close()


async def _kill_during_turns(server: PostgresServer, store: Store, talks: list[Conversation]) -> None:
    """Commit turns while the server is killed and started again."""
    is_over = asyncio.Event()

    async def talk_on(talk: Conversation) -> None:
        while not is_over.is_set():
            before = talk.turns
            try:
                await talk.say(store)
            except StoreUnavailable:
                head = await _head_of(store, talk)
                assert head in {before - 1, before}
                talk.turns = head + 1
            except StoreError:
                talk.turns = await _head_of(store, talk) + 1

    talking = [asyncio.create_task(talk_on(talk)) for talk in talks]
    await asyncio.sleep(0.3)
    os.kill(server.process.pid, signal.SIGKILL)
    await asyncio.to_thread(server.process.wait)
    await asyncio.to_thread(server.restart)
    await asyncio.sleep(0.3)
    is_over.set()
    await asyncio.gather(*talking)


async def _head_of(store: Store, talk: Conversation) -> int:
    """Return the latest turn, once the database can be read."""
    async with asyncio.timeout(60):
        while True:
            try:
                head = await store.sessions.head(talk.tenant, talk.session_id)
            except StoreError:
                await asyncio.sleep(0.1)
                continue
            assert head is not None
            return head.turn
