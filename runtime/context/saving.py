"""A conversation as JSON or YAML, and back: everything it takes to go on, and nothing else."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
import yaml
from msgspec import Meta, Struct

from runtime.context.memory import ContextMemory, LastResize, Opener
from runtime.context.messages import adopted, message_of, record_of
from runtime.context.resizing import LAST_RESIZE, Book, memo_without_note, newest_in, shown_memo
from runtime.events import Message
from scripts.contexts import ContextSettings
from scripts.values import bounded

FORMAT = 1

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
"""Names that versions of Agently write, by ours; where both stand, ours counts."""


class Saved(Struct, frozen=True, kw_only=True):
    """A conversation as it is written down, by the names of seed 001; where others wrote it, the messages will do."""

    format: int = FORMAT
    id: str = ""
    full_chat_history: list[_Record]
    current_chat_history: list[_Record] | None = None  # None: all of it
    memo: _Record = {}
    turns: Count | None = None  # None: they are counted
    last_resize_turn: Count = 0
    memo_cursor: Count = 0  # the number of the last message the memo was made with
    resized_to: Count = 0
    opener: Opener | None = None
    failed: Count = 0
    retry_in: Count = 0
    settings: ContextSettings | None = None


def saved(id: str, book: Book, settings: ContextSettings) -> Saved:
    """A conversation, to be written down."""
    memory = book.memory
    return Saved(
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


def restored(given: Saved) -> Book:
    """The conversation that was written down. Raises TypeError, ValueRefused."""
    full: list[Message] = []
    for record in given.full_chat_history:
        before = full[-1].number if full else 0
        number = record.get("number")
        full.append(message_of(record, number if isinstance(number, int) and number > before else before + 1))
    window = given.current_chat_history
    current = tuple(full) if window is None else _window(window, full)
    seen = newest_in(full)
    turns = sum(message.role == "assistant" for message in full) if given.turns is None else given.turns
    note = given.memo.get(LAST_RESIZE)
    memo = bounded(memo_without_note(given.memo))
    memory = ContextMemory(
        memo=memo if isinstance(memo, dict) else {},
        memo_to=min(given.memo_cursor, seen),
        seen=seen,
        turns=turns,
        resized_at=min(given.last_resize_turn, turns),
        resized_to=min(given.resized_to, seen),
        last_resize=None if note is None else _converted(note, LastResize),
        opener=given.opener,
        failed=given.failed,
        retry_in=given.retry_in,
    )
    return Book(tuple(full), current, memory)


def to_json(given: Saved) -> str:
    """As JSON."""
    return msgspec.json.encode(given).decode()


def from_json(text: str | bytes | Mapping[str, object]) -> Saved:
    """From JSON, or what was read from it. Raises TypeError, ValueError."""
    if isinstance(text, Mapping):
        return _checked(text)
    try:
        read = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(f"this is no JSON: {error}") from error
    return _checked(read)


def to_yaml(given: Saved, key_path: str = "") -> str:
    """As YAML, under the keys of a path."""
    tree: object = msgspec.to_builtins(given)
    for key in reversed(_keys(key_path)):
        tree = {key: tree}
    return yaml.dump(tree, Dumper=_WithoutAliases, allow_unicode=True, sort_keys=False)


def from_yaml(text: str | bytes, key_path: str = "") -> Saved:
    """From YAML, under the keys of a path. Raises KeyError, TypeError, ValueError."""
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.CSafeLoader)):
            raise ValueError("the YAML of a conversation has no aliases")
        tree = yaml.load(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, UnicodeError) as error:
        raise ValueError(f"this is no YAML: {error}") from error
    for key in _keys(key_path):
        if not isinstance(tree, Mapping):
            raise TypeError(f"there is no record around {key!r}, of the path {key_path!r}")
        if key not in tree:
            raise KeyError(f"there is no {key!r}, of the path {key_path!r}")
        tree = tree[key]
    return _checked(tree)


class _WithoutAliases(yaml.SafeDumper):
    """Writes out every message in full, also one that stands in both histories."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _keys(key_path: str) -> list[str]:
    return key_path.split(".") if key_path else []


def _checked(tree: object) -> Saved:
    if not isinstance(tree, Mapping):
        raise TypeError(f"a conversation is written down as a record, not as {type(tree).__name__}")
    read = _converted({**{_OTHER_NAMES.get(str(name), name): value for name, value in tree.items()}, **tree}, Saved)
    if read.format > FORMAT:
        raise ValueError(f"this conversation was written down in format {read.format}; the newest known is {FORMAT}")
    return read


def _converted(tree: object, kind: type[T]) -> T:
    try:
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError as error:
        raise TypeError(f"this is no conversation that was written down: {error}") from error


def _window(records: list[_Record], full: list[Message]) -> tuple[Message, ...]:
    """The messages of a window; one may be a shorter copy of the message with its number."""
    numbers = {message.number for message in full}
    if all(isinstance(record.get("number"), int) for record in records):
        return tuple(message_of(each, each["number"] if each["number"] in numbers else 0) for each in records)
    return adopted(records, full)
