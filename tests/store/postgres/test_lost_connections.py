"""A restart of PostgreSQL breaks all idle connections; no read or write of the next minute fails because of that."""

import asyncio
from pathlib import Path

import psycopg

from store.open_store import open_store
from store.postgres.engine import THREADS
from store.postgres_store import PostgresStore
from tests.support.store_rows import Conversation, webhook_of


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


async def test_reads_and_writes_go_on_after_all_idle_connections_were_lost(tmp_path: Path, postgres_url: str) -> None:
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
