"""Reads sessions of Agently, as JSON or YAML: the whole history, its window, a memo, and their settings.

A single conversation (`runtime.context`) has the same field names and is read as well.
"""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, Final

from api.transfer.import_report import DocumentInvalid, ImportReport
from api.transfer.imported_conversation import MESSAGES_MAX, ImportedConversation, MessageReader, usable_metadata
from runtime.context.serialization import saved_settings
from runtime.state.state import ContextMemory, LastResize
from scripts.model.base import ID_CHARS_MAX
from scripts.model.context_strategies import ContextSettings, SettingsInvalid

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
    reader = MessageReader("message", report)
    history = full if full is not None else window or []
    before = 0 if window is None else len(history) - len(window) + _count_first_system(window)
    for number, each in enumerate(history, start=1):
        reader.take(number, each)
    own = data.get("id")
    return ImportedConversation(
        format=FORMAT,
        messages=reader.messages,
        key=own if isinstance(own, str) and 0 < len(own) <= ID_CHARS_MAX else None,
        created_at=reader.begins_at,
        memory=_memory(data, reader, before if before > _count_first_system(history) else 0, report),
        settings=_settings(data.get("settings"), report),
    )


def _count_first_system(messages: Sequence[object]) -> int:
    """Return how many system messages there are at the beginning, where every window has them."""
    return sum(1 for _ in takewhile(lambda each: isinstance(each, dict) and each.get("role") == "system", messages))


def _settings(settings: object, report: ImportReport) -> ContextSettings | None:
    """Return the settings of the window and the memo; None if they are the default."""
    try:
        found = saved_settings(settings) if isinstance(settings, dict) else None
    except SettingsInvalid as error:
        report.remark(f"the settings are left out: {error}")
        return None
    return None if found == ContextSettings(strategy="lite") else found


def _history(data: Mapping[str, Any], names: tuple[str, ...]) -> list[object] | None:
    name = next((name for name in names if data.get(name) is not None), None)
    if name is None:
        return None
    if not isinstance(data[name], list):
        raise DocumentInvalid(f"{name} is a list of messages, this is {_kind(data[name])}")
    return list(data[name])


def _memory(data: Mapping[str, Any], reader: MessageReader, before: int, report: ImportReport) -> ContextMemory:
    memo = data.get("memo")
    if memo is not None and not isinstance(memo, dict):
        report.remark("the memo is not an object and is stored as `text`")
        memo = {"text": memo}
    usable, left_out = usable_metadata(memo or {})
    report.remark_all("memo", left_out)
    resized = usable.pop("last_resize", None)
    return ContextMemory(
        after=reader.count_to(before),
        memo=usable,
        memo_to=reader.count_to(_count(data, "_memo_cursor", report)),
        seen=len(reader.messages),
        turns=_count(data, "_turns", report) or sum(each.role == "assistant" for each in reader.messages),
        resized_at=_count(data, "_last_resize_turn", report),
        last_resize=_resize(resized) if isinstance(resized, dict) else None,
    )


def _count(data: Mapping[str, Any], name: str, report: ImportReport) -> int:
    return report.count(name, data.get(name, data.get(name.removeprefix("_"))), MESSAGES_MAX)


def _resize(data: Mapping[str, Any]) -> LastResize | None:
    kind, turn, reason = data.get("type"), data.get("turn"), data.get("reason")
    if not isinstance(kind, str) or isinstance(turn, bool) or not isinstance(turn, int) or turn < 0:
        return None
    return LastResize(kind, turn, reason if isinstance(reason, str) else "")


def _kind(data: object) -> str:
    return _KINDS.get(type(data), "a number")


_KINDS = {type(None): "null", bool: "true or false", str: "a text", list: "a list", dict: "an object"}
