"""Searches and lists are planned for their own words and filters, however often one connection executes them."""

from store.interface.list_rows import SearchFilter, SessionFilter
from store.postgres import search, session_list
from store.postgres.connection import PostgresConnection
from store.store import Store
from tests.support.store_rows import Conversation

OFTEN = 12
"""After five executions the driver prepares a statement, and after five more PostgreSQL may plan it for all values."""


async def test_a_search_and_a_list_are_never_prepared(stores: tuple[Store, Store], conversation: Conversation) -> None:
    one, _ = stores
    await conversation.create(one)

    def often(connection: PostgresConnection) -> list[tuple[str]]:
        for _ in range(OFTEN):
            search.search(connection, conversation.tenant, SearchFilter(words=("garden",)))
            session_list.list_sessions(connection, conversation.tenant, SessionFilter(user_id="ana"))
        prepared = "SELECT statement FROM pg_prepared_statements WHERE statement ~ 'ILIKE|latest.turn'"
        return connection.rows(prepared)

    assert await one._engine.read(often) == []  # type: ignore[attr-defined]
