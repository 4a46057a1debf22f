"""What a context strategy is: what it shows of a conversation, and what it asks of a model for that."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from runtime.context.memory import ContextMemory
from runtime.events import Message
from scripts.values import Value


class View(Struct, frozen=True):
    """What a prompt holds of a conversation: what was made of the older part, and the messages after it."""

    messages: tuple[Message, ...]
    summary: str = ""
    memo: Mapping[str, Value] = {}


class Condense(Struct, frozen=True, kw_only=True):
    """A wish for a shorter account of messages: a summary in prose, or a memo of what is to be kept in mind."""

    purpose: Literal["summarise", "memo"]
    messages: tuple[Message, ...]
    previous: Value = None  # the account so far, which this one goes on from
    instruct: str = ""  # what matters in it


class Condenser(Protocol):
    """Has messages condensed: by a language model, or by the runtime itself where there is none."""

    async def __call__(self, wish: Condense) -> Value:
        """The summary as text, the memo as a record. Raises ModelFailed."""


@runtime_checkable
class Strategy(Protocol):
    """Chooses what a model sees of a conversation, and keeps what it needs for that.

    The messages it is given are the newest of the conversation, oldest first; system messages that stand at its very
    beginning may come before them, and stay first.
    """

    @property
    def messages_max(self) -> int:
        """The most messages it ever looks at; the newest ones."""

    def view(self, messages: Sequence[Message], memory: ContextMemory) -> View:
        """What a model sees of the messages; the newest is always among it."""

    async def follow(self, messages: Sequence[Message], memory: ContextMemory, condense: Condenser) -> ContextMemory:
        """What it keeps after a turn, with `messages` said so far; the same where nothing is due.

        A condenser that fails loses nothing: the memory says how often it failed, and it is tried again later.
        """
