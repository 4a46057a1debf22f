"""The protocol of context strategies, and their requests to models."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from runtime.state.events import Message
from runtime.state.state import ContextMemory
from scripts.expressions.values import Value


class View(Struct, frozen=True):
    """The part of a conversation in a prompt: a summary and a memo of older messages, and the messages after them."""

    messages: tuple[Message, ...]
    summary: str = ""
    memo: Mapping[str, Value] = {}


class Condense(Struct, frozen=True, kw_only=True):
    """A request to condense messages: to a summary in prose, or to a memo of facts to remember."""

    purpose: Literal["summarise", "memo"]
    messages: tuple[Message, ...]
    previous: Value = None  # the previous summary or memo, which the new one extends
    instruct: str = ""  # what the result must contain


class Condenser(Protocol):
    """Condenses messages: by a language model, or by an extract without one."""

    async def __call__(self, wish: Condense) -> Value:
        """Return the summary as text, the memo as a record. Raises ModelFailed."""


@runtime_checkable
class Strategy(Protocol):
    """Selects what a model sees of a conversation, and stores the data it needs for that.

    It receives the newest messages of the conversation, oldest first; system messages at the very beginning of the
    conversation may precede them, and remain first.
    """

    @property
    def messages_max(self) -> int:
        """Return the largest number of newest messages that the strategy reads."""

    def view(self, messages: Sequence[Message], memory: ContextMemory) -> View:
        """Return the part of the messages that a model sees; it always includes the newest one."""

    async def follow(self, messages: Sequence[Message], memory: ContextMemory, condense: Condenser) -> ContextMemory:
        """Return the strategy's data after a turn with `messages` so far, unchanged if nothing is due.

        A failed condenser loses nothing: the memory counts the failures, and a later turn tries again.
        """
