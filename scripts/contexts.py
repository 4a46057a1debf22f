"""How a model is shown a conversation: the name of a strategy and what it takes, as a value that is checked once."""

from collections.abc import Mapping
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

from scripts.suggest import suggest
from scripts.values import Value

CHARS_MAX = 200_000
MESSAGES_MAX = 500
PAIRS_MAX = 100
TOKENS_MAX = 50_000
TURNS_MAX = 1_000
INSTRUCT_CHARS_MAX = 4_000

Chars: TypeAlias = Annotated[int, Meta(ge=0, le=CHARS_MAX)]
Messages: TypeAlias = Annotated[int, Meta(ge=0, le=MESSAGES_MAX)]
Tokens: TypeAlias = Annotated[int, Meta(ge=1, le=TOKENS_MAX)]
Turns: TypeAlias = Annotated[int, Meta(ge=0, le=TURNS_MAX)]


class SettingsInvalid(ValueError):
    """Settings that name no strategy, or say what theirs does not take; the message names the fix."""


class Limit(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How long a window may grow before it is made smaller; none and 0 set no limit of their own."""

    chars: Chars | None = None
    messages: Messages | None = None


class Resize(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The same by the names of old, beneath `Limit`, and how often a window is looked after in any case; 0: never."""

    every_n_turns: Turns = 8
    max_messages_text_length: Chars = 12_000
    max_keep_messages_count: Messages | None = None


class Memo(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is kept in mind of all that was said. `enabled` None: with the strategy `memo`, and no other."""

    instruct: Annotated[str, Meta(max_length=INSTRUCT_CHARS_MAX)] | tuple[str, ...] = ""
    enabled: bool | None = None

    @property
    def wanted(self) -> str:
        """The instructions as one text."""
        return self.instruct if isinstance(self.instruct, str) else "\n".join(self.instruct)


class ContextSettings(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A strategy by its name, and what it takes; `checked` says whether the two go together.

    `strategy` is `buffer`, `window`, `token_buffer`, `summary`, `summary_buffer`, `lite` or `memo`, or the name of one
    that an installed package brings, which takes its own `options`.
    """

    strategy: str = "buffer"
    k: Annotated[int, Meta(ge=1, le=PAIRS_MAX)] | None = None  # exchanges in a window: what was said and its answer
    max_tokens: Tokens | None = None  # of a token buffer or a summary buffer
    keep: Annotated[int, Meta(ge=1, le=MESSAGES_MAX)] | None = None  # messages that stand after a summary as they are
    instruct: Annotated[str, Meta(max_length=INSTRUCT_CHARS_MAX)] = ""  # what matters in a summary or memo
    limit: Limit = Limit()
    resize: Resize = Resize()
    memo: Memo = Memo()
    options: Mapping[str, Value] = {}

    @property
    def chars_max(self) -> int:
        """Characters at which a window is too long; 0: never."""
        return self.resize.max_messages_text_length if self.limit.chars is None else self.limit.chars

    @property
    def messages_max(self) -> int:
        """Messages that a window may have; 0: any number."""
        own = self.limit.messages
        return (self.resize.max_keep_messages_count if own is None else own) or 0

    @property
    def has_memo(self) -> bool:
        """Whether a memo is kept: as was said explicitly, else by the strategy."""
        return self.strategy == "memo" if self.memo.enabled is None else self.memo.enabled

    @property
    def instructions(self) -> str:
        """What matters in an account of the conversation."""
        return self.instruct or self.memo.wanted


TAKEN: Mapping[str, tuple[str, ...]] = {
    "buffer": (),
    "window": ("k",),
    "token_buffer": ("max_tokens",),
    "summary": ("keep", "instruct"),
    "summary_buffer": ("max_tokens", "instruct"),
    "lite": ("limit", "resize", "memo"),
    "memo": ("limit", "resize", "memo", "instruct"),
}
"""What each of the strategies that are always there takes."""


def checked(settings: ContextSettings, others: Mapping[str, object] | None = None) -> ContextSettings:
    """The same settings, if a strategy has this name and takes what they say. Raises SettingsInvalid.

    `others` are the strategies that packages bring; None: they are not known here, and any name may be one.
    """
    name = settings.strategy
    if not name.strip():
        raise SettingsInvalid("a context strategy needs a name")
    if name not in TAKEN and others is not None and name not in others:
        raise SettingsInvalid(f"there is no context strategy {name!r}. {suggest(name, [*{*TAKEN, *others}])}")
    takes = TAKEN.get(name, ("options",))
    default = ContextSettings()
    for field in settings.__struct_fields__:
        if field != "strategy" and field not in takes and getattr(settings, field) != getattr(default, field):
            wanted = ", ".join(takes) or "no options"
            raise SettingsInvalid(f"the context strategy {name} takes no {field!r}; it takes {wanted}")
    return settings


def read_settings(given: object) -> ContextSettings:
    """The settings in a record, or in a bare name. Raises SettingsInvalid."""
    if isinstance(given, str):
        return checked(ContextSettings(strategy=given))
    try:
        return checked(msgspec.convert(given, ContextSettings))
    except msgspec.ValidationError as error:
        raise SettingsInvalid(f"the settings of a context cannot be read: {error}") from error
