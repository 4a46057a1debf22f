"""Selection of a session's context strategy, and its view of the conversation.

A strategy is a built-in one, or one of an installed package. A package provides a strategy by an entry point of the
group `cuebook.context` with the strategy's name: a function that takes the ContextSettings and returns a Strategy.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TypeAlias

import msgspec
from msgspec import Struct

from runtime.context.ports import Strategy, View
from runtime.context.resize import Handlers
from runtime.context.strategies import Buffer, Resizing, Summary, SummaryBuffer, TokenBuffer, Window
from runtime.context.windows import after_system, group_start, head_of, without_orphan
from runtime.state.events import HISTORY_MAX, Message
from runtime.state.state import ContextMemory, State
from scripts.model.actions import Action, Chat
from scripts.model.context_strategies import GROUP, ContextSettings, SettingsInvalid, check_settings, settings_of
from scripts.model.script import Script, all_actions

# -- creation ---------------------------------------------------------------------------------------------------------


PAIRS, TOKENS, KEEP = 10, 4_000, 10  # defaults: exchanges of a window, tokens of a buffer, messages after a summary

Factory: TypeAlias = Callable[[ContextSettings], object]

_ALWAYS: Mapping[str, Callable[[ContextSettings, Handlers], Strategy]] = {
    "buffer": lambda settings, _: Buffer(),
    "window": lambda settings, _: Window(settings.k or PAIRS),
    "token_buffer": lambda settings, _: TokenBuffer(settings.max_tokens or TOKENS),
    "summary": lambda settings, _: Summary(settings.keep or KEEP, settings.instruct),
    "summary_buffer": lambda settings, _: SummaryBuffer(settings.max_tokens or TOKENS, settings.instruct),
    "lite": Resizing,
    "memo": Resizing,
}


def strategy_of(
    settings: ContextSettings,
    handlers: Handlers = Handlers(),  # noqa: B008  (frozen)
    factories: Mapping[str, Factory] | None = None,
) -> Strategy:
    """Return a new strategy. `handlers` are those of the application, for the strategies `lite` and `memo`.

    `factories` are those of packages, by default the result of `own_strategies`. Raises SettingsInvalid.
    """
    always = _ALWAYS.get(settings.strategy)
    if always is not None:
        return always(settings, handlers)
    factories = own_strategies() if factories is None else factories
    made = factories[check_settings(settings, factories).strategy](settings)
    if not isinstance(made, Strategy):
        raise SettingsInvalid(
            f"the package of the context strategy {settings.strategy!r} returns a {type(made).__name__}, "
            "which has no messages_max, view and follow"
        )
    return made


@cache
def own_strategies() -> Mapping[str, Factory]:
    """Return the strategies of installed packages by name, searched once; each is loaded when it is used."""
    return {each.name: _load(each) for each in entry_points(group=GROUP)}


def _load(entry: EntryPoint) -> Factory:
    def make(settings: ContextSettings) -> object:
        try:
            factory = entry.load()
        except (ImportError, AttributeError) as error:
            raise SettingsInvalid(f"the context strategy {entry.name!r} cannot be loaded: {error}") from error
        return factory(settings)

    return make


# -- selection --------------------------------------------------------------------------------------------------------


MESSAGES_MAX = 1_000  # loaded messages of a session, whatever a strategy requests
HEAD_MAX = 10  # system messages at the beginning of a conversation


class SelectedStrategy(Struct, frozen=True):
    """A strategy and its settings."""

    settings: ContextSettings
    strategy: Strategy


class Contexts(Struct, frozen=True):
    """The strategies of a server, and its application's handlers."""

    default: ContextSettings | None = None  # if neither session nor script has settings
    handlers: Handlers = Handlers()

    def choose(self, script: Script, state: State, action: Action | None) -> SelectedStrategy | None:
        """Return the session's own strategy, else that of the current action, of the script, of the server. None means
        the newest messages; so does a strategy whose package is not installed any more.
        """
        own = action.context if isinstance(action, Chat) else None
        written = own or script.context
        settings = state.context_settings or (settings_of(written) if written is not None else self.default)
        if settings is None:
            return None
        try:
            return SelectedStrategy(settings, strategy_of(settings, self.handlers))
        except SettingsInvalid:
            return None

    def messages_max(self, script: Script, state: State) -> int:
        """Return how many of the newest messages must be loaded for all strategies that a session may use."""
        actions = [None, *(each for each in all_actions(script) if isinstance(each, Chat) and each.context is not None)]
        chosen = [self.choose(script, state, each) for each in actions]
        wanted = max((each.strategy.messages_max for each in chosen if each is not None), default=0)
        return min(max(wanted, HISTORY_MAX), MESSAGES_MAX)


def _split(messages: Sequence[Message]) -> tuple[Sequence[Message], Sequence[Message]]:
    """Return the system messages at the beginning of the conversation, and the other messages."""
    head = head_of(messages[:HEAD_MAX])
    return head, messages[len(head) :]


def newest(messages: Sequence[Message], messages_max: int) -> tuple[Message, ...]:
    """Return the last messages, and the system messages at the beginning of the conversation."""
    if len(messages) <= messages_max:
        return tuple(messages)
    head, said = _split(messages)
    begin = max(len(said) - messages_max, 0)
    return (*head, *(after_system(said[begin:]) if begin else said))


def _complete(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages without the results of tools whose calls are not among them."""
    head, said = _split(messages)
    return (*head, *said[without_orphan(said, 0) :])


def view_of(chosen: SelectedStrategy | None, messages: Sequence[Message], memory: ContextMemory | None) -> View:
    """Return the part of the loaded messages that a model sees."""
    memory = memory or ContextMemory()
    if memory.after:
        head, said = _split(messages)
        begin = next((place for place, each in enumerate(said) if each.number > memory.after), len(said))
        messages = (*head, *said[group_start(said, begin) :])
    if chosen is None:
        view = View(_complete(newest(messages, HISTORY_MAX)))
    else:
        view = chosen.strategy.view(newest(messages, chosen.strategy.messages_max), memory)
    if memory.summary and not view.summary and memory.after:
        return msgspec.structs.replace(view, summary=memory.summary)  # of messages left out, whatever the strategy
    return view
