"""Which messages of a conversation fit a prompt, by whole exchanges."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from runtime.events import Message

Cost: TypeAlias = Callable[[Message], int]
"""About how many tokens a message takes where it stands in the prompt."""


class ContextStrategy(Protocol):
    """Chooses what a model sees of a conversation."""

    def choose(self, messages: Sequence[Message], tokens_max: int, cost: Cost) -> tuple[Message, ...]:
        """The messages for the prompt, oldest first, within the tokens; the newest is always among them."""


class TokenWindow:
    """The newest messages that fit, by whole exchanges: no reply without what it is a reply to."""

    def choose(self, messages: Sequence[Message], tokens_max: int, cost: Cost) -> tuple[Message, ...]:
        """The last exchanges that fit; where not even one does, its last messages, and at least the newest."""
        chosen: list[Message] = []
        left = tokens_max
        for exchange in reversed(_exchanges(messages)):
            costs = [cost(message) for message in exchange]
            if sum(costs) > left:
                return tuple(chosen or _last(exchange, costs, left))
            left -= sum(costs)
            chosen = [*exchange, *chosen]
        return tuple(chosen)


def _exchanges(messages: Sequence[Message]) -> list[list[Message]]:
    """The messages in groups of what the session said and what the user replied to it."""
    groups: list[list[Message]] = []
    for message in messages:
        if not groups or (message.role == "assistant" and groups[-1][-1].role == "user"):
            groups.append([])
        groups[-1].append(message)
    return groups


def _last(messages: Sequence[Message], costs: Sequence[int], tokens_max: int) -> list[Message]:
    kept = 1
    while kept < len(messages) and sum(costs[-kept - 1 :]) <= tokens_max:
        kept += 1
    return list(messages[-kept:])
