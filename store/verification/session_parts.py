"""Read sessions for verification, in parts of a bounded size, without assuming that their rows are consistent."""

from collections.abc import Sequence
from typing import TypeAlias, TypeVar

from msgspec import Struct

from store.duckdb.statements import Cursor, fetch, snapshot
from store.interface.rows import PositionRow
from store.sql.connection import Parameters

Place: TypeAlias = tuple[str, str]
"""A tenant and a session id."""


class SessionSize(Struct, frozen=True):
    """A session and its size."""

    tenant: str
    session_id: str
    turns: int
    latest: int
    """The number of the latest turn; -1 if there is none."""
    bytes: int

    @property
    def place(self) -> Place:
        """The tenant and the session id."""
        return self.tenant, self.session_id


class StartRead(Struct, frozen=True):
    """The properties of a session that are set when it is created."""

    tenant: str
    session_id: str
    user_id: str
    digest: str
    is_redacted: bool
    """Whether its texts and values were removed by redaction."""


class MoveRead(Struct, frozen=True):
    """A migration of a session to another version of its script."""

    tenant: str
    session_id: str
    turn: int
    from_digest: str
    digest: str


class TurnRead(PositionRow, frozen=True):
    """A turn, with its JSON documents as they are stored."""

    tenant: str
    session_id: str
    user_id: str
    turn: int
    state: str | None
    """None if it was not requested."""
    messages: str
    variables: str
    events: str
    message_count: int
    event_count: int


R = TypeVar("R", MoveRead, TurnRead)


class SessionPart(Struct, frozen=True):
    """A range of turns of a session, in order, and all its migrations."""

    start: StartRead
    moves: Sequence[MoveRead]
    turns: Sequence[TurnRead]

    @property
    def place(self) -> Place:
        """The tenant and the session id."""
        return self.start.tenant, self.start.session_id


def session_count(cursor: Cursor) -> int:
    """Return the number of sessions of all tenants."""
    return int(cursor.execute("SELECT count(*) FROM session_starts").fetchall()[0][0])


def sessions_after(cursor: Cursor, after: Place | None, limit: int) -> list[SessionSize]:
    """Return at most `limit` sessions of all tenants after the tenant and session `after`, in order."""
    tenant, session_id = after or (None, None)
    select = """
        SELECT found.tenant, found.session_id, count(turn) AS turns, coalesce(max(turn), -1) AS latest,
            coalesce(sum(strlen(state) + strlen(messages) + strlen(variables) + strlen(events)), 0)::BIGINT AS bytes
        FROM (
            SELECT DISTINCT tenant, session_id FROM session_starts
            WHERE $tenant IS NULL OR (tenant, session_id) > ($tenant, $session_id::UUID)
            ORDER BY tenant, session_id LIMIT $limit
        ) AS found LEFT JOIN turns USING (tenant, session_id)
        GROUP BY ALL ORDER BY found.tenant, found.session_id"""
    parameters: Parameters = {"tenant": tenant, "session_id": session_id, "limit": limit}
    return fetch(cursor, SessionSize, select, parameters)


def read_parts(
    cursor: Cursor, places: Sequence[Place], first: int, last: int, *, every_state: bool
) -> list[SessionPart]:
    """Return turns `first` to `last` of these sessions, read in one transaction; deleted sessions are left out.

    Without `every_state`, only the states of the latest turns are read.
    """
    parameters: Parameters = {"ids": [session_id for _, session_id in places]}
    with snapshot(cursor):
        starts = fetch(cursor, StartRead, _STARTS, parameters)
        moves = fetch(cursor, MoveRead, _MOVES, parameters)
        bounds: Parameters = {"first": first, "last": last, "every": int(every_state)}
        turns = [TurnRead(*row) for row in cursor.execute(_TURNS, {**parameters, **bounds}).fetchall()]
    of_moves, of_turns = _by_place(moves), _by_place(turns)
    found = {_place(start): start for start in starts}
    return [
        SessionPart(found[place], of_moves.get(place, ()), of_turns.get(place, ()))
        for place in places
        if place in found
    ]


def _place(row: StartRead | MoveRead | TurnRead) -> Place:
    return row.tenant, row.session_id


def _by_place(rows: Sequence[R]) -> dict[Place, list[R]]:
    """Return the rows of each session, ordered by turn."""
    found: dict[Place, list[R]] = {}
    for row in sorted(rows, key=lambda row: row.turn):
        found.setdefault(_place(row), []).append(row)
    return found


_WHICH = "session_id IN (SELECT unnest($ids::UUID[]))"
_STARTS = f"""SELECT tenant, session_id, user_id, digest, redacted_at IS NOT NULL AS is_redacted
    FROM session_starts WHERE {_WHICH}"""  # noqa: S608
_MOVES = f"SELECT tenant, session_id, turn, from_digest, digest FROM session_migrations WHERE {_WHICH}"  # noqa: S608
_TURNS = f"""
    SELECT {", ".join(PositionRow.__struct_fields__)}, tenant, session_id::VARCHAR, user_id, turn,
        CASE WHEN $every = 1 OR turn = max(turn) OVER (PARTITION BY tenant, session_id) THEN state END, messages,
        variables, events, message_count, event_count
    FROM turns WHERE {_WHICH} AND turn BETWEEN $first AND $last"""  # noqa: S608
