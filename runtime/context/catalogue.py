"""Makes the strategy that settings name: one that is always there, or one that an installed package brings.

A package brings a strategy by an entry point of the group `cuebook.context`, whose name the settings give: a function
that takes the ContextSettings and returns a Strategy.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TypeAlias

from runtime.context.ports import Strategy
from runtime.context.strategies import Buffer, Resizing, Summary, SummaryBuffer, TokenBuffer, Window
from scripts.contexts import ContextSettings, SettingsInvalid, checked
from scripts.written_context import GROUP

PAIRS, TOKENS, KEPT = 10, 4_000, 10  # of a window, a buffer by tokens and after a summary, where the settings say none

Factory: TypeAlias = Callable[[ContextSettings], object]

_ALWAYS: Mapping[str, Callable[[ContextSettings], Strategy]] = {
    "buffer": lambda settings: Buffer(),
    "window": lambda settings: Window(settings.k or PAIRS),
    "token_buffer": lambda settings: TokenBuffer(settings.max_tokens or TOKENS),
    "summary": lambda settings: Summary(settings.keep or KEPT, settings.instruct),
    "summary_buffer": lambda settings: SummaryBuffer(settings.max_tokens or TOKENS, settings.instruct),
    "lite": Resizing,
    "memo": Resizing,
}


def strategy_of(settings: ContextSettings, brought: Mapping[str, Factory] | None = None) -> Strategy:
    """The strategy, new. `brought` are those of packages, as `brought_strategies` finds them; None: it looks for them.

    Raises SettingsInvalid.
    """
    always = _ALWAYS.get(settings.strategy)
    if always is not None:
        return always(checked(settings))
    factories = brought_strategies() if brought is None else brought
    made = factories[checked(settings, factories).strategy](settings)
    if not isinstance(made, Strategy):
        raise SettingsInvalid(
            f"the package that brings the context strategy {settings.strategy!r} makes {type(made).__name__} of it, "
            "which has no messages_max, view and follow"
        )
    return made


@cache
def brought_strategies() -> Mapping[str, Factory]:
    """What the installed packages bring, by name, looked for once; none is loaded before it is used."""
    return {each.name: _loaded(each) for each in entry_points(group=GROUP)}


def _loaded(entry: EntryPoint) -> Factory:
    def make(settings: ContextSettings) -> object:
        try:
            factory = entry.load()
        except (ImportError, AttributeError) as error:
            raise SettingsInvalid(f"the context strategy {entry.name!r} cannot be loaded: {error}") from error
        return factory(settings)

    return make
