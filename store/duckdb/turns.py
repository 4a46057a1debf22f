"""Read turns: complete turns, or their messages, variable writes and events."""

from datetime import datetime

import msgspec

from store.duckdb.fetch import Cursor, Parameters, decode, exists, fetch, fetch_one, iso, utc
from store.interface.pages import bounded
from store.interface.rows import (
    NO_TURN,
    Gaps,
    MessageRow,
    PositionRow,
    SnapshotRow,
    TurnEventsRow,
    TurnRow,
    UserMessageRow,
    VariableRow,
    VariableWriteRow,
)

_OF_SESSION = "tenant = $tenant AND session_id = try_cast($session_id AS UUID)"
_POSITION = ", ".join(PositionRow.__struct_fields__)
_TURN = f"SELECT * {utc('started_at', 'finished_at')} FROM turns WHERE {_OF_SESSION}"  # noqa: S608


class _Writes(msgspec.Struct, frozen=True):
    """The variable writes of one turn."""

    turn: int
    written_at: datetime
    variables: list[VariableRow]


def turn(cursor: Cursor, tenant: str, session_id: str, number: int) -> TurnRow | None:
    """Return one turn by its number."""
    parameters: Parameters = {"tenant": tenant, "session_id": session_id, "number": number}
    return fetch_one(cursor, TurnRow, f"{_TURN} AND turn = $number", parameters)


def turns(cursor: Cursor, tenant: str, session_id: str, *, first: int = 0, limit: int = 50) -> list[TurnRow]:
    """Return at most `limit` complete turns from turn `first` on, in order."""
    last = first + bounded(limit) - 1
    parameters: Parameters = {"tenant": tenant, "session_id": session_id, "first": first, "last": last}
    return fetch(cursor, TurnRow, f"{_TURN} AND turn BETWEEN $first AND $last ORDER BY turn", parameters)


def turn_by_key(cursor: Cursor, tenant: str, session_id: str, idempotency_key: str) -> TurnRow | None:
    """Return the turn that a request with this key created, or None."""
    parameters: Parameters = {"tenant": tenant, "session_id": session_id, "key": idempotency_key}
    if not exists(cursor, "turns", f"{_OF_SESSION} AND idempotency_key = $key", parameters):
        return None
    return fetch_one(cursor, TurnRow, f"{_TURN} AND idempotency_key = $key ORDER BY turn LIMIT 1", parameters)


def messages(
    cursor: Cursor, tenant: str, session_id: str, *, after_seq: int = 0, limit: int = 100, without: Gaps = ()
) -> list[MessageRow]:
    """Return at most `limit` messages with numbers above `after_seq`, in order, except those in `without`."""
    bound = f"message_count > $after {outside(without)}"
    texts = _texts(cursor, "messages", bound, "turn", tenant, session_id, after_seq, bounded(limit))
    rows = [row for text in texts for row in decode(list[MessageRow], text) if row.seq > after_seq]
    return rows[: bounded(limit)]


def recent_messages(
    cursor: Cursor, tenant: str, session_id: str, limit: int, *, before_seq: int | None = None, without: Gaps = ()
) -> list[MessageRow]:
    """Return the last `limit` messages with numbers below `before_seq`, in order, except those in `without`."""
    bound = f"turn > $after {outside(without)} {_below(before_seq)}"
    texts = _texts(cursor, "messages", bound, "turn DESC", tenant, session_id, NO_TURN, bounded(limit))
    rows = [row for text in reversed(texts) for row in decode(list[MessageRow], text)]
    rows = [row for row in rows if before_seq is None or row.seq < before_seq]
    return rows[-bounded(limit) :]


def _below(seq: int | None) -> str:
    """Return an SQL condition for the turns up to the one with the message before `seq`."""
    if seq is None:
        return ""
    reaching = f"SELECT min(turn) FROM turns WHERE {_OF_SESSION} AND message_count >= {int(seq) - 1}"  # noqa: S608
    return f"AND turn <= coalesce(({reaching}), 2147483647)"


def outside(gaps: Gaps) -> str:
    """Return an SQL condition for the turns whose messages are outside all gaps; a gap has all of them or none."""
    return "".join(f"AND message_count NOT BETWEEN {int(first)} AND {int(last)} " for first, last in gaps)


def user_message(cursor: Cursor, tenant: str, session_id: str, index: int, *, without: Gaps = ()) -> UserMessageRow:
    """Return the user's message at an index, from 0, among those that are not in a gap."""
    select = f"""
        WITH said AS (
            SELECT turn, unnest(from_json(messages, '[{{"seq": "INTEGER", "role": "VARCHAR"}}]'), max_depth := 2)
            FROM turns WHERE {_OF_SESSION} {outside(without)}
        ), placed AS (
            SELECT turn, role, row_number() OVER (PARTITION BY turn ORDER BY seq) = 1 AS is_first,
                row_number() OVER (PARTITION BY role ORDER BY seq) - 1 AS place
            FROM said
        )
        SELECT count(*) AS count, any_value(turn) FILTER (WHERE place = $index) AS turn,
            any_value(is_first) FILTER (WHERE place = $index) AS is_first
        FROM placed WHERE role = 'user'"""  # noqa: S608
    parameters: Parameters = {"tenant": tenant, "session_id": session_id, "index": index}
    (row,) = fetch(cursor, UserMessageRow, select, parameters)
    return row


def snapshots(
    cursor: Cursor, tenant: str, session_id: str, *, after_turn: int = NO_TURN, limit: int = 100
) -> list[SnapshotRow]:
    """Return the positions of the session after at most `limit` turns after `after_turn`, in order."""
    select = f"""
        SELECT turn, {iso("finished_at")} AS finished_at, {_POSITION}, message_count, event_count
        FROM turns WHERE {_OF_SESSION} AND turn > $after ORDER BY turn LIMIT $limit"""  # noqa: S608
    parameters: Parameters = {"tenant": tenant, "session_id": session_id, "after": after_turn, "limit": bounded(limit)}
    return fetch(cursor, SnapshotRow, select, parameters)


def events(cursor: Cursor, tenant: str, session_id: str, *, after_seq: int = 0, limit: int = 20) -> list[TurnEventsRow]:
    """Return at most `limit` turns with events with numbers above `after_seq`, in order."""
    select = f"""
        SELECT turn, {_POSITION}, messages, variables, events
        FROM turns WHERE {_OF_SESSION} AND event_count > $after AND events <> '[]' ORDER BY turn LIMIT $limit"""  # noqa: S608
    parameters: Parameters = {"tenant": tenant, "session_id": session_id, "after": after_seq, "limit": bounded(limit)}
    return fetch(cursor, TurnEventsRow, select, parameters)


def variable_history(
    cursor: Cursor,
    tenant: str,
    session_id: str,
    *,
    name: str | None = None,
    after_turn: int = NO_TURN,
    limit: int = 100,
) -> list[VariableWriteRow]:
    """Return the variable writes of at most `limit` turns after `after_turn`, in order; all, or those of `name`."""
    select = f"""
        SELECT turn, {iso("finished_at")} AS written_at, variables FROM turns
        WHERE {_OF_SESSION} AND turn > $after AND variables <> '[]' ORDER BY turn LIMIT $limit"""  # noqa: S608
    parameters: Parameters = {"tenant": tenant, "session_id": session_id, "after": after_turn, "limit": bounded(limit)}
    return [
        VariableWriteRow(**msgspec.structs.asdict(row), turn=found.turn, written_at=found.written_at)
        for found in fetch(cursor, _Writes, select, parameters)
        for row in found.variables
        if name is None or row.name == name
    ]


def _texts(
    cursor: Cursor, column: str, bound: str, order: str, tenant: str, session_id: str, after: int, limit: int
) -> list[str]:
    """Return the non-empty JSON lists of the turns within the bound.

    Every list has at least one row, so `limit` lists contain at least `limit` rows, if there are so many.
    """
    found = cursor.execute(
        f"""SELECT {column} FROM turns WHERE {_OF_SESSION} AND {bound} AND {column} <> '[]'
        ORDER BY {order} LIMIT $limit""",  # noqa: S608
        {"tenant": tenant, "session_id": session_id, "after": after, "limit": limit},
    ).fetchall()
    return [text for (text,) in found]
