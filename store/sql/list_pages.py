"""The pages of a list of sessions: where one starts, and where the next one does."""

from datetime import datetime
from uuid import UUID

import msgspec

from store.interface.list_rows import Order, SessionListed
from store.interface.pages import Page, cursor_of, position_of


class ListStart(msgspec.Struct, frozen=True):
    """Where a page starts: after a session, or at the first one."""

    after_time: datetime | None = None
    after_id: UUID | None = None
    as_of: datetime | None = None
    """The time that the list describes; None: now."""


def list_start(order: Order, page_cursor: str | None) -> ListStart:
    """Return where a page starts. Raises CursorInvalid."""
    if page_cursor is None:
        return ListStart()
    if order == "created":
        return ListStart(*position_of(page_cursor, tuple[datetime, UUID]))
    return ListStart(*position_of(page_cursor, tuple[datetime, UUID, datetime]))


def list_page(rows: list[SessionListed], order: Order, *, has_more: bool) -> Page[SessionListed]:
    """Return a page; all pages by activity describe the time of the first one, so that each session is on one page."""
    if not has_more:
        return Page(rows, None)
    last = rows[-1]
    if order == "created":
        return Page(rows, cursor_of((last.created_at, last.session_id)))
    return Page(rows, cursor_of((last.updated_at, last.session_id, last.as_of)))
