"""The preview and the last message of a session in a list."""

import msgspec

from store.interface.list_rows import PREVIEW_MESSAGES, WORDS_CHARS_MAX
from store.sql.connection import decode


class ListTexts(msgspec.Struct, frozen=True):
    """The messages of three turns of a session, as JSON: the last one, and the first ones of and to the user."""

    last: str | None = None
    asked: str | None = None
    opened: str | None = None

    def last_message(self) -> str | None:
        """Return the last message."""
        return _messages(self.last)[-1].content[:WORDS_CHARS_MAX] if self.last else None

    def preview(self) -> str | None:
        """Return the user's first message, otherwise the first one to the user; only if it is among the first ones."""
        for role, text in (("user", self.asked), ("assistant", self.opened)):
            for message in _messages(text):
                if message.role == role and message.seq <= PREVIEW_MESSAGES:
                    return message.content[:WORDS_CHARS_MAX]
        return None


class _Message(msgspec.Struct, frozen=True):
    seq: int
    role: str
    content: str


def _messages(text: str | None) -> list[_Message]:
    return [] if text is None else decode(list[_Message], text)
