"""The rows of the tables that only PostgreSQL has: heads of sessions, and what is said in turns.

A head is the latest turn of a session; a transaction that adds a turn locks it. A search reads what is said in turns,
without case, in place of the turns.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from store.interface.rows import JsonText, TurnRow
from store.sql.connection import OF_SESSION


class _Latest(msgspec.Struct, frozen=True, kw_only=True):
    """The latest turn of a session."""

    tenant: str
    session_id: str
    turn: int
    message_count: int
    event_count: int
    status: str
    execution_status: str
    active_at: datetime
    """When the turn finished or the session was created, the later of both."""


class HeadRow(_Latest, frozen=True, kw_only=True):
    """The head of a session."""

    outcome: str | None
    gaps: JsonText


class LatestTurn(_Latest, frozen=True, kw_only=True):
    """The latest turn of a session, with the state from which the head takes the rest."""

    state: JsonText

    def head(self) -> HeadRow:
        """Return the head after this turn."""
        known = _fields_of(self.state)
        of_turn = {name: getattr(self, name) for name in _Latest.__struct_fields__}
        return HeadRow(**of_turn, outcome=known.outcome, gaps=msgspec.Raw(msgspec.json.encode(known.gaps)))


class _StateFields(msgspec.Struct, frozen=True):
    """The only fields of a state that the store reads."""

    outcome: str | None = None
    gaps: list[tuple[int, int]] = []


def _fields_of(state: JsonText) -> _StateFields:
    """Return the fields of a state, as far as it has them; whether it is valid JSON is for the database to say."""
    try:
        return msgspec.json.decode(state, type=_StateFields)
    except msgspec.DecodeError:
        return _StateFields()


LATEST_TURNS = """
SELECT DISTINCT ON (t.session_id) t.tenant, t.session_id, t.turn, t.message_count, t.event_count, t.status,
    t.execution_status, greatest(t.finished_at, s.created_at) AS active_at, t.state
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
