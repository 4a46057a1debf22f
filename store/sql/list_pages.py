"""The pages of a list of sessions: its filters, where a page starts, and previews of the conversations."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeAlias, TypeVar
from uuid import UUID

import msgspec

from store.interface.errors import CursorInvalid
from store.interface.list_rows import (
    PREVIEW_MESSAGES,
    WORDS_CHARS_MAX,
    ListedSession,
    Order,
    SearchFilter,
    SessionFilter,
)
from store.interface.pages import Page, clamp_limit, cursor_of, position_of
from store.sql.connection import Connection, Values, decode

C = TypeVar("C", bound=Connection)
F = TypeVar("F")


def time_range(column: str, after: str, before: str) -> dict[str, str]:
    """Return the SQL of two filters by time: at or after the first parameter, and before the second."""
    return {after: f"{column} >= ${after}::TIMESTAMPTZ", before: f"{column} < ${before}::TIMESTAMPTZ"}


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
    **time_range("s.created_at", "created_after", "created_before"),
    **time_range("latest.active_at", "active_after", "active_before"),
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


FindSessions: TypeAlias = Callable[[C, str, SessionFilter, Order, ListStart | None, int], list[F]]
"""Returns the first sessions of a tenant that match, in an order from a start on; the last argument is a limit."""
DescribeSessions: TypeAlias = Callable[[C, str, list[F]], list[ListedSession]]
"""Returns the sessions that were found, in the same order, without those that were just deleted."""


def list_page(
    find: FindSessions[C, F],
    describe: DescribeSessions[C, F],
    connection: C,
    tenant: str,
    which: SessionFilter | None = None,
    *,
    order: Order = "created",
    limit: int = 50,
    cursor: str | None = None,
    prepare: Callable[[C], None] = lambda _: None,
) -> Page[ListedSession]:
    """Return a page of sessions, the most recently active or the newest first, found and described as of the same
    moment, after `prepare`, which runs outside of their transaction.

    A session that continues between two pages by activity is before them. A session that is deleted meanwhile is left
    out. Raises CursorInvalid.
    """
    limit = clamp_limit(limit)
    start = None if cursor is None else position_of(cursor, ListStart)
    if start is not None and start.order != order:
        raise CursorInvalid(f"{cursor!r} is a cursor of a list in another order")
    prepare(connection)
    with connection.snapshot():
        found = find(connection, tenant, which or SessionFilter(), order, start, limit + 1)
        rows = describe(connection, tenant, found[:limit])
    if not rows or len(found) <= limit:
        return Page(rows, None)
    moment = rows[-1].created_at if order == "created" else rows[-1].updated_at
    return Page(rows, cursor_of((order, moment, rows[-1].session_id)))


def list_conditions(
    tenant: str,
    which: SessionFilter,
    start: ListStart | None,
    by: tuple[str, str],
    conditions: Mapping[str, str] = CONDITIONS,
) -> tuple[str, Values]:
    """Return the condition of a list in the descending order of the columns `by`, a time and an id, and its parameters.

    The names of metadata are those of the database.
    """
    found, parameters = set_filters(which, conditions)
    for number, (name, value) in enumerate(which.metadata):
        text, json = (f"s.metadata {sign} $metadata_{number}" for sign in ("->>", "->"))
        found.append(f"coalesce({text}, CAST({json} AS VARCHAR)) = $value_{number}")  # null is JSON, but no text
        parameters |= {f"metadata_{number}": name, f"value_{number}": value}
    if start is not None:
        found.append(f"({', '.join(by)}) < ($after_time::TIMESTAMPTZ, $after_id::UUID)")
        parameters |= {"after_time": start.time.isoformat(), "after_id": str(start.session_id)}
    return " AND ".join(["latest.tenant = $tenant", *found]), parameters | {"tenant": tenant}


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
