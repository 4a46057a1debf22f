"""The rows of the tables that only PostgreSQL has: heads of sessions, and what is said in turns.

A head is the latest turn of a session; a transaction that adds a turn locks it. A search reads what is said in turns,
without case, in place of the turns.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from store.interface.rows import JsonText, TurnRow
from store.sql.connection import OF_SESSION
from store.sql.turns import state_fields


class HeadRow(msgspec.Struct, frozen=True, kw_only=True):
    """The head of a session."""

    tenant: str
    session_id: str
    turn: int
    message_count: int
    event_count: int
    status: str
    execution_status: str
    active_at: datetime
    """When the latest turn finished or the session was created, whichever is later."""
    outcome: str | None = None
    gaps: JsonText = msgspec.Raw(b"[]")


class LatestTurn(HeadRow, frozen=True, kw_only=True):
    """The latest turn of a session, with the state from which the head takes its outcome and gaps."""

    state: JsonText

    def head(self) -> HeadRow:
        """Return the head after this turn."""
        known = state_fields(self.state)
        columns = {name: getattr(self, name) for name in HeadRow.__struct_fields__}
        return HeadRow(**columns | {"outcome": known.outcome, "gaps": msgspec.Raw(msgspec.json.encode(known.gaps))})


LATEST_TURNS = """
SELECT DISTINCT ON (t.session_id) t.tenant, t.session_id, t.turn, t.message_count, t.event_count, t.status,
    t.execution_status, t.state,
    greatest(max(t.finished_at) OVER (PARTITION BY t.session_id), s.created_at) AS active_at
FROM turns AS t JOIN session_starts AS s ON s.tenant = t.tenant AND s.session_id = t.session_id
WHERE t.tenant = $tenant AND t.session_id IN (SELECT unnest($sessions::UUID[]))
ORDER BY t.session_id, t.turn DESC
"""
"""SELECT of the latest turns of the sessions `$sessions` of `$tenant`."""


class _Message(msgspec.Struct, frozen=True):
    content: str


class SpokenTurn(msgspec.Struct, frozen=True):
    """A turn with its messages."""

    tenant: str
    session_id: str
    turn: int
    finished_at: datetime
    messages: list[_Message]


class TurnText(msgspec.Struct, frozen=True):
    """The messages of a turn as one text without case."""

    tenant: str
    session_id: str
    turn: int
    finished_at: datetime
    content: str


def without_case(text: str) -> str:
    """Return the same text for all texts that differ in nothing but case, in any language."""
    return text.casefold()


def texts_of(turns: Iterable[TurnRow | SpokenTurn]) -> list[TurnText]:
    """Return the texts of turns; a turn in which nothing is said has none."""
    texts = ((turn, "\n".join(message.content for message in turn.messages)) for turn in turns)
    return [
        TurnText(turn.tenant, turn.session_id, turn.turn, turn.finished_at, without_case(text))
        for turn, text in texts
        if text
    ]


TURNS_OF_SESSION = f"SELECT tenant, session_id, turn, finished_at, messages FROM turns WHERE {OF_SESSION}"  # noqa: S608
"""SELECT of the turns that `of_session` names."""
