"""The `context` of a script or an action, as authors write it: which part of the conversation a model sees."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Annotated

import msgspec
from msgspec import Meta

from scripts.expressions.suggestions import suggest
from scripts.expressions.values import Value, shorten
from scripts.model.base import Node
from scripts.model.context_strategies import (
    MESSAGES_MAX,
    PAIRS_MAX,
    STRATEGY_OPTIONS,
    Chars,
    ContextSettings,
    Messages,
    Tokens,
    Turns,
    read_settings,
)
from scripts.model.diagnostics import Fault

GROUP = "cuebook.context"
"""The entry point group in which installed packages register context strategies."""


class ContextLimit(Node, frozen=True, kw_only=True):
    """The maximum length of the context before it is shortened."""

    chars: Chars | None = None
    messages: Messages | None = None


class ContextResize(Node, frozen=True, kw_only=True):
    """The same limits under their older names, and how often the context is shortened in any case."""

    every_n_turns: Turns | None = None
    max_messages_text_length: Chars | None = None
    max_keep_messages_count: Messages | None = None


class ContextMemo(Node, frozen=True, kw_only=True):
    """The memo: the model's notes on the whole conversation."""

    instruct: tuple[str, ...] = ()
    enabled: bool | None = None


class Context(Node, frozen=True, kw_only=True):
    """Which part of the conversation a model sees: the name of a strategy, and its options."""

    strategy: str
    k: Annotated[int, Meta(ge=1, le=PAIRS_MAX)] | None = None
    max_tokens: Tokens | None = None
    keep: Annotated[int, Meta(ge=1, le=MESSAGES_MAX)] | None = None
    instruct: str = ""
    limit: ContextLimit | None = None
    resize: ContextResize | None = None
    memo: ContextMemo | None = None
    options: Mapping[str, Value] = {}


def settings_of(context: Context) -> ContextSettings:
    """Return the settings of a context. Raises SettingsInvalid."""
    return read_settings(_written_keys(context))


def _written_keys(node: Node) -> dict[str, object]:
    """Return the keys that are written in a node, with their values."""
    keys: dict[str, object] = {}
    for field in msgspec.structs.fields(type(node)):
        value = getattr(node, field.name)
        if field.name in {"at", "marks"} or value is None or value in ("", (), {}):
            continue
        keys[field.name] = _written_keys(value) if isinstance(value, Node) else value
    return keys


def faults_of(context: Context) -> Iterator[Fault]:
    """Return the problems of a context whose structure is valid."""
    name = context.strategy
    if name not in strategies():
        fix = suggest(name, list(strategies()))
        yield Fault("CONTEXT_UNKNOWN", f"unknown context strategy {shorten(name)}", context.mark("strategy"), fix)
        return
    options = STRATEGY_OPTIONS.get(name, ("options",))
    fix = f"Its options are {', '.join(f'`{each}`' for each in options)}." if options else "It has no options."
    for key in _written_keys(context).keys() - {"strategy", *options}:
        yield Fault("CONTEXT_OPTION", f"`{name}` has no option `{key}`", context.mark(key), fix)


@cache
def strategies() -> tuple[str, ...]:
    """Return the names of all strategies: those of the runtime and those of installed packages."""
    return (*STRATEGY_OPTIONS, *sorted({each.name for each in entry_points(group=GROUP)} - STRATEGY_OPTIONS.keys()))
