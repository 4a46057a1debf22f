"""Conversations by their roles, and a condenser that records its requests."""

from collections.abc import Callable

import pytest

from runtime.context.ports import Condense
from runtime.state.events import Message
from runtime.state.ports import ModelFailed
from scripts.expressions.values import Value

ROLES = {"u": "user", "a": "assistant", "s": "system", "t": "tool"}


class NumberCondenser:
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
    def summarized(self) -> list[int]:
        """Return the numbers of all messages that it was given and gave an account of."""
        return [message.number for wish in self.wishes for message in wish.messages]


@pytest.fixture
def condenser() -> NumberCondenser:
    return NumberCondenser()


@pytest.fixture
def messages_of() -> Callable[..., tuple[Message, ...]]:
    """Create a message for each letter of ``messages_of("uau", 10)``, of so many characters, numbered from 1."""

    def make(roles: str, chars: int = 8, first: int = 1) -> tuple[Message, ...]:
        return tuple(
            Message(n, str(n), ROLES[role], str(n).ljust(chars, "x"), "")  # type: ignore[arg-type]
            for n, role in enumerate(roles, first)
        )

    return make
