"""A copy that `pg_dump` wrote is restored into another server, whose transactions have lower numbers."""

from pathlib import Path

import psycopg

from store.open_store import open_store
from tests.support.store_rows import Conversation


async def test_turns_of_later_transactions_are_read_by_analytics(
    tmp_path: Path, postgres_url: str, conversation: Conversation
) -> None:
    store = open_store(tmp_path / "one", postgres_url)
    await conversation.create(store)
    await store.close()
    ahead = "SELECT count(*) FROM turns WHERE changed_in >= pg_snapshot_xmin(pg_current_snapshot())"
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE turns SET changed_in = '9000000000'")
        assert connection.execute(ahead).fetchone() == (1,)
    await open_store(tmp_path / "two", postgres_url).close()
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute(ahead).fetchone() == (0,)
