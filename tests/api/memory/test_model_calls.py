"""Calls of language models for memories: metered, recorded without words, bounded in time, gone with their user."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

from api.local_files.settings_file import load_settings
from api.memory import model_calls
from api.memory.model_calls import MemoryCalls
from api.metrics import Metrics
from api.models.model_calls import Spending
from api.models.server_model import close_model, make_model
from api.settings import Budgets
from runtime.models.offline_model import OfflineModel
from runtime.state.events import Message
from runtime.state.ports import ConversationSummary, Model, ModelFailed, ModelRequest
from store.analytics.query import query
from store.open_store import open_store
from store.store import Store
from tests.support.data_folders import database_file
from tests.support.openai_server import Endpoint

NOW = datetime(2026, 5, 8, 12, tzinfo=UTC)
SAID = "My dog is called Bello."


def request(text: str = SAID) -> ModelRequest:
    history = (Message(1, "", "user", text, ""),)
    return ModelRequest(
        purpose="summarise",
        action_id="memory",
        round=0,
        task="",
        locale="en",
        now=NOW,
        history=history,
        account=ConversationSummary(previous="Ana lives in Lyon."),
    )


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = open_store(tmp_path)
    yield store
    await store.close()


@pytest.fixture
async def hosted(endpoint: Endpoint) -> AsyncIterator[Model]:
    given = {"model_url": endpoint.url, "model_attempts": 1, "model_input_price": 1.0, "model_output_price": 1.0}
    model = make_model(load_settings(None, {"model": "openai:tiny", **given}, {}))
    yield model
    await close_model(model)


def calls_over(store: Store, model: Model, budgets: Budgets | None = None) -> MemoryCalls:
    numbers = count(1)
    spending = Spending(store, budgets or Budgets())
    return MemoryCalls(model, store.memory, spending, Metrics(), lambda: NOW, lambda: f"call-{next(numbers)}")


async def rows_of(folder: Path, store: Store, sql: str) -> list[tuple[object, ...]]:
    await store.close()
    return list(query(database_file(folder), sql).rows)


async def test_a_call_is_recorded_without_its_words(tmp_path: Path, store, hosted, endpoint: Endpoint) -> None:
    endpoint.will(content="Ana lives in Lyon with her dog Bello.")
    reply = await calls_over(store, hosted).make("clinic", "ana", request())
    assert reply.text == "Ana lives in Lyon with her dog Bello."
    assert SAID in endpoint.requests[0].text
    shown = (
        "SELECT tenant, user_id, session_id, turn, purpose, model, outcome, attempts, cost > 0, withheld FROM llm_calls"
    )
    calls = await rows_of(tmp_path, store, shown)
    assert calls == [("clinic", "ana", None, None, "summarise", "openai:tiny", "done", 1, True, True)]
    whole = str(list(query(database_file(tmp_path), "SELECT to_json(llm_calls)::VARCHAR FROM llm_calls").rows))
    assert "Bello" not in whole
    assert "Lyon" not in whole


async def test_a_call_that_fails_is_recorded_and_reported(tmp_path: Path, store, hosted, endpoint: Endpoint) -> None:
    endpoint.will(status=500)
    with pytest.raises(ModelFailed, match="reports an internal error"):
        await calls_over(store, hosted).make("clinic", "ana", request())
    calls = await rows_of(tmp_path, store, "SELECT outcome, error, ended_at IS NOT NULL FROM llm_calls")
    assert calls == [("failed", "the endpoint of model `openai:tiny` reports an internal error (500)", True)]


async def test_it_counts_for_the_users_day_and_the_tenants(store, hosted, endpoint: Endpoint) -> None:
    calls = calls_over(store, hosted, Budgets(user_day_calls=2, day_calls=3))
    for _ in range(2):
        await calls.make("clinic", "ana", request())
    with pytest.raises(ModelFailed, match="the budget `user_day_calls` is used up"):
        await calls.make("clinic", "ana", request())
    await calls.make("clinic", "ben", request())
    with pytest.raises(ModelFailed, match="the budget `day_calls` is used up"):
        await calls.make("clinic", "cleo", request())
    await calls.make("school", "dora", request())
    assert len(endpoint.requests) == 4


async def test_what_was_spent_is_still_known_after_a_restart(store, hosted, endpoint: Endpoint) -> None:
    await calls_over(store, hosted).make("clinic", "ana", request())
    spent = await store.turns.spent("clinic", NOW, NOW.replace(hour=13), "ana")
    assert (spent.calls, spent.tokens > 0, spent.cost > 0) == (1, True, True)
    with pytest.raises(ModelFailed, match="user_day_calls"):
        await calls_over(store, hosted, Budgets(user_day_calls=1)).make("clinic", "ana", request())
    assert len(endpoint.requests) == 1


async def test_a_call_without_end_is_given_up(
    tmp_path: Path, store, hosted, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_calls, "CALL_S", 0.5)
    endpoint.will(wait_s=20)
    with pytest.raises(ModelFailed, match="given up before its end"):
        await calls_over(store, hosted).make("clinic", "ana", request())
    calls = await rows_of(tmp_path, store, "SELECT outcome, error, input_tokens > 0, counted FROM llm_calls")
    assert calls == [("failed", "given up before its end", True, False)]


async def test_a_server_that_stops_in_a_call_says_so_of_it(tmp_path: Path, store, hosted, endpoint: Endpoint) -> None:
    endpoint.will(wait_s=20)
    task = asyncio.create_task(calls_over(store, hosted).make("clinic", "ana", request()))
    await asyncio.to_thread(endpoint.wait, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    calls = await rows_of(tmp_path, store, "SELECT outcome, error FROM llm_calls")
    assert calls == [("failed", "given up before its end")]


async def test_a_call_counts_from_its_beginning_on(store, hosted, endpoint: Endpoint) -> None:
    endpoint.will(wait_s=1)
    task = asyncio.create_task(calls_over(store, hosted).make("clinic", "ana", request()))
    await asyncio.to_thread(endpoint.wait, 1)
    assert (await store.turns.spent("clinic", NOW, NOW.replace(hour=13), "ana")).calls == 1  # were it killed now
    await task
    assert (await store.turns.spent("clinic", NOW, NOW.replace(hour=13), "ana")).calls == 1


async def test_nothing_is_stored_of_a_user_who_is_erased_meanwhile(
    tmp_path: Path, store, hosted, endpoint: Endpoint
) -> None:
    calls = calls_over(store, hosted)
    await calls.make("clinic", "ana", request())
    endpoint.will(wait_s=1)
    task = asyncio.create_task(calls.make("clinic", "ana", request()))
    await asyncio.to_thread(endpoint.wait, 2)
    erased = await store.maintenance.erase_user("clinic", "ana", "receipt", NOW)
    assert erased.counts["calls"] == 2
    await task
    assert await rows_of(tmp_path, store, "SELECT count(*) FROM llm_calls") == [(0,)]


def test_without_a_language_model_there_is_no_call(store) -> None:
    assert calls_over(store, OfflineModel()).needs_no_call(request())
