"""Conversations by their roles, and a condenser that keeps what it was asked."""

from collections.abc import Callable

import pytest

from runtime.context.ports import Condense
from runtime.events import Message
from runtime.ports import ModelFailed
from scripts.values import Value

ROLES = {"u": "user", "a": "assistant", "s": "system", "t": "tool"}


class Scribe:
    """Sums up by numbers: ``1-3`` tells of the messages 1 to 3. `fails` are the calls that fail, counted from 1."""

    def __init__(self) -> None:
        self.fails: Callable[[int], bool] = lambda call: False
        self.calls = 0
        self.wishes: list[Condense] = []

    async def __call__(self, wish: Condense) -> Value:
        self.calls += 1
        if self.fails(self.calls):
            raise ModelFailed("the model is away")
        self.wishes.append(wish)
        numbers = [message.number for message in wish.messages]
        if wish.purpose == "memo":
            before = wish.previous["told"] if isinstance(wish.previous, dict) else []
            return {"told": [*before, *numbers][-100:]}
        return " ".join([*([str(wish.previous)] if wish.previous else []), *map(str, numbers)])

    @property
    def told(self) -> list[int]:
        """The numbers of all messages that it was given and gave an account of."""
        return [message.number for wish in self.wishes for message in wish.messages]


@pytest.fixture
def scribe() -> Scribe:
    return Scribe()


@pytest.fixture
def said() -> Callable[..., tuple[Message, ...]]:
    """``said("uau", 10)``: one message each, of so many characters, numbered from 1."""

    def make(roles: str, chars: int = 8, first: int = 1) -> tuple[Message, ...]:
        return tuple(
            Message(n, str(n), ROLES[role], str(n).ljust(chars, "x"), "")  # type: ignore[arg-type]
            for n, role in enumerate(roles, first)
        )

    return make
