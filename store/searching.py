"""Full-text search: the messages in which all words occur, the last recorded first.

There is no index. The JSON of every turn is looked through with a regular expression for each word, newest first, and
DuckDB leaves off once it has enough: 3 ms where a word is common, 70 ms for one that is in none of 1,000,000 messages.
Only of the turns that are found the messages are taken apart and looked at exactly.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

import msgspec
from msgspec import Struct

from store.fetch import Cursor, Page, Parameters, bounded, cursor_of, fetch, iso, position_of
from store.rows import Role
from store.shown import GAPS, LAST_MOVES, SCRIPT, SPOKEN, TITLE, outside

CANDIDATES_MAX = 5_000
"""Turns whose messages one search takes apart; it ends there with what it has, and a cursor to go on with."""
_SPARE = 20  # more turns than hits wanted are taken at first: some words are in two messages of a turn


class SearchFilter(Struct, frozen=True, kw_only=True):
    """What is searched; null for all. Times are those of the turn: from then on, and before then."""

    words: tuple[str, ...]
    """Each must occur in a message, in either case; within a longer word will do."""
    role: Role | None = None
    user_id: str | None = None
    session_id: str | None = None
    script: str | None = None
    """The script a session runs now, by its uuid or by the id its author gave it."""
    after: datetime | None = None
    before: datetime | None = None


class Spoken(Struct, frozen=True):
    """A message that was found."""

    seq: int
    message_id: str
    role: Role
    content: str
    created_at: datetime


class Hit(Struct, frozen=True):
    """A message that was found, and the session it was said in."""

    session_id: str
    user_id: str
    key: str | None
    title: str
    turn: int
    message: Spoken


class _Candidate(Struct, frozen=True):
    """A turn that the regular expressions found, and those of its messages that really have all words."""

    session_id: str
    user_id: str
    key: str | None
    title: str
    turn: int
    finished_at: datetime
    said: list[Spoken]


_Place: TypeAlias = tuple[datetime, UUID, int, int]
"""How far a search has got: when a turn finished, its session, its number, and of its messages those from this on."""


def search(cursor: Cursor, tenant: str, what: SearchFilter, limit: int, page_cursor: str | None) -> Page[Hit]:
    """A page of messages, the last recorded first; it may be short and yet not the last. Raises CursorInvalid."""
    limit = bounded(limit)
    place: _Place | None = None if page_cursor is None else position_of(page_cursor, tuple[datetime, UUID, int, int])
    hits: list[tuple[Hit, _Place]] = []
    batch, looked_at = limit + _SPARE, 0
    while looked_at < CANDIDATES_MAX:
        found = _candidates(cursor, tenant, what, place, batch)
        hits += [hit for candidate in found for hit in _hits(candidate, place)]
        if len(hits) > limit:
            return Page([hit for hit, _ in hits[:limit]], cursor_of(hits[limit - 1][1]))
        if len(found) < batch:
            return Page([hit for hit, _ in hits], None)
        looked_at += batch
        place = (found[-1].finished_at, UUID(found[-1].session_id), found[-1].turn, 0)
        batch = min(batch * 4, CANDIDATES_MAX)
    return Page([hit for hit, _ in hits], None if place is None else cursor_of(place))


def _hits(candidate: _Candidate, place: _Place | None) -> Iterator[tuple[Hit, _Place]]:
    """What a turn has for a page that begins at a place, the last first."""
    owner, turn = UUID(candidate.session_id), candidate.turn
    here = place is not None and place[1:3] == (owner, turn)
    for message in reversed(candidate.said):
        if place is None or not here or message.seq < place[3]:
            hit = Hit(candidate.session_id, candidate.user_id, candidate.key, candidate.title, turn, message)
            yield hit, (candidate.finished_at, owner, turn, message.seq)


def _candidates(cursor: Cursor, tenant: str, what: SearchFilter, place: _Place | None, batch: int) -> list[_Candidate]:
    parameters: Parameters = {"tenant": tenant, "batch": batch}
    found = ["tenant = $tenant"]
    exact = []
    for number, word in enumerate(what.words):
        found += [f"regexp_matches(messages, $stored_{number})", f"regexp_matches(messages, $within_{number})"]
        exact.append(f"regexp_matches(message.content, $said_{number})")
        parameters |= {f"stored_{number}": _stored(word), f"within_{number}": _within(word, what.role)}
        parameters[f"said_{number}"] = f"(?i){_quoted(word)}"
    if what.role is not None:
        exact.append("message.role = $role")
        parameters["role"] = what.role
    for name, condition in _CONDITIONS.items():
        value = getattr(what, name)
        if value is not None:
            found.append(condition)
            parameters[name] = value.isoformat() if isinstance(value, datetime) else value
    if place is not None:
        found.append("(finished_at, session_id, turn) <= ($at_time::TIMESTAMPTZ, $at_id::UUID, $at_turn)")
        parameters |= {"at_time": place[0].isoformat(), "at_id": str(place[1]), "at_turn": place[2]}
    return fetch(cursor, _Candidate, _select(" AND ".join(found), " AND ".join(exact)), parameters)


_CONDITIONS = {
    "user_id": "user_id = $user_id",
    "session_id": "session_id = try_cast($session_id AS UUID)",
    "script": f"""session_id IN (
        SELECT s.session_id FROM session_starts AS s LEFT JOIN ({LAST_MOVES}) AS m USING (session_id)
        WHERE s.tenant = $tenant
            AND $script IN (coalesce(m.script_uuid, s.script_uuid), coalesce(m.script_id, s.script_id))
    )""",  # noqa: S608
    "after": "finished_at >= $after::TIMESTAMPTZ",
    "before": "finished_at < $before::TIMESTAMPTZ",
}


def _select(found: str, exact: str) -> str:
    return f"""
    WITH candidates AS (
        SELECT session_id, user_id, turn, finished_at, messages, message_count FROM turns WHERE {found}
        ORDER BY finished_at DESC, session_id DESC, turn DESC LIMIT $batch
    ), latest AS (
        SELECT session_id, max(turn) AS turn FROM turns
        WHERE tenant = $tenant AND session_id IN (SELECT session_id FROM candidates) GROUP BY session_id
    ), standing AS (
        SELECT t.session_id, {GAPS} AS gaps
        FROM turns AS t JOIN latest USING (session_id, turn) WHERE t.tenant = $tenant
    )
    SELECT c.session_id, c.user_id, s.key, {TITLE} AS title, c.turn, {iso("c.finished_at")} AS finished_at,
        CASE WHEN {outside("standing.gaps", "c.message_count")}
            THEN list_filter(from_json(c.messages, '{SPOKEN}'), lambda message: {exact}) ELSE [] END AS said
    FROM candidates AS c JOIN standing USING (session_id)
    JOIN session_starts AS s ON s.tenant = $tenant AND s.session_id = c.session_id
    LEFT JOIN ({LAST_MOVES}) AS m ON m.session_id = c.session_id {SCRIPT}
    ORDER BY c.finished_at DESC, c.session_id DESC, c.turn DESC"""  # noqa: S608


# -- regular expressions --------------------------------------------------------------------------------------------


def _stored(word: str) -> str:
    """Finds a word in the JSON of a turn, anywhere: the cheap look, which loses nothing."""
    return f"(?i){_quoted(_escaped(word))}"


def _within(word: str, role: Role | None) -> str:
    """Finds a word in the text of a message, not in the names and ids of the JSON around it."""
    said_by = "" if role is None else f'"role":"{role}",'
    return rf'{said_by}"content":"(?:[^"\\]|\\.)*(?i:{_quoted(_escaped(word))})'


def _escaped(word: str) -> str:
    """As it stands in stored JSON: what the encoder of the rows makes of it."""
    return msgspec.json.encode(word)[1:-1].decode()


def _quoted(text: str) -> str:
    """A regular expression of RE2 that stands for this very text."""
    return re.sub(r"[!-/:-@\[-^`{-~]", r"\\\g<0>", text)
