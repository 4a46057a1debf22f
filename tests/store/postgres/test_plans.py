"""Statements are planned for their own values, use the indexes, and leave nothing in the memory of the server."""

from uuid import uuid4

import pytest

from store.interface.list_rows import SearchFilter, SessionFilter
from store.postgres import search, sessions
from store.postgres.connection import STATEMENTS_MAX, PostgresConnection, names_of, number_parameters
from store.sql.retention import COUNTS
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
            sessions.list_sessions(connection, conversation.tenant, SessionFilter(user_id="ana"))
        prepared = "SELECT statement FROM pg_prepared_statements WHERE statement ~ 'ILIKE|latest.turn'"
        return connection.rows(prepared)

    assert await one._engine.read(often) == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("few", [search.FEW, 0])
async def test_search_in_a_script_is_the_same_for_any_session_count(
    stores: tuple[Store, Store], conversation: Conversation, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(search, "FEW", few)
    one, _ = stores
    await conversation.create(one)
    turn = conversation.next_turn()
    await one.turns.commit(turn, 0, migration=conversation.migration(1, script_id="moved"))
    for script, expected in (("moved", 2), ("intake", 0)):
        what = SearchFilter(words=("question",), script=script)
        assert len((await one.turns.search(conversation.tenant, what)).rows) == expected


def test_statements_with_literal_numbers_do_not_fill_the_memory() -> None:
    for number in range(2 * STATEMENTS_MAX):
        assert number_parameters(f"SELECT $value + {number}, $value").names == ("value",)
    assert number_parameters.cache_info().currsize == STATEMENTS_MAX


async def test_the_sizes_of_due_sessions_are_read_from_their_own_turns(
    stores: tuple[Store, Store], conversation: Conversation
) -> None:
    one, _ = stores
    await conversation.create(one)
    of_others = """SELECT (json_populate_record(t, json_build_object('session_id', gen_random_uuid()))).*
        FROM turns AS t CROSS JOIN generate_series(1, 5000)"""
    due = """WITH due AS (SELECT unnest($tenants::TEXT[]) AS tenant, unnest($sessions::UUID[]) AS session_id,
        0 AS number, 1 AS turns, now() AS active_at)"""
    due_sessions = names_of([("clinic", str(uuid4())) for _ in range(20)])

    def plan(connection: PostgresConnection) -> str:
        connection.change(f"INSERT INTO turns {of_others}")
        connection.change("ANALYZE turns")
        return "\n".join(line for (line,) in connection.rows(f"EXPLAIN {due} {COUNTS}", due_sessions))

    assert "Seq Scan on turns" not in await one._engine.read(plan)  # type: ignore[attr-defined]
