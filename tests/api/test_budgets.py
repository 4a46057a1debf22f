"""Budgets over HTTP: of a session, of a user's day and of everybody's, also after a restart."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import structs

from api.budgets import Budgets
from runtime.models.offline import OfflineModel
from runtime.ports import Hear, ModelReply, ModelRequest, Usage

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

    async def complete(self, request: ModelRequest, hear: Hear | None = None) -> ModelReply:
        await asyncio.sleep(0)
        reply = await super().complete(request)
        return structs.replace(reply, usage=Usage(model="paid", input_tokens=7, output_tokens=3, cost=0.5))


def said(answer: Any) -> list[str]:
    return [message["content"] for message in answer["messages"]]


async def test_a_user_is_stopped_for_the_day_and_others_are_not(tmp_path: Path, app: Open) -> None:
    budgets = Budgets(user_day_tokens=20)
    async with app(tmp_path, Paid(), budgets=budgets) as api:
        await api.keep(SCRIPT)
        first = await api.begin("long")
        answer = await api.say(first, "5")
        assert said(answer) == [BUSY]
        assert said(await api.begin("long")) == [BUSY]
        assert said(await api.begin("long", user="ben")) == ["And?"]
        shown = await api.message(first, {"content": "5"}, events=True)
        warnings = [each["data"] for each in shown.json()["events"] if each["kind"] == "warning"]
        assert [(each["code"], each["message"]) for each in warnings] == [
            ("budget_exceeded", "the budget `user_day_tokens` is used up")
        ]
    async with app(tmp_path, Paid(), budgets=budgets) as api:  # what was spent is on record
        assert said(await api.begin("long")) == [BUSY]
        assert said(await api.begin("long", user="carl")) == ["And?"]
    async with app(tmp_path, Paid()) as api:
        assert said(await api.say(first, "5")) == ["And?"]


async def test_a_day_is_everybodys_and_counted_while_turns_overlap(tmp_path: Path, app: Open) -> None:
    async with app(tmp_path, Paid(), budgets=Budgets(day_calls=6)) as api:
        await api.keep(SCRIPT)
        answers = await asyncio.gather(*[api.begin("long", user=f"u{number}") for number in range(10)])
        assert sorted(said(answer)[0] for answer in answers).count("And?") >= 6
        assert said(await api.begin("long")) == [BUSY]


async def test_a_session_has_its_own(tmp_path: Path, app: Open) -> None:
    async with app(tmp_path, Paid(), budgets=Budgets(session_cost=1.0)) as api:
        await api.keep(SCRIPT)
        session = await api.begin("long")
        assert said(await api.say(session, "5")) == [BUSY]
    async with app(tmp_path, Paid(), budgets=Budgets(session_cost=1.0)) as api:
        assert said(await api.say(session, "5")) == [BUSY]
        assert said(await api.begin("long")) == ["And?"]
