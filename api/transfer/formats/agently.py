"""Reads sessions of Agently, as JSON or YAML: the whole history, its window, and a memo.

A single conversation (`runtime.context`) has the same field names and is read as well.
"""

from collections.abc import Mapping
from typing import Any, Final

from api.transfer.import_report import DocumentInvalid, ImportReport
from api.transfer.imported_conversation import (
    MESSAGES_MAX,
    ImportedConversation,
    ImportedMessage,
    MessageUnusable,
    message_of,
    usable_metadata,
)
from runtime.state.state import ContextMemory, LastResize
from scripts.model.base import ID_CHARS_MAX

FORMAT: Final = "agently"
_FULL = ("full_chat_history", "full_context")
_WINDOW = ("current_chat_history", "context_window")


def is_session(data: object) -> bool:
    """Return whether a value looks like an Agently session."""
    return isinstance(data, dict) and any(name in data for name in (*_FULL, *_WINDOW))


def at_path(document: object, path: str) -> object:
    """Return the value at a path of keys such as `payload.session`. Raises DocumentInvalid."""
    value = document
    for number, key in enumerate(path.split(".") if path else [], start=1):
        if not isinstance(value, dict) or key not in value:
            raise DocumentInvalid(f"there is nothing at {'.'.join(path.split('.')[:number])}")
        value = value[key]
    return value


def read_session(data: object, report: ImportReport) -> ImportedConversation:
    """Convert an Agently session. Raises DocumentInvalid."""
    if not isinstance(data, dict):
        raise DocumentInvalid(f"a session is an object, this is {_kind(data)}")
    full, window = _history(data, _FULL), _history(data, _WINDOW)
    messages: list[ImportedMessage] = []
    places: list[int] = []  # positions of imported messages in the whole history
    history = full if full is not None else window or []
    if len(history) > MESSAGES_MAX:
        raise DocumentInvalid(f"a session has at most {MESSAGES_MAX:,} messages, this one has {len(history):,}")
    for number, each in enumerate(history, start=1):
        try:
            message, left_out = message_of(each)
        except MessageUnusable as error:
            report.skip(number, str(error))
            continue
        messages.append(message)
        places.append(number)
        for words in left_out:
            report.remark(f"message {number}: {words}")
    own = data.get("id")
    return ImportedConversation(
        format=FORMAT,
        messages=messages,
        key=own if isinstance(own, str) and 0 < len(own) <= ID_CHARS_MAX else None,
        created_at=next((each.at for each in messages if each.at is not None), None),
        memory=_memory(data, messages, places, len(history) - len(window) if window is not None else 0, report),
    )


def _history(data: Mapping[str, Any], names: tuple[str, ...]) -> list[object] | None:
    name = next((name for name in names if data.get(name) is not None), None)
    if name is None:
        return None
    if not isinstance(data[name], list):
        raise DocumentInvalid(f"{name} is a list of messages, this is {_kind(data[name])}")
    return list(data[name])


def _memory(
    data: Mapping[str, Any], messages: list[ImportedMessage], places: list[int], before: int, report: ImportReport
) -> ContextMemory:
    memo = data.get("memo")
    if memo is not None and not isinstance(memo, dict):
        report.remark("the memo is not an object and is stored as `text`")
        memo = {"text": memo}
    usable, left_out = usable_metadata(memo or {})
    for words in left_out:
        report.remark(f"memo: {words}")
    resized = usable.pop("last_resize", None)
    return ContextMemory(
        after=sum(place <= before for place in places),
        memo=usable,
        memo_to=sum(place <= _count(data, "_memo_cursor", report) for place in places),
        seen=len(messages),
        turns=_count(data, "_turns", report) or sum(each.role == "assistant" for each in messages),
        resized_at=_count(data, "_last_resize_turn", report),
        last_resize=_resize(resized) if isinstance(resized, dict) else None,
    )


def _count(data: Mapping[str, Any], name: str, report: ImportReport) -> int:
    value = data.get(name, data.get(name.removeprefix("_"), 0))
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MESSAGES_MAX:
        report.remark(f"{name} is not a number from 0 to {MESSAGES_MAX:,} and counts as 0")
        return 0
    return value


def _resize(data: Mapping[str, Any]) -> LastResize | None:
    kind, turn, reason = data.get("type"), data.get("turn"), data.get("reason")
    if not isinstance(kind, str) or isinstance(turn, bool) or not isinstance(turn, int) or turn < 0:
        return None
    return LastResize(kind, turn, reason if isinstance(reason, str) else "")


def _kind(data: object) -> str:
    match data:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return "a text"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return "a number"
