"""Context strategies: which part of a conversation a model sees, as settings, and as authors write it in `context`."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

from scripts.expressions.suggestions import suggest
from scripts.expressions.values import Value, shorten
from scripts.model.base import Node
from scripts.model.diagnostics import Fault

LIMIT_MAX = 1_000_000  # of characters, messages or turns: people write it for "never"
MESSAGES_MAX = 500  # that a strategy reads of a session
PAIRS_MAX = 100
TOKENS_MAX = 50_000
INSTRUCT_CHARS_MAX = 4_000

Chars: TypeAlias = Annotated[int, Meta(ge=0, le=LIMIT_MAX)]
Messages: TypeAlias = Annotated[int, Meta(ge=0, le=LIMIT_MAX)]
Tokens: TypeAlias = Annotated[int, Meta(ge=1, le=TOKENS_MAX)]
Turns: TypeAlias = Annotated[int, Meta(ge=0, le=LIMIT_MAX)]


class SettingsInvalid(ValueError):
    """The settings name no known strategy, or an option that it does not have; the message names the fix."""


class Limit(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The maximum size of a window before it is shortened; 0 sets no limit, None leaves it to `Resize`."""

    chars: Chars | None = None
    messages: Messages | None = None


class Resize(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The same limits under their older names, overridden by `Limit`, and the shortening interval; 0: never."""

    every_n_turns: Turns = 8
    max_messages_text_length: Chars = 12_000
    max_keep_messages_count: Messages | None = None


class Memo(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The memo on the whole conversation. `enabled` None: only with the strategy `memo`."""

    instruct: Annotated[str, Meta(max_length=INSTRUCT_CHARS_MAX)] | tuple[str, ...] = ""
    enabled: bool | None = None

    @property
    def wanted(self) -> str:
        """The instructions as one text."""
        return self.instruct if isinstance(self.instruct, str) else "\n".join(self.instruct)


class ContextSettings(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The name of a strategy and its options; `check_settings` verifies that the strategy has these options.

    `strategy` is `buffer`, `window`, `token_buffer`, `summary`, `summary_buffer`, `lite` or `memo`, or the name of one
    that an installed package provides, which has its own `options`.
    """

    strategy: str = "buffer"
    k: Annotated[int, Meta(ge=1, le=PAIRS_MAX)] | None = None  # exchanges in a window: a message and its answer
    max_tokens: Tokens | None = None  # of a token buffer or a summary buffer
    keep: Annotated[int, Meta(ge=1, le=MESSAGES_MAX)] | None = None  # unchanged messages after a summary
    instruct: Annotated[str, Meta(max_length=INSTRUCT_CHARS_MAX)] = ""  # what a summary or memo must contain
    limit: Limit = Limit()
    resize: Resize = Resize()
    memo: Memo = Memo()
    options: Mapping[str, Value] = {}

    @property
    def chars_max(self) -> int:
        """The number of characters at which a window is too long; 0: never."""
        return self.resize.max_messages_text_length if self.limit.chars is None else self.limit.chars

    @property
    def messages_max(self) -> int:
        """The maximum number of messages in a window; 0: no limit."""
        own = self.limit.messages
        return (self.resize.max_keep_messages_count if own is None else own) or 0

    @property
    def has_memo(self) -> bool:
        """Whether a memo is written: by `memo.enabled` if it is set, else by the strategy."""
        return self.strategy == "memo" if self.memo.enabled is None else self.memo.enabled

    @property
    def instructions(self) -> str:
        """What a summary of the conversation must contain."""
        return self.instruct or self.memo.wanted


STRATEGY_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "buffer": (),
    "window": ("k",),
    "token_buffer": ("max_tokens",),
    "summary": ("keep", "instruct"),
    "summary_buffer": ("max_tokens", "instruct"),
    "lite": ("limit", "resize", "memo"),
    "memo": ("limit", "resize", "memo", "instruct"),
}
"""The options of each built-in strategy."""


def check_settings(settings: ContextSettings, others: Mapping[str, object] | None = None) -> ContextSettings:
    """Return the settings if a strategy has this name and these options. Raises SettingsInvalid.

    `others` are the strategies of installed packages; None: they are unknown here, and any name may be one of them.
    """
    name = settings.strategy
    if not name.strip():
        raise SettingsInvalid("a context strategy needs a name")
    if name not in STRATEGY_OPTIONS and others is not None and name not in others:
        raise SettingsInvalid(f"unknown context strategy {name!r}. {suggest(name, [*{*STRATEGY_OPTIONS, *others}])}")
    options = STRATEGY_OPTIONS.get(name, ("options",))
    default = ContextSettings()
    for field in settings.__struct_fields__:
        if field != "strategy" and field not in options and getattr(settings, field) != getattr(default, field):
            names = f"its options are {', '.join(options)}" if options else "it has no options"
            raise SettingsInvalid(f"the context strategy {name} has no option {field!r}; {names}")
    return settings


def read_settings(value: object) -> ContextSettings:
    """Read settings from a mapping or from a strategy's name alone. Raises SettingsInvalid."""
    if isinstance(value, str):
        return check_settings(ContextSettings(strategy=value))
    try:
        return check_settings(msgspec.convert(value, ContextSettings))
    except msgspec.ValidationError as error:
        raise SettingsInvalid(f"the settings of a context cannot be read: {error}") from error


# -- the `context` of a script or an action ---------------------------------------------------------------------------


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
    """Yield the problems of a context whose structure is valid."""
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
    from importlib.metadata import entry_points  # not needed for scripts without `context`

    return (*STRATEGY_OPTIONS, *sorted({each.name for each in entry_points(group=GROUP)} - STRATEGY_OPTIONS.keys()))
