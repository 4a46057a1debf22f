"""Budgets over HTTP: of a session, of a user's day and of everybody's, also after a restart."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from msgspec import structs

from api.settings import Budgets
from runtime.models.offline_model import OfflineModel
from runtime.state.ports import ModelFailed, ModelReply, ModelRequest, OnReply, Usage

Open: TypeAlias = Callable[..., AbstractAsyncContextManager[Any]]
BUSY = "I cannot go on just now. Please try again later."
SCRIPT = """
script: long
phases:
  - phase: p
    topics:
      - topic: t
        actions: [{repeat: {max: 50}, id: r, do: [{ai_ask: And?, id: it, output: [{get: note, type: number}]}]}]
"""


class Paid(OfflineModel):
    """Every call takes 10 tokens and costs 0.5."""

    def goes_to(self, request: ModelRequest) -> str:
        return "paid"

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        await asyncio.sleep(0)
        reply = await super().complete(request)
        return structs.replace(reply, usage=Usage(model="paid", input_tokens=7, output_tokens=3, cost=0.5))


def said(answer: Any) -> list[str]:
    return [message["content"] for message in answer["messages"]]


@pytest.mark.gate
async def test_a_user_is_stopped_for_the_day_and_others_are_not(tmp_path: Path, app: Open) -> None:
    budgets = Budgets(user_day_tokens=20)
    async with app(tmp_path, Paid(), budgets=budgets) as api:
        await api.publish_script(SCRIPT)
        first = await api.create_session("long")
        answer = await api.send_texts(first, "5")
        assert said(answer) == [BUSY]
        assert said(await api.create_session("long")) == [BUSY]
        assert said(await api.create_session("long", user="ben")) == ["And?"]
        shown = await api.send_message(first, {"content": "5"}, events=True)
        warnings = [each["data"] for each in shown.json()["events"] if each["kind"] == "warning"]
        assert [(each["code"], each["message"]) for each in warnings] == [
            ("budget_exceeded", "the budget `user_day_tokens` is used up")
        ]
    async with app(tmp_path, Paid(), budgets=budgets) as api:  # what was spent is on record
        assert said(await api.create_session("long")) == [BUSY]
        assert said(await api.create_session("long", user="carl")) == ["And?"]
    async with app(tmp_path, Paid()) as api:
        assert said(await api.send_texts(first, "5")) == ["And?"]


async def test_a_day_is_everybodys_and_counted_while_turns_overlap(tmp_path: Path, app: Open) -> None:
    async with app(tmp_path, Paid(), budgets=Budgets(day_calls=6)) as api:
        await api.publish_script(SCRIPT)
        answers = await asyncio.gather(*[api.create_session("long", user=f"u{number}") for number in range(10)])
        assert sorted(said(answer)[0] for answer in answers).count("And?") >= 6
        assert said(await api.create_session("long")) == [BUSY]


async def test_a_session_has_its_own(tmp_path: Path, app: Open) -> None:
    async with app(tmp_path, Paid(), budgets=Budgets(session_cost=1.0)) as api:
        await api.publish_script(SCRIPT)
        session = await api.create_session("long")
        assert said(await api.send_texts(session, "5")) == [BUSY]
    async with app(tmp_path, Paid(), budgets=Budgets(session_cost=1.0)) as api:
        assert said(await api.send_texts(session, "5")) == [BUSY]
        assert said(await api.create_session("long")) == ["And?"]


class Failing(Paid):
    """A model that answers once, and then fails a given number of times."""

    def __init__(self, fails: int) -> None:
        self.fails = fails

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        if request.action_id == "second" and self.fails:
            self.fails -= 1
            raise ModelFailed("overloaded", usage=Usage(model="paid", input_tokens=7, output_tokens=3, cost=0.5))
        return await super().complete(request)


TWO = """
script: two
phases:
  - {phase: p, topics: [{topic: t, actions: [
      {ask: Begin?, id: begin}, {ai_say: One., id: first}, {ai_say: Two., id: second}, {ask: And?, id: after}]}]}
"""


@pytest.mark.parametrize("restart", [False, True])
async def test_what_failed_attempts_took_counts_against_the_session(tmp_path: Path, app: Open, restart: bool) -> None:
    model, budgets = Failing(3), Budgets(session_calls=4)
    async with app(tmp_path, model, budgets=budgets) as api:
        await api.publish_script(TWO)
        session = await api.create_session("two")
        for _ in range(1 if restart else 3):
            assert (await api.send_message(session, {"content": "go"})).status_code == 503
        if not restart:  # the first line was asked for once, the second three times
            assert said(await api.send_texts(session, "go")) == ["One.", BUSY]
            return
    async with app(tmp_path, model, budgets=budgets) as api:  # what was taken is on record
        for _ in range(2):
            assert (await api.send_message(session, {"content": "go"})).status_code == 503
        assert said(await api.send_texts(session, "go")) == ["One.", BUSY]


async def test_what_is_taken_over_from_a_failed_attempt_counts_once(tmp_path: Path, app: Open) -> None:
    async with app(tmp_path, Failing(1), budgets=Budgets(session_tokens=31)) as api:
        await api.publish_script(TWO)
        session = await api.create_session("two")
        assert (await api.send_message(session, {"content": "go"})).status_code == 503
        assert said(await api.send_texts(session, "go")) == ["One.", "Two.", "And?"]  # 10 each, and 10 that failed
        assert (await api.read(f"/api/sessions/{session['sessionId']}/calls"))["data"][-1]["used"]


async def test_use_of_a_day_is_shown_beside_its_limits(tmp_path: Path, app: Open) -> None:
    async with app(tmp_path, Paid(), budgets=Budgets(day_calls=6, user_day_cost=9.5)) as api:
        await api.publish_script(SCRIPT)
        await api.send_texts(await api.create_session("long"), "5")
        shown = await api.read("/api/operations/budgets")
        assert {each["unit"]: (each["used"], each["limit"], each["userLimit"]) for each in shown["data"]} == {
            "calls": (3, 6, None),
            "tokens": (30, None, None),
            "cost": (1.5, None, 9.5),
        }
        assert shown["since"].endswith("T00:00:00Z")
