"""A conversation full of what nobody else is to see: canaries in every place that a session keeps anything in."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from runtime.state.ports import ModelReply, ModelRequest, OnReply, Usage
from tests.support.fixture_types import OpenApp
from tests.support.private_conversation import OpenConversation, PrivateConversation

GLOBALS = """
globals:
  - {var: home_town, type: text, pii: true}
"""

SCRIPT = """
script: private_life
use: [private-globals.yaml]
declare:
  - {var: full_name, type: text, pii: true}
  - {var: born, type: date, pii: true}
  - {var: smokes, type: boolean, pii: true}
  - {var: weight, type: number, pii: true}
  - {var: illness, type: choice, choices: [tuberculosis, leprosy], pii: true}
  - {var: greeting}
  - {var: mood}
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - ask: What are you called?
            id: ask_name
            output: [{get: full_name}]
          - set: {greeting: "'Dear ' ~ full_name"}
            id: greet
          - say: "{{ greeting }}, of {{ home_town }}."
            id: say_greeting
          - ask: When were you born?
            id: ask_born
            output: [{get: born, type: date}]
          - ask: Do you smoke?
            id: ask_smokes
            output: [{get: smokes, type: boolean}]
          - form: sheet
            id: show_form
          - choose: illness
            id: ask_illness
            question: Which is it?
            choices: [{tuberculosis: The lungs}, {leprosy: The skin}]
          - emit: {event: told, data: {who: full_name, kilos: weight, smokes: smokes}}
            id: tell
          - ai_ask: "Ask {{ full_name }} how it goes."
            id: ask_mood
            output: [{get: mood}]
            exit: it was told
            max_rounds: 2
          - remember: "{{ full_name }} weighs {{ weight }}."
            id: note
          - say: "Goodbye, {{ full_name }}."
            id: bye
forms:
  - form: sheet
    text: Some figures.
    fields: [{field: weight, type: number, label: "Weight of {{ full_name }}"}]
"""

SAID: tuple[Any, ...] = (
    {"content": "Wilhelmina Quist"},
    {"content": "the third of March 1987"},
    {"content": "nope"},
    {"content": "yes, I puff away"},
    {"form": {"weight": 4711471147}},
    {"choice": "leprosy"},
    {"content": "wilhelmina quist of ZANZIBAR feels like a watermelon"},
)

CANARIES = (
    "wilhelmina",
    "quist",
    "zanzibar",
    "1987-03-03",
    "third of march",
    "nope",
    "puff",
    "4711471147",
    "telegram:4242",
    "gold-plated",
    "mia-the-user",
)
"""What no masked document holds, in small letters; none is part of an id, a digest or a time."""

PUBLIC_TEXTS = ("watermelon", "what are you called?", "some figures.", "when were you born?", "goodbye, [full_name].")
"""What is said beside it, and stays."""


class Gossip:
    """A language model that repeats everything it was sent."""

    def goes_to(self, request: ModelRequest) -> str:
        return "main"

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        said = request.history[-1].content if request.history else ""
        usage = Usage(model="gossip-1", prompt_digest="d" * 64, input_tokens=1, output_tokens=1)
        understood = {"born": "1987-03-03", "smokes": True if "puff" in said else None, "mood": said}
        wanted = {output.get for output in request.outputs} if request.replies else set()
        values = {name: value for name, value in understood.items() if name in wanted and value is not None}
        reason = f"it said {said}" if values else ""
        return ModelReply(
            text=f"So: {request.task} {said}",
            values=values,
            exit=True if values else None,
            exit_reason=reason,
            raw=f'{{"text": "{said}", "full_name": "Wilhelmina Quist"}}',
            usage=usage,
        )


@pytest.fixture
def private_conversation(app: OpenApp) -> OpenConversation:
    """Run the whole conversation: ``async with private_conversation(tmp_path) as conversation``."""

    @asynccontextmanager
    async def open_conversation(folder: Path) -> AsyncIterator[PrivateConversation]:
        async with app(folder, Gossip()) as api:
            await api.publish_script(SCRIPT, files={"private-globals.yaml": GLOBALS})
            await api.patch("/api/users/mia-the-user/variables", json={"variables": {"home_town": "Zanzibar"}})
            session = await api.create_session(
                "private_life", user="mia-the-user", key="telegram:4242", metadata={"plan": "gold-plated"}
            )
            for said in SAID:
                answer = await api.send_message(session, said)
                assert answer.status_code == 200, answer.text
            yield PrivateConversation(api, session)

    return open_conversation


def found_in(text: str) -> list[str]:
    """Return the canaries that a text holds."""
    return [canary for canary in CANARIES if canary in text.lower()]


@pytest.fixture
def leaks() -> Callable[[str], list[str]]:
    """Return what of the conversation stands in a text that is to be without it."""
    return found_in


@pytest.fixture
def public_texts() -> tuple[str, ...]:
    """Return what is said in the conversation that is not personal, in small letters."""
    return PUBLIC_TEXTS
