"""What is said in turns, without case, in a table of its own: a search reads it in place of the turns."""

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

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


def texts_of(turns: Iterable[SpokenTurn]) -> list[TurnText]:
    """Return the texts of turns; a turn in which nothing is said has none."""
    texts = ((turn, "\n".join(message.content for message in turn.messages)) for turn in turns)
    return [
        TurnText(turn.tenant, turn.session_id, turn.turn, turn.finished_at, without_case(text))
        for turn, text in texts
        if text
    ]


def decode_turns(documents: Sequence[bytes]) -> list[SpokenTurn]:
    """Return encoded turns with their messages."""
    return [_DECODER.decode(document) for document in documents]


_DECODER = msgspec.json.Decoder(SpokenTurn)
TURNS_OF_SESSION = f"SELECT tenant, session_id, turn, finished_at, messages FROM turns WHERE {OF_SESSION}"  # noqa: S608
"""SELECT of the turns that `of_session` names."""
