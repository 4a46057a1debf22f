"""Conversations as JSON lines: a line about the session, then a message a line.

It is the form of nanobot's sessions, old (no key in the first line, or no such line at all) and new, and the one that
messages are exported in. A line that cannot be read is passed over and told of; all others are taken in their order.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec

from api.transfer.conversation import MESSAGES_MAX, Conversation, Said, Unusable, kept_of, message_of, moment_of
from api.transfer.problems import MASKED, Account, DocumentInvalid
from runtime.context.memory import ContextMemory
from scripts.nodes import ID_CHARS_MAX
from scripts.values import TEXT_CHARS_MAX

FORMAT: Final = "nanobot"
METADATA: Final = "metadata"
"""The `_type` of the line about the session."""
_SUMMARY = "_last_summary"


def read_lines(content: bytes, file_name: str, account: Account) -> Conversation:
    """What JSON lines tell of a session. Raises DocumentInvalid where no line can be read."""
    lines = _Lines(account)
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            lines.take(number, line)
        except Unusable as error:
            account.skip(number, str(error))
    if lines.head is None and not lines.messages and account.skipped_count:
        first = account.skipped[0]
        raise DocumentInvalid(f"no line can be read; line {first.line}: {first.reason}")
    return _conversation(lines, file_name, account)


class _Lines:
    """What the lines so far hold."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._place = 0
        self.head: Mapping[str, object] | None = None
        self.messages: list[Said] = []
        self.places: list[int] = []  # of the messages that are taken, among all lines but the one about the session

    def take(self, number: int, line: bytes) -> None:
        """One line more. Raises Unusable, and DocumentInvalid where there are too many."""
        try:
            given = _object(line)
        except Unusable:
            self._place += self.head is not None or bool(self._place)  # the first one may be about the session
            raise
        if given.get("_type") == METADATA:
            if self.head is not None:
                raise Unusable("it is a second line about the session")
            self.head = given
            return
        self._place += 1
        said, left_out = message_of(given)
        if len(self.messages) == MESSAGES_MAX:
            raise DocumentInvalid(f"line {number}: a session has at most {MESSAGES_MAX:,} messages")
        self.messages.append(said)
        self.places.append(self._place)
        for words in left_out:
            self._account.remark(f"line {number}: {words}")


def _object(line: bytes) -> dict[str, Any]:
    try:
        given = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Unusable(f"it is no JSON: {error}") from error
    if not isinstance(given, dict):
        raise Unusable("it is no JSON object")
    return given


def _conversation(lines: _Lines, file_name: str, account: Account) -> Conversation:
    head, messages, places = lines.head or {}, lines.messages, lines.places
    metadata = head.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        account.remark("the metadata is no object, and left out")
    kept, left_out = kept_of(metadata if isinstance(metadata, dict) else {})
    for words in left_out:
        account.remark(f"metadata: {words}")
    times = {}
    for name in ("created_at", "updated_at"):
        times[name] = moment_of(head.get(name))
        if times[name] is None and head.get(name) is not None:
            account.remark(f"{name} cannot be read, so it is that of the messages")
    offset = _offset(head.get("last_consolidated"), max(places, default=0), account)
    after = sum(place <= offset for place in places)
    own = head.get("cuebook")
    own = own if isinstance(own, dict) else {}
    if own.get("masked"):
        raise DocumentInvalid(MASKED)
    user_id, key = own.get("user_id"), head.get("key")
    if own and key == own.get("session_id"):  # its name, for want of a key
        key, file_name = None, ""
    return Conversation(
        format=FORMAT,
        messages=messages,
        key=_key(key, file_name, account),
        user_id=user_id if isinstance(user_id, str) and 0 < len(user_id) <= ID_CHARS_MAX else None,
        created_at=times["created_at"] or next((each.at for each in messages if each.at is not None), None),
        updated_at=times["updated_at"],
        metadata=kept,
        memory=_memory(after, kept.get(_SUMMARY)),
    )


def _key(given: object, file_name: str, account: Account) -> str | None:
    """The key of the session; where none is told, the file is named `{channel}_{chat}.jsonl` for it."""
    if isinstance(given, str) and 0 < len(given) <= ID_CHARS_MAX:
        return given
    if given not in {None, ""}:
        account.remark(f"the key is no text of 1 to {ID_CHARS_MAX} characters")
    stem = PurePosixPath(file_name).stem
    return stem.replace("_", ":", 1)[:ID_CHARS_MAX] or None


def _offset(given: object, count: int, account: Account) -> int:
    """How many messages the session was already made shorter by; 0 for anything else than a number of them."""
    if given is None:
        return 0
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= count:
        account.remark(f"last_consolidated is no number from 0 to {count}, and taken for 0")
        return 0
    return given


def _memory(after: int, summary: object) -> ContextMemory | None:
    text = summary.get("text") if isinstance(summary, dict) else summary
    if not after:
        return None
    if not isinstance(text, str) or not 0 < len(text) <= TEXT_CHARS_MAX:
        return ContextMemory(after=after)
    return ContextMemory(after=after, summary=text, summary_to=after)
