"""Conversations as JSON lines: a line about the session, then one message per line.

This is the format of nanobot's sessions, old (no key in the first line, or no such line) and new, and of exported
messages. A line that cannot be read is skipped and reported; all others are imported in order.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec

from api.transfer.import_report import MASKED, DocumentInvalid, ImportReport
from api.transfer.imported_conversation import (
    ImportedConversation,
    ImportedMessage,
    MessageReader,
    MessageUnusable,
    moment_of,
    usable_metadata,
)
from runtime.state.state import ContextMemory
from scripts.expressions.values import TEXT_CHARS_MAX
from scripts.model.base import ID_CHARS_MAX

FORMAT: Final = "nanobot"
METADATA: Final = "metadata"
"""The `_type` of the line about the session."""
SUMMARY: Final = "_last_summary"
"""The metadata name of the summary of the first messages."""
_ECHO: Final = re.compile(r"\A\[Message Time: [^\]\n]+\]\n?|^\[image: [/~][^\]\n]+\][ \t]*(?:\n|\Z)", re.MULTILINE)
"""What nanobot adds to prompts: the time of a message, and the path of a picture on its machine."""
REPLAYED_MIN: Final = 8
"""How many of the last messages models still see if all were summarised before the import."""


def read_lines(content: bytes, file_name: str, report: ImportReport) -> ImportedConversation:
    """Read a conversation from JSON lines. Raises DocumentInvalid if no line can be read."""
    reader = MessageReader("line", report)
    head: Mapping[str, Any] | None = None
    place = 0  # among all lines except the one about the session
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            entry = _object(line)
        except MessageUnusable as error:
            report.skip(number, str(error))
            place += head is not None or bool(place)  # the first one may be about the session
            continue
        if entry.get("_type") != METADATA:
            place += 1
            if head is None or "cuebook" not in head:
                entry = _without_echo(entry, number, report)
            reader.take(number, entry, place)
        elif head is None:
            head = entry
        else:
            report.skip(number, "it is a second line about the session")
    if head is None and not reader.messages and report.skipped_count:
        first = report.skipped[0]
        raise DocumentInvalid(f"no line can be read; line {first.line}: {first.reason}")
    return _conversation(head or {}, reader, place, file_name, report)


def _without_echo(entry: dict[str, Any], number: int, report: ImportReport) -> dict[str, Any]:
    """Return a message of the assistant without what it has repeated of nanobot's prompts, which models would repeat
    again.
    """
    content = entry.get("content")
    if entry.get("role") != "assistant" or not isinstance(content, str) or not _ECHO.search(content):
        return entry
    report.remark(f"line {number}: the time or path that nanobot's prompts contain is left out of the text")
    return {**entry, "content": _ECHO.sub("", content).strip()}


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise MessageUnusable(f"it is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise MessageUnusable("it is not a JSON object")
    return value


def _conversation(
    head: Mapping[str, Any], reader: MessageReader, lines: int, file_name: str, report: ImportReport
) -> ImportedConversation:
    metadata = head.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        report.remark("the metadata is not an object and is left out")
    usable, left_out = usable_metadata(metadata if isinstance(metadata, dict) else {})
    report.remark_all("metadata", left_out)
    times = {}
    for name in ("created_at", "updated_at"):
        times[name] = moment_of(head.get(name))
        if times[name] is None and head.get(name) is not None:
            report.remark(f"{name} cannot be read and is taken from the messages")
    offset = report.count("last_consolidated", head.get("last_consolidated"), lines)  # messages that were summarised
    own = head.get("cuebook")
    own = own if isinstance(own, dict) else {}
    if own.get("masked"):
        raise DocumentInvalid(MASKED)
    user_id, key = own.get("user_id"), head.get("key")
    if own and key == own.get("session_id"):  # its name serves as its key
        key, file_name = None, ""
    return ImportedConversation(
        format=FORMAT,
        messages=reader.messages,
        key=_key(key, file_name, report),
        user_id=user_id if isinstance(user_id, str) and 0 < len(user_id) <= ID_CHARS_MAX else None,
        created_at=times["created_at"] or reader.begins_at,
        updated_at=times["updated_at"],
        metadata=usable,
        memory=_memory(reader.messages, reader.count_to(offset), usable.get(SUMMARY)) if offset else None,
    )


def _key(value: object, file_name: str, report: ImportReport) -> str | None:
    """Return the key of the session, else from the file name `{channel}_{chat}.jsonl`."""
    if isinstance(value, str) and 0 < len(value) <= ID_CHARS_MAX:
        return value
    if value is not None and value != "":
        report.remark(f"the key is not a text of 1 to {ID_CHARS_MAX} characters")
    stem = PurePosixPath(file_name).stem
    return stem.replace("_", ":", 1)[:ID_CHARS_MAX] or None


def _replay_start(messages: Sequence[ImportedMessage]) -> int:
    """Return the index of the last messages, extended to the message of the user that they answer."""
    begin = max(len(messages) - REPLAYED_MIN, 0)
    while begin and messages[begin].role != "user":
        begin -= 1
    return begin


def _memory(messages: Sequence[ImportedMessage], summarised: int, summary: object) -> ContextMemory:
    after = _replay_start(messages) if summarised == len(messages) else summarised
    text = summary.get("text") if isinstance(summary, dict) else summary
    if not isinstance(text, str) or not 0 < len(text) <= TEXT_CHARS_MAX:
        text = ""
    return ContextMemory(after=after, summary=text, summary_to=summarised)
