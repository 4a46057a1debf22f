"""Full-text search in pages: a database finds the turns that may match, and their matching messages become hits."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import TypeAlias, TypeVar
from uuid import UUID

from msgspec import Struct

from store.interface.list_rows import FoundMessage, Hit, SearchFilter
from store.interface.pages import Page, clamp_limit, cursor_of, position_of
from store.sql.connection import Values, as_uuid
from store.sql.list_pages import set_filters, time_range
from store.sql.sessions import LAST_MOVES

C = TypeVar("C")

CANDIDATES_MAX = 5_000
"""Turns whose messages one search decodes at most; it then returns what it has found, and a cursor to continue."""
_SPARE = 20  # turns read beyond the limit at first, since some of the candidates have no exact match


class Candidate(Struct, frozen=True):
    """A turn in which all words are said, perhaps in several messages."""

    session_id: str
    user_id: str
    key: str | None
    title: str
    turn: int
    finished_at: datetime
    messages: list[FoundMessage]
    is_outside: bool
    """Whether its messages are outside the gaps of the conversation; a gap has all messages of a turn or none."""


Position: TypeAlias = tuple[datetime, UUID, int, int]
"""The position of a hit: the time when its turn finished, the session, the turn, and the number of the message."""
FindCandidates: TypeAlias = Callable[[C, str, SearchFilter, Position | None, int], list[Candidate]]
"""Returns the matching turns of a tenant from a position on, the most recent first; the last argument is a limit."""


def search_page(
    find: FindCandidates[C],
    connection: C,
    tenant: str,
    what: SearchFilter,
    *,
    limit: int = 50,
    cursor: str | None = None,
) -> Page[Hit]:
    """Return a page of messages that match, the most recent first; a page that is not the last may be short.

    Raises CursorInvalid.
    """
    limit, start = clamp_limit(limit), None if cursor is None else position_of(cursor, tuple[datetime, UUID, int, int])
    hits: list[tuple[Hit, Position]] = []
    batch, candidates = limit + _SPARE, 0
    while candidates < CANDIDATES_MAX:
        found = find(connection, tenant, what, start, batch)
        hits += [hit for candidate in found for hit in _hits(candidate, what, start)]
        if len(hits) > limit:
            return Page([hit for hit, _ in hits[:limit]], cursor_of(hits[limit - 1][1]))
        if len(found) < batch:
            return Page([hit for hit, _ in hits], None)
        candidates += batch
        start = (found[-1].finished_at, UUID(found[-1].session_id), found[-1].turn, 0)
        batch = min(batch * 4, CANDIDATES_MAX)
    return Page([hit for hit, _ in hits], None if start is None else cursor_of(start))


OF_SCRIPT = f"""SELECT s.session_id FROM session_starts AS s LEFT JOIN ({LAST_MOVES}) AS m USING (session_id)
    WHERE s.tenant = $tenant
        AND $script IN (coalesce(m.script_uuid, s.script_uuid), coalesce(m.script_id, s.script_id))"""  # noqa: S608
"""SELECT of the sessions that run the script `$script` now."""
CONDITIONS = {
    "user_id": "user_id = $user_id",
    "session_id": "session_id = $session_id::UUID",
    "script": f"session_id IN ({OF_SCRIPT})",
    **time_range("finished_at", "after", "before"),
}


def search_conditions(
    tenant: str, what: SearchFilter, start: Position | None, batch: int, conditions: Mapping[str, str] = CONDITIONS
) -> tuple[list[str], Values]:
    """Return the conditions of a search on turns other than its words, and their parameters with `$batch`."""
    found, parameters = set_filters(what, conditions)
    if what.session_id is not None:
        parameters["session_id"] = as_uuid(what.session_id)
    if start is not None:
        found.append("(finished_at, session_id, turn) <= ($at_time::TIMESTAMPTZ, $at_id::UUID, $at_turn)")
        parameters |= {"at_time": start[0].isoformat(), "at_id": str(start[1]), "at_turn": start[2]}
    return ["tenant = $tenant", *found], parameters | {"tenant": tenant, "batch": batch}


def _hits(candidate: Candidate, what: SearchFilter, start: Position | None) -> Iterator[tuple[Hit, Position]]:
    """Yield the hits of a turn that come after the position `start`, the last message first."""
    owner, turn = UUID(candidate.session_id), candidate.turn
    here = start is not None and start[1:3] == (owner, turn)
    for message in reversed(candidate.messages if candidate.is_outside else []):
        if _is_match(message, what) and (start is None or not here or message.seq < start[3]):
            hit = Hit(candidate.session_id, candidate.user_id, candidate.key, candidate.title, turn, message)
            yield hit, (candidate.finished_at, owner, turn, message.seq)


def _is_match(message: FoundMessage, what: SearchFilter) -> bool:
    return what.role in {None, message.role} and all(
        re.search(re.escape(word), message.content, re.IGNORECASE) for word in what.words
    )
