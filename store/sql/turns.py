"""Read turns: complete turns, their messages, variable writes and events, or what a server needs to continue a session;
and store and read failed ones.
"""

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

import msgspec

from store.interface.pages import clamp_limit
from store.interface.rows import (
    KEYED_TURNS,
    NO_TURN,
    RECENT_TURNS,
    FailureRow,
    Gaps,
    JsonText,
    LoadedSession,
    MessageRow,
    PositionRow,
    Role,
    SessionHead,
    SnapshotRow,
    TurnEventsRow,
    TurnRow,
    UserMessageRow,
    VariableRow,
    VariableWriteRow,
)
from store.sql.calls import unsettled_calls
from store.sql.connection import OF_SESSION, Connection, Parameters, decode, exists, fetch_one, find_row, of_session

C = TypeVar("C", bound=Connection)
_POSITION = ", ".join(PositionRow.__struct_fields__)
_TURN = f"SELECT * FROM turns WHERE {OF_SESSION}"  # noqa: S608


class _MessageRole(msgspec.Struct, frozen=True):
    role: Role


class _Writes(msgspec.Struct, frozen=True):
    """The variable writes of one turn."""

    turn: int
    written_at: datetime
    variables: list[VariableRow]


def turn(connection: Connection, tenant: str, session_id: str, number: int) -> TurnRow | None:
    """Return one turn by its number."""
    return find_row(connection, TurnRow, "turns", {**of_session(tenant, session_id), "turn": number})


def turns(connection: Connection, tenant: str, session_id: str, *, first: int = 0, limit: int = 50) -> list[TurnRow]:
    """Return at most `limit` complete turns from turn `first` on, in order."""
    last = first + clamp_limit(limit) - 1
    parameters = {**of_session(tenant, session_id), "first": first, "last": last}
    return connection.fetch(TurnRow, f"{_TURN} AND turn BETWEEN $first AND $last ORDER BY turn", parameters)


def turn_by_key(connection: Connection, tenant: str, session_id: str, idempotency_key: str) -> TurnRow | None:
    """Return the turn that a request with this key created, or None."""
    parameters = {**of_session(tenant, session_id), "key": idempotency_key}
    if not exists(connection, "turns", f"{OF_SESSION} AND idempotency_key = $key", parameters):
        return None
    return fetch_one(connection, TurnRow, f"{_TURN} AND idempotency_key = $key ORDER BY turn LIMIT 1", parameters)


def messages(
    connection: Connection, tenant: str, session_id: str, *, after_seq: int = 0, limit: int = 100, without: Gaps = ()
) -> list[MessageRow]:
    """Return at most `limit` messages with numbers above `after_seq`, in order, except those in `without`."""
    bound = f"message_count > $after {outside(without)}"
    texts = _texts(connection, bound, "turn", _after(tenant, session_id, after_seq, limit))
    rows = [row for text in texts for row in decode(list[MessageRow], text) if row.seq > after_seq]
    return rows[: clamp_limit(limit)]


def recent_messages(
    connection: Connection,
    tenant: str,
    session_id: str,
    limit: int,
    *,
    before_seq: int | None = None,
    without: Gaps = (),
) -> list[MessageRow]:
    """Return the last `limit` messages with numbers below `before_seq`, in order, except those in `without`."""
    bound = f"turn > $after {outside(without)} {_below(before_seq)}"
    texts = _texts(connection, bound, "turn DESC", _after(tenant, session_id, NO_TURN, limit))
    rows = [row for text in reversed(texts) for row in decode(list[MessageRow], text)]
    rows = [row for row in rows if before_seq is None or row.seq < before_seq]
    return rows[-clamp_limit(limit) :]


def _below(seq: int | None) -> str:
    """Return an SQL condition for the turns up to the one with the message before `seq`."""
    if seq is None:
        return ""
    reaching = f"SELECT min(turn) FROM turns WHERE {OF_SESSION} AND message_count >= {int(seq) - 1}"  # noqa: S608
    return f"AND turn <= coalesce(({reaching}), 2147483647)"


def outside(gaps: Gaps) -> str:
    """Return an SQL condition for the turns whose messages are outside all gaps; a gap has all of them or none."""
    return "".join(f"AND message_count NOT BETWEEN {int(first)} AND {int(last)} " for first, last in gaps)


def user_message(
    connection: Connection, tenant: str, session_id: str, index: int, *, without: Gaps = ()
) -> UserMessageRow:
    """Return the user's message at an index, from 0, in the conversation except the messages in `without`."""
    found = connection.rows(
        f"""SELECT turn, messages::VARCHAR FROM turns WHERE {OF_SESSION} {outside(without)}
        AND strpos(messages::VARCHAR, '"role":"user","content":') > 0 ORDER BY turn""",  # noqa: S608
        of_session(tenant, session_id),
    )
    places = [
        (turn, number == 0)
        for turn, text in found
        for number, said in enumerate(decode(list[_MessageRole], text))
        if said.role == "user"
    ]
    turn, is_first = places[index] if 0 <= index < len(places) else (None, None)
    return UserMessageRow(len(places), turn, is_first)


def snapshots(
    connection: Connection, tenant: str, session_id: str, *, after_turn: int = NO_TURN, limit: int = 100
) -> list[SnapshotRow]:
    """Return the positions of the session after at most `limit` turns after `after_turn`, in order."""
    select = f"""
        SELECT turn, finished_at, {_POSITION}, message_count, event_count
        FROM turns WHERE {OF_SESSION} AND turn > $after ORDER BY turn LIMIT $limit"""  # noqa: S608
    return connection.fetch(SnapshotRow, select, _after(tenant, session_id, after_turn, limit))


def events(
    connection: Connection, tenant: str, session_id: str, *, after_seq: int = 0, limit: int = 20
) -> list[TurnEventsRow]:
    """Return at most `limit` turns with events with numbers above `after_seq`, in order."""
    select = f"""
        SELECT turn, {_POSITION}, messages, variables, events FROM turns
        WHERE {OF_SESSION} AND event_count > $after AND events::VARCHAR <> '[]' ORDER BY turn LIMIT $limit"""  # noqa: S608
    return connection.fetch(TurnEventsRow, select, _after(tenant, session_id, after_seq, limit))


def variable_history(
    connection: Connection,
    tenant: str,
    session_id: str,
    *,
    name: str | None = None,
    after_turn: int = NO_TURN,
    limit: int = 100,
) -> list[VariableWriteRow]:
    """Return the variable writes of at most `limit` turns after `after_turn`, in order; all, or those of `name`."""
    select = f"""
        SELECT turn, finished_at AS written_at, variables FROM turns
        WHERE {OF_SESSION} AND turn > $after AND variables::VARCHAR <> '[]' ORDER BY turn LIMIT $limit"""  # noqa: S608
    return [
        VariableWriteRow(**msgspec.structs.asdict(row), turn=found.turn, written_at=found.written_at)
        for found in connection.fetch(_Writes, select, _after(tenant, session_id, after_turn, limit))
        for row in found.variables
        if name is None or row.name == name
    ]


def _after(tenant: str, session_id: str, after: int, limit: int) -> Parameters:
    return {**of_session(tenant, session_id), "after": after, "limit": clamp_limit(limit)}


def _texts(connection: Connection, bound: str, order: str, parameters: Parameters) -> list[str]:
    """Return the non-empty JSON lists of messages of the turns within the bound.

    Every list has at least one message, so `limit` lists contain at least `limit` messages.
    """
    select = f"""SELECT messages::VARCHAR FROM turns WHERE {OF_SESSION} AND {bound} AND messages::VARCHAR <> '[]'
        ORDER BY {order} LIMIT $limit"""  # noqa: S608
    return [text for (text,) in connection.rows(select, parameters)]


def save_failure(connection: Connection, failure: FailureRow) -> bool:
    """Add a failure; return false if its session was deleted. Within a transaction."""
    has_session = exists(connection, "session_starts", OF_SESSION, of_session(failure.tenant, failure.session_id))
    if has_session:
        connection.insert("turn_failures", [failure])
    return has_session


def failures(connection: Connection, tenant: str, session_id: str) -> list[FailureRow]:
    """Return the last 100 failures of a session, the newest first."""
    parameters = of_session(tenant, session_id)
    if not exists(connection, "turn_failures", OF_SESSION, parameters):
        return []
    select = f"SELECT * FROM turn_failures WHERE {OF_SESSION} ORDER BY failed_at DESC LIMIT 100"  # noqa: S608
    return connection.fetch(FailureRow, select, parameters)


# One statement for the latest turns and the first one: a statement costs more to plan than these rows to read.
_LATEST = f"""
SELECT turn, idempotency_key, CASE WHEN turn > $recent OR turn = 0 THEN messages::VARCHAR END FROM turns
WHERE {OF_SESSION} AND turn <= $head AND (turn > $keyed OR turn = 0)"""  # noqa: S608
_RARE = f"""
SELECT 'calls' FROM call_journal WHERE {OF_SESSION} UNION ALL SELECT 'failures' FROM turn_failures WHERE {OF_SESSION}
"""  # noqa: S608


def load_session(
    head_of: Callable[[C, str, str], SessionHead | None], connection: C, tenant: str, session_id: str
) -> LoadedSession | None:
    """Return what continues the session whose head `head_of` returns, or None if there is none."""
    head = head_of(connection, tenant, session_id)
    if head is None:
        return None
    session = tenant, head.session_id
    latest = {"head": head.turn, "recent": head.turn - RECENT_TURNS, "keyed": head.turn - KEYED_TURNS}
    turns = sorted(connection.rows(_LATEST, {**of_session(*session), **latest}))
    rare = {kind for (kind,) in connection.rows(_RARE, of_session(*session))}
    messages = {turn: decode(list[MessageRow], text) for turn, _, text in turns if text is not None}
    return LoadedSession(
        head=head,
        first_messages=messages.get(0, []),
        recent_messages=[row for turn, rows in messages.items() if turn > latest["recent"] for row in rows],
        keys=[key for _, key, _ in turns if key is not None],
        calls=unsettled_calls(connection, *session) if "calls" in rare else [],
        failures=failures(connection, *session) if "failures" in rare else [],
    )


class StateFields(msgspec.Struct, frozen=True):
    """The only fields of a state that the store reads."""

    outcome: str | None = None
    gaps: list[tuple[int, int]] = []


def state_fields(state: JsonText) -> StateFields:
    """Return the fields of a state, as far as it has them; whether it is valid JSON is for the database to say."""
    try:
        return msgspec.json.decode(state, type=StateFields)
    except msgspec.DecodeError:
        return StateFields()
