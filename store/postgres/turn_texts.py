"""What is said in turns, without case, in a table of its own: a search reads it in place of the turns."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from store.interface.rows import TurnRow
from store.sql.connection import OF_SESSION


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
