"""A conversation and its settings in the forms of Agently: JSON or YAML, and names such as `session.limit`."""

import warnings
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
import yaml
from msgspec import Meta, Struct

from runtime.context.messages import adopt, message_of, record_of
from runtime.context.resize import LAST_RESIZE, Book, memo_without_note, newest_in, shown_memo
from runtime.state.events import Message
from runtime.state.state import ContextMemory, LastResize, Opener
from scripts.expressions.values import to_value
from scripts.model.context_strategies import ContextSettings, SettingsInvalid, read_settings

FORMAT = 1
NEXT_LINE = "\x85"  # a line break in YAML alone

Count: TypeAlias = Annotated[int, Meta(ge=0)]
_Record: TypeAlias = dict[str, Any]

T = TypeVar("T")

_OTHER_NAMES = {
    "_turns": "turns",
    "_last_resize_turn": "last_resize_turn",
    "_memo_cursor": "memo_cursor",
    "full_context": "full_chat_history",
    "context_window": "current_chat_history",
}
"""Names in files of Agently, with ours; if a file has both, ours takes precedence."""


class SavedConversation(Struct, frozen=True, kw_only=True):
    """A saved conversation, by the names of Agently; of files of other programs only the messages are required."""

    format: int = FORMAT
    id: str = ""
    full_chat_history: list[_Record]
    current_chat_history: list[_Record] | None = None  # None: all messages
    memo: _Record | None = None
    turns: Count | None = None  # None: count them
    last_resize_turn: Count = 0
    memo_cursor: Count = 0  # the number of the last message that the memo covers
    resized_to: Count = 0
    opener: Opener | None = None
    failed: Count = 0
    retry_in: Count = 0
    settings: ContextSettings | None = None


def save(id: str, book: Book, settings: ContextSettings) -> SavedConversation:
    """Return a conversation in its serializable form."""
    memory = book.memory
    return SavedConversation(
        id=id,
        full_chat_history=[record_of(message) for message in book.full],
        current_chat_history=[record_of(message) for message in book.current],
        memo=shown_memo(memory),
        turns=memory.turns,
        last_resize_turn=memory.resized_at,
        memo_cursor=memory.memo_to,
        resized_to=memory.resized_to,
        opener=memory.opener,
        failed=memory.failed,
        retry_in=memory.retry_in,
        settings=settings,
    )


def restore(document: SavedConversation) -> Book:
    """Return the conversation of a saved one. Raises TypeError, ValueRefused."""
    full: list[Message] = []
    for record in document.full_chat_history:
        before = full[-1].number if full else 0
        number = record.get("number")
        full.append(message_of(record, number if isinstance(number, int) and number > before else before + 1))
    window = document.current_chat_history
    current = tuple(full) if window is None else _window(window, full)
    seen = newest_in(full)
    turns = sum(message.role == "assistant" for message in full) if document.turns is None else document.turns
    saved_memo = document.memo or {}
    memo = to_value(memo_without_note(saved_memo))
    memory = ContextMemory(
        memo=memo if isinstance(memo, dict) else {},
        memo_to=min(document.memo_cursor, seen),
        seen=seen,
        turns=turns,
        resized_at=min(document.last_resize_turn, turns),
        resized_to=min(document.resized_to, seen),
        last_resize=_last_resize(saved_memo.get(LAST_RESIZE)),
        opener=document.opener,
        failed=document.failed,
        retry_in=document.retry_in,
    )
    return Book(tuple(full), current, memory)


def _last_resize(note: object) -> LastResize | None:
    """Return the last resize; None if a file of another program notes only its reason. Raises TypeError."""
    if note is None or (isinstance(note, Mapping) and not {"type", "turn"} <= note.keys()):
        return None
    return _convert(note, LastResize)


def from_json(text: str | bytes | Mapping[str, object]) -> SavedConversation:
    """Return the saved conversation in JSON or a decoded record. Raises TypeError, ValueError."""
    try:
        return _check(msgspec.json.decode(text) if isinstance(text, str | bytes) else text)
    except msgspec.DecodeError as error:
        raise ValueError(f"invalid JSON: {error}") from error


def to_yaml(document: SavedConversation, key_path: str = "") -> str:
    """Return a saved conversation as YAML, under the keys of a path."""
    tree: object = msgspec.to_builtins(document)
    for key in reversed(_keys(key_path)):
        tree = {key: tree}
    return yaml.dump(tree, Dumper=_WithoutAliases, allow_unicode=True, sort_keys=False)


def from_yaml(text: str | bytes, key_path: str = "") -> SavedConversation:
    """Return the saved conversation in YAML, under the keys of a path. Raises KeyError, TypeError, ValueError."""
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.CSafeLoader)):
            raise ValueError("aliases are not allowed in the YAML of a conversation")
        tree = yaml.load(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, UnicodeError) as error:
        raise ValueError(f"invalid YAML: {error}") from error
    for key in _keys(key_path):
        if not isinstance(tree, Mapping):
            raise TypeError(f"the value above {key!r} in the path {key_path!r} is not a record")
        if key not in tree:
            raise KeyError(f"the path {key_path!r} does not exist: there is no {key!r}")
        tree = tree[key]
    return _check(tree)


class _WithoutAliases(yaml.CSafeDumper):
    """Writes every message in full, even if both histories contain it."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    """Quote a text with a line break that readers would convert to a space."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if NEXT_LINE in text else None)


_WithoutAliases.add_representer(str, _text)


def _keys(key_path: str) -> list[str]:
    return key_path.split(".") if key_path else []


def _check(tree: object) -> SavedConversation:
    if not isinstance(tree, Mapping):
        raise TypeError(f"a saved conversation is a record, not {type(tree).__name__}")
    named = {**{_OTHER_NAMES.get(str(name), name): value for name, value in tree.items()}, **tree}
    if isinstance(settings := named.get("settings"), Mapping) and "strategy" not in settings:
        named["settings"] = _foreign_settings(settings)
    read = _convert(named, SavedConversation)
    if read.format > FORMAT:
        raise ValueError(f"the conversation was saved in format {read.format}; the newest supported one is {FORMAT}")
    return read


def _foreign_settings(settings: Mapping[str, object]) -> ContextSettings | None:
    """Return the settings of a session in those of another program; None if they cannot be read."""
    try:
        return saved_settings(settings)
    except SettingsInvalid:
        return None


def saved_settings(settings: Mapping[str, object]) -> ContextSettings | None:
    """Return the settings in a saved conversation, or of a session in those of another program, which contain much
    else; None if there are none. Raises SettingsInvalid.
    """
    if "strategy" in settings:
        checked_mode(settings["strategy"])
        return read_settings(settings)
    session = settings.get("session")
    if not isinstance(session, Mapping):
        return None
    known = {name: session[name] for name in ("mode", "limit", "resize", "memo") if name in session}
    return session_settings({"session": known})


def _convert(tree: object, kind: type[T]) -> T:
    try:
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError as error:
        raise TypeError(f"this is not a saved conversation: {error}") from error


def _window(records: list[_Record], full: list[Message]) -> tuple[Message, ...]:
    """Return the messages of a window; each may be a shorter copy of the message with its number."""
    numbers = {message.number for message in full}
    if all(isinstance(record.get("number"), int) for record in records):
        return tuple(message_of(each, each["number"] if each["number"] in numbers else 0) for each in records)
    return adopt(records, full)


# -- settings ---------------------------------------------------------------------------------------------------------


LEGACY = {
    "session.resize.max_current_chars": "session.limit.chars",
    "session.resize.keep_last_messages": "session.limit.messages",
}
"""Names of settings that are no longer used, and their replacements."""


class LegacySetting(UserWarning):
    """A setting whose name has no effect any more; the message names its replacement."""


def session_settings(settings: Mapping[str, object]) -> ContextSettings:
    """Return the settings in a record; names may be dotted or nested records.

    Raises SettingsInvalid for an unknown name or an invalid value.
    """
    tree = _tree(settings)
    session = tree.pop("session", None)
    if session is None:
        session = {}
    if tree:
        raise SettingsInvalid(f"the settings of a conversation belong under `session`, not under {', '.join(tree)}")
    if not isinstance(session, dict):
        raise SettingsInvalid(f"`session` contains settings by name, it is not {session!r:.40}")
    mode = session.pop("mode", "lite")
    values = {name: value for name, value in session.items() if value is not None}
    return read_settings({"strategy": checked_mode(mode), **values})


def checked_mode(mode: object) -> str:
    """Return a valid mode of a conversation. Raises SettingsInvalid."""
    if mode not in ("lite", "memo"):
        raise SettingsInvalid(f"the mode of a conversation is lite or memo, not {mode!r:.40}")
    return str(mode)


def _tree(values: Mapping[str, object]) -> dict[str, object]:
    tree: dict[str, object] = {}
    for path, value in _leaves(values, ""):
        if path in LEGACY:
            warnings.warn(f"{path} has no effect; set {LEGACY[path]}", LegacySetting, stacklevel=4)
            continue
        *above, name = path.split(".")
        place = tree
        for each in above:
            within = place.setdefault(each, {})
            if not isinstance(within, dict):
                raise SettingsInvalid(f"{path} is nested in a setting that has a plain value")
            place = within
        place[name] = value
    return tree


def _leaves(values: Mapping[str, object], above: str) -> list[tuple[str, object]]:
    """Return every value with its full dotted name."""
    found: list[tuple[str, object]] = []
    for name, value in values.items():
        path = f"{above}.{name}" if above else name
        found += _leaves(value, path) if isinstance(value, Mapping) else [(path, value)]
    return found
