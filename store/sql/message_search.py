"""Full-text search in pages: a database finds the turns that may match, and their matching messages become hits."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

import msgspec
from msgspec import Struct

from store.interface.list_rows import FoundMessage, Hit
from store.interface.pages import Page, bounded, cursor_of, position_of

CANDIDATES_MAX = 5_000
"""Turns whose messages one search decodes at most; it then returns what it has found, and a cursor to continue."""
_SPARE = 20  # turns read beyond the limit at first, since some of the candidates have no exact match


class Candidate(Struct, frozen=True):
    """A turn that may match, and those of its messages that contain all words."""

    session_id: str
    user_id: str
    key: str | None
    title: str
    turn: int
    finished_at: datetime
    matches: list[FoundMessage]


Position: TypeAlias = tuple[datetime, UUID, int, int]
"""The position of a hit: the time when its turn finished, the session, the turn, and the number of the message."""
FindCandidates: TypeAlias = Callable[[Position | None, int], list[Candidate]]
"""Returns at most so many turns from a position on, the most recent first."""


def search_in_pages(find: FindCandidates, limit: int, cursor: str | None) -> Page[Hit]:
    """Return a page of messages, the most recent first; a page that is not the last may be short.

    Raises CursorInvalid.
    """
    limit = bounded(limit)
    start: Position | None = None
    if cursor is not None:
        start = position_of(cursor, tuple[datetime, UUID, int, int])
    hits: list[tuple[Hit, Position]] = []
    batch, candidates = limit + _SPARE, 0
    while candidates < CANDIDATES_MAX:
        found = find(start, batch)
        hits += [hit for candidate in found for hit in _hits(candidate, start)]
        if len(hits) > limit:
            return Page([hit for hit, _ in hits[:limit]], cursor_of(hits[limit - 1][1]))
        if len(found) < batch:
            return Page([hit for hit, _ in hits], None)
        candidates += batch
        start = (found[-1].finished_at, UUID(found[-1].session_id), found[-1].turn, 0)
        batch = min(batch * 4, CANDIDATES_MAX)
    return Page([hit for hit, _ in hits], None if start is None else cursor_of(start))


def _hits(candidate: Candidate, start: Position | None) -> Iterator[tuple[Hit, Position]]:
    """Yield the hits of a turn that come after the position `start`, the last message first."""
    owner, turn = UUID(candidate.session_id), candidate.turn
    here = start is not None and start[1:3] == (owner, turn)
    for message in reversed(candidate.matches):
        if start is None or not here or message.seq < start[3]:
            hit = Hit(candidate.session_id, candidate.user_id, candidate.key, candidate.title, turn, message)
            yield hit, (candidate.finished_at, owner, turn, message.seq)


def escaped(word: str) -> str:
    """Return a word as it is escaped in stored JSON, by the encoder of the rows."""
    return msgspec.json.encode(word)[1:-1].decode()
