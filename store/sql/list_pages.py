"""The pages of a list of sessions: its filters, where a page starts, and previews of the conversations."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

import msgspec

from store.interface.errors import CursorInvalid
from store.interface.list_rows import (
    PREVIEW_MESSAGES,
    WORDS_CHARS_MAX,
    Order,
    SearchFilter,
    SessionFilter,
    SessionListed,
)
from store.interface.pages import Page, cursor_of, position_of
from store.sql.connection import Values, decode

CONDITIONS = {
    "user_id": "s.user_id = $user_id",
    "status": "latest.status = $status",
    "execution_status": """CASE WHEN EXISTS (
        SELECT 1 FROM turn_failures AS f WHERE f.tenant = $tenant AND f.session_id = latest.session_id
            AND f.turn_attempted - 1 = latest.turn
        ) THEN 'error' ELSE latest.execution_status END = $execution_status""",
    "outcome": "latest.outcome = $outcome",
    "script": "$script IN (coalesce(m.script_uuid, s.script_uuid), coalesce(m.script_id, s.script_id))",
    "script_version": "coalesce(m.script_version, s.script_version) = $script_version",
    "key": "s.key = $key",
    "key_prefix": "starts_with(s.key, $key_prefix)",
    "created_after": "s.created_at >= $created_after::TIMESTAMPTZ",
    "created_before": "s.created_at < $created_before::TIMESTAMPTZ",
    "active_after": "latest.active_at >= $active_after::TIMESTAMPTZ",
    "active_before": "latest.active_at < $active_before::TIMESTAMPTZ",
}
"""SQL for the filters of a session `s` with the latest turn `latest` and the last migration `m`."""


def set_filters(which: SessionFilter | SearchFilter, conditions: Mapping[str, str]) -> tuple[list[str], Values]:
    """Return the conditions of the filters that are set, and the values of these as parameters."""
    values = {name: getattr(which, name) for name in conditions}
    found: Values = {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in values.items()
        if value is not None
    }
    return [conditions[name] for name in found], found


class ListStart(msgspec.Struct, frozen=True, array_like=True):
    """The session after which a page starts."""

    order: Order
    time: datetime
    session_id: UUID


def list_start(order: Order, page_cursor: str | None) -> ListStart | None:
    """Return where a page starts; None: at the first session. Raises CursorInvalid."""
    if page_cursor is None:
        return None
    start = position_of(page_cursor, ListStart)
    if start.order != order:
        raise CursorInvalid(f"{page_cursor!r} is a cursor of a list in another order")
    return start


def list_page(rows: list[SessionListed], order: Order, *, has_more: bool) -> Page[SessionListed]:
    """Return a page; the next one starts after its last session."""
    if not has_more:
        return Page(rows, None)
    last = rows[-1]
    moment = last.created_at if order == "created" else last.updated_at
    return Page(rows, cursor_of((order, moment, last.session_id)))


class ListTexts(msgspec.Struct, frozen=True):
    """The messages of three turns of a session, as JSON: the last one, and the first ones of and to the user."""

    last: str | None = None
    asked: str | None = None
    opened: str | None = None

    def last_message(self) -> str | None:
        """Return the last message."""
        return _messages(self.last)[-1].content[:WORDS_CHARS_MAX] if self.last else None

    def preview(self) -> str | None:
        """Return the user's first message with words, otherwise the first one to the user; only if it is among the
        first ones.
        """
        for role, text in (("user", self.asked), ("assistant", self.opened)):
            for message in _messages(text):
                if message.role == role and message.seq <= PREVIEW_MESSAGES and message.content.strip():
                    return message.content[:WORDS_CHARS_MAX]
        return None


class _Message(msgspec.Struct, frozen=True):
    seq: int
    role: str
    content: str


def _messages(text: str | None) -> list[_Message]:
    return [] if text is None else decode(list[_Message], text)
