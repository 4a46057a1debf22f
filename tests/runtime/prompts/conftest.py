"""Requests as actions make them, and prompts read back."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from runtime.prompts.prompt import Prompt
from runtime.prompts.rendering import Prompts
from runtime.prompts.templates import Templates
from runtime.state.events import Message
from runtime.state.ports import DetectorQuestion, ModelRequest
from scripts.model.script import Role
from scripts.model.variables import Output, Records

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)  # a Wednesday
_BLOCK = re.compile(r"^<(\w+)>\n(.*?)^</\1>$", re.DOTALL | re.MULTILINE)


def a_request(purpose: str = "ask", **more: Any) -> ModelRequest:
    """Return a request of an action that asks for several things."""
    given: dict[str, Any] = {
        "purpose": purpose,
        "action_id": "ask_pets",
        "round": 1,
        "task": "Find out about their pets.",
        "locale": "en",
        "now": NOON,
        "outputs": (
            Output(get="age", type="number", define="in years", min=1, required=True),
            Output(get="mood", choice_list=("low", "ok"), labels={"low": "rather low"}),
            Output(get="pet", define="its name"),
            Output(get="kind", choice_list=("cat", "dog")),
        ),
        "records": (
            Records(tolist="pets", fields=(Output(get="pet"), Output(get="kind", choice_list=("cat", "dog")))),
        ),
        "exit": "they told of all of them",
        "reply": "I have a cat.",
        "history": (a_message("Do you have pets?"), a_message("I have a cat.", "user")),
        "role": "guide",
        "speaker": Role(id="guide", name="Ms Meng", desc="A nurse."),
        "goal": "get to know them",
        "strategy": "one thing at a time",
        "tone": "warm",
        "intents": {"leave": "the user wants to leave", "help": "the user asks for help"},
        "detectors": {"crisis": DetectorQuestion("a danger to life", ("high", "low"))},
    }
    return ModelRequest(**(given | more))


def a_message(text: str, role: Any = "assistant", **metadata: Any) -> Message:
    """Return a message."""
    return Message(1, "m", role, text, "ask_pets", metadata)


def the_data(prompt: Prompt) -> dict[str, list[Any]]:
    """Return what the data of a prompt parses back to, by the tag; nothing may stand outside the tags."""
    text = prompt.messages[1].content
    assert _BLOCK.sub("", text).strip() == ""
    return {tag: [json.loads(line) for line in lines.splitlines()] for tag, lines in _BLOCK.findall(text)}


@pytest.fixture(scope="session")
def request_of() -> Callable[..., ModelRequest]:
    """Make a request: ``request_of("say", reply=None)``."""
    return a_request


@pytest.fixture(scope="session")
def message() -> Callable[..., Message]:
    """Make a message."""
    return a_message


@pytest.fixture(scope="session")
def render() -> Callable[..., Prompt]:
    """Render a request with the runtime's own prompts."""
    prompts = Prompts(Templates.load(None))
    return lambda request, tokens=100_000: prompts.render(request, context_tokens_max=tokens)


@pytest.fixture(scope="session")
def data_of() -> Callable[[Prompt], dict[str, list[Any]]]:
    """Read the data of a prompt back."""
    return the_data
