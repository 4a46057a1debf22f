"""The `context` of a script or an action, as authors write it: how a model is shown the conversation."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from scripts.contexts import (
    MESSAGES_MAX,
    PAIRS_MAX,
    TAKEN,
    Chars,
    ContextSettings,
    Messages,
    Tokens,
    Turns,
    read_settings,
)
from scripts.nodes import Location, Node
from scripts.suggest import suggest
from scripts.values import Value, shorten

GROUP = "cuebook.context"
"""The entry points by which installed packages bring strategies of their own."""


class ContextLimit(Node, frozen=True, kw_only=True):
    """How long what is shown may grow before it is made shorter."""

    chars: Chars | None = None
    messages: Messages | None = None


class ContextResize(Node, frozen=True, kw_only=True):
    """The same by the names of old, and how often it is made shorter in any case."""

    every_n_turns: Turns | None = None
    max_messages_text_length: Chars | None = None
    max_keep_messages_count: Messages | None = None


class ContextMemo(Node, frozen=True, kw_only=True):
    """What is kept in mind of all that was said."""

    instruct: tuple[str, ...] = ()
    enabled: bool | None = None


class Context(Node, frozen=True, kw_only=True):
    """How a model is shown the conversation: a strategy by its name, and what it takes."""

    strategy: str
    k: Annotated[int, Meta(ge=1, le=PAIRS_MAX)] | None = None
    max_tokens: Tokens | None = None
    keep: Annotated[int, Meta(ge=1, le=MESSAGES_MAX)] | None = None
    instruct: str = ""
    limit: ContextLimit | None = None
    resize: ContextResize | None = None
    memo: ContextMemo | None = None
    options: Mapping[str, Value] = {}


class Fault(Struct, frozen=True):
    """Something wrong with a context, and where it stands."""

    code: str
    message: str
    at: Location
    fix: str


def settings_of(context: Context) -> ContextSettings:
    """The settings that are written. Raises SettingsInvalid."""
    return read_settings(_given(context))


def _given(node: Node) -> dict[str, object]:
    """What is written in a node, by its keys."""
    found: dict[str, object] = {}
    for field in msgspec.structs.fields(type(node)):
        value = getattr(node, field.name)
        if field.name in {"at", "marks"} or value is None or value in ("", (), {}):
            continue
        found[field.name] = _given(value) if isinstance(value, Node) else value
    return found


def faults_of(context: Context) -> Iterator[Fault]:
    """What is wrong with a context that reads well."""
    name = context.strategy
    if name not in strategies():
        fix = suggest(name, list(strategies()))
        yield Fault("CONTEXT_UNKNOWN", f"there is no context strategy {shorten(name)}", context.mark("strategy"), fix)
        return
    takes = TAKEN.get(name, ("options",))
    fix = f"It takes {', '.join(f'`{each}`' for each in takes)}." if takes else "It takes no options."
    for key in _given(context).keys() - {"strategy", *takes}:
        yield Fault("CONTEXT_OPTION", f"`{name}` takes no `{key}`", context.mark(key), fix)


@cache
def strategies() -> tuple[str, ...]:
    """The names of all strategies there are: the runtime's own and those of installed packages."""
    return (*TAKEN, *sorted({each.name for each in entry_points(group=GROUP)} - TAKEN.keys()))
