"""A restart of PostgreSQL breaks all idle connections; no read or write of the next minute fails because of that."""

import asyncio
import time
from pathlib import Path

import psycopg
import pytest
from structlog.testing import capture_logs

from store.interface.admission import ProposedTurn
from store.interface.errors import StoreUnavailable
from store.open_store import open_store
from store.postgres import committer as committing
from store.postgres.committer import GroupCommitter
from store.postgres.engine import THREADS
from store.postgres_store import PostgresStore
from store.store import Store
from tests.support.store_rows import Conversation, webhook_of, write_of


async def break_connections(store: PostgresStore, url: str) -> None:
    """Let the pool open as many connections as it may, and end them all."""
    reads = (store._engine.read(lambda connection: connection.rows("SELECT pg_sleep(0.3)")) for _ in range(THREADS))
    await asyncio.gather(*reads)
    with psycopg.connect(url) as connection:
        ended = connection.execute(
            """SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()"""
        ).fetchall()
    assert ended[0][0] > 2


async def test_reads_and_writes_survive_the_loss_of_idle_connections(tmp_path: Path, postgres_url: str) -> None:
    store = open_store(tmp_path, postgres_url)
    assert isinstance(store, PostgresStore)
    talk = Conversation()
    await talk.create(store)
    await break_connections(store, postgres_url)
    await asyncio.gather(*(store.sessions.head("clinic", talk.session_id) for _ in range(THREADS)))
    await break_connections(store, postgres_url)
    await store.delivery.add_webhook(webhook_of())
    await break_connections(store, postgres_url)
    await talk.say(store)
    await store.close()


async def test_lost_connections_are_lines_of_the_log(
    tmp_path: Path, postgres_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = open_store(tmp_path, postgres_url)
    assert isinstance(store, PostgresStore)
    await break_connections(store, postgres_url)
    with capture_logs() as lines:
        await store.sessions.head("clinic", Conversation().session_id)
    await store.close()
    assert {line["event"] for line in lines} == {"a connection to the database has a problem"}
    assert all("connection" in line["problem"] for line in lines)
    assert capsys.readouterr().err == ""


async def test_turn_committed_before_the_loss_does_not_replace_a_later(
    stores: tuple[Store, Store], conversation: Conversation, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    """Another session of the group was locked, so it is committed only after the other server's next turn."""
    one, two, other = *stores, Conversation(user_id="ben")
    assert isinstance(one, PostgresStore)
    assert isinstance(two, PostgresStore)
    await conversation.create(one)
    await other.create(one)
    first = conversation.next_turn(variables=[write_of("name", "old", scope="global")])
    later = conversation.next_turn(variables=[write_of("name", "new", scope="global")], status="completed")
    attempt, committer = GroupCommitter._try, GroupCommitter(one._engine)
    with psycopg.connect(postgres_url) as locking:
        locking.execute("SELECT 1 FROM session_heads WHERE session_id = %s FOR UPDATE", [other.session_id])

        def lose(self: GroupCommitter, group: list, number: int, *, is_unknown: bool) -> object:
            outcomes = attempt(self, group, number, is_unknown=is_unknown)
            if self is committer and not is_unknown:
                assert GroupCommitter(two._engine).commit([ProposedTurn(later, 1, None)]) == [None]
                locking.rollback()
                raise psycopg.OperationalError("the connection was lost")
            return outcomes

        monkeypatch.setattr(GroupCommitter, "_try", lose)
        group = [ProposedTurn(first, 0, None), ProposedTurn(other.next_turn(), 0, None)]
        assert await asyncio.to_thread(committer.commit, group) == [None, None]
        heads = locking.execute("SELECT status FROM session_heads WHERE session_id = %s", [conversation.session_id])
        assert heads.fetchall() == [("completed",)]
    assert [row.value for row in await one.sessions.user_variables("clinic", "ana")] == ["new"]


async def test_a_failing_database_delays_a_group_by_one_turn(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, talks = stores[0], [Conversation() for _ in range(20)]
    assert isinstance(one, PostgresStore)
    for talk in talks:
        await talk.create(one)
    bad = talks[0].delivery(delivery_id="no UUID")
    group = [ProposedTurn(talk.next_turn(), 0, None, deliveries=(bad,) * (talk is talks[0])) for talk in talks]
    attempt = GroupCommitter._try

    def fail(self: GroupCommitter, group: list, number: int, *, is_unknown: bool) -> object:
        if len(group) == 1:
            raise psycopg.OperationalError("the server is in recovery mode")
        return attempt(self, group, number, is_unknown=is_unknown)

    monkeypatch.setattr(GroupCommitter, "_try", fail)
    monkeypatch.setattr(committing, "RETRY_S", 0.2)
    began = time.monotonic()
    outcomes = await asyncio.to_thread(GroupCommitter(one._engine).commit, group)
    assert time.monotonic() - began < 3
    assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes)
