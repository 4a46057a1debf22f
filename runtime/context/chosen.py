"""Which strategy a session is in, and what a model sees by it."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from runtime.context.catalogue import strategy_of
from runtime.context.memory import ContextMemory
from runtime.context.ports import Strategy, View
from runtime.context.resizing import Handlers
from runtime.context.strategies import Resizing
from runtime.context.windows import head_of
from runtime.events import HISTORY_MAX, Message
from runtime.state import State
from scripts.actions import Action, Chat
from scripts.contexts import ContextSettings, SettingsInvalid
from scripts.model import Script, all_actions
from scripts.written_context import settings_of

MESSAGES_MAX = 1_000  # of a session, kept at hand whatever a strategy asks for
HEAD_MAX = 10  # messages of the system's at the beginning of a conversation
RESIZED = frozenset({"lite", "memo"})  # what handlers are for


class Chosen(Struct, frozen=True):
    """A strategy with the settings it was made of."""

    settings: ContextSettings
    strategy: Strategy


class Contexts(Struct, frozen=True):
    """The strategies of a server, and what its application does in its own way."""

    default: ContextSettings | None = None  # where neither session nor script name one
    handlers: Handlers = Handlers()

    def chosen(self, script: Script, state: State, action: Action | None) -> Chosen | None:
        """The session's own, else that of the action at hand, of the script, of the server; None: the newest
        messages, as where the package is gone that brought the strategy.
        """
        own = action.context if isinstance(action, Chat) else None
        written = own or script.context
        settings = state.context_settings or (settings_of(written) if written is not None else self.default)
        if settings is None:
            return None
        try:
            return Chosen(settings, self._made(settings))
        except SettingsInvalid:
            return None

    def messages_max(self, script: Script, state: State) -> int:
        """How many of the newest messages have to be at hand for all strategies that may come up in a session."""
        actions = [None, *(each for each in all_actions(script) if isinstance(each, Chat) and each.context is not None)]
        chosen = [self.chosen(script, state, each) for each in actions]
        wanted = max((each.strategy.messages_max for each in chosen if each is not None), default=0)
        return min(max(wanted, HISTORY_MAX), MESSAGES_MAX)

    def _made(self, settings: ContextSettings) -> Strategy:
        if settings.strategy in RESIZED:
            return Resizing(settings, self.handlers)
        return strategy_of(settings)


def newest(messages: Sequence[Message], messages_max: int) -> tuple[Message, ...]:
    """The last messages, and those of the system's that the conversation begins with."""
    if len(messages) <= messages_max:
        return tuple(messages)
    head = head_of(messages[:HEAD_MAX])
    return (*head, *messages[max(len(messages) - messages_max, len(head)) :])


def shown(chosen: Chosen | None, messages: Sequence[Message], memory: ContextMemory | None) -> View:
    """What a model sees of the messages at hand."""
    memory = memory or ContextMemory()
    if memory.after:
        head = head_of(messages[:HEAD_MAX])
        messages = (*head, *(each for each in messages[len(head) :] if each.number > memory.after))
    if chosen is None:
        view = View(newest(messages, HISTORY_MAX))
    else:
        view = chosen.strategy.view(newest(messages, chosen.strategy.messages_max), memory)
    if memory.summary and not view.summary and memory.summary_to <= memory.after:
        return msgspec.structs.replace(view, summary=memory.summary)  # of what was compressed, whatever the strategy
    return view
