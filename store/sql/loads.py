"""Read at once what a server needs to continue a session."""

from store.interface.rows import KEYED_TURNS, RECENT_TURNS, LoadedSession, MessageRow, SessionHead
from store.sql.calls import unsettled_calls
from store.sql.connection import OF_SESSION, Connection, decode, of_session
from store.sql.turns import failures

# One statement for the latest turns and the first one: a statement costs more to plan than these rows to read.
_TURNS = f"""
SELECT turn, idempotency_key, CASE WHEN turn > $recent OR turn = 0 THEN messages::VARCHAR END FROM turns
WHERE {OF_SESSION} AND turn <= $head AND (turn > $keyed OR turn = 0)"""  # noqa: S608
_RARE = f"""
SELECT 'calls' FROM call_journal WHERE {OF_SESSION} UNION ALL SELECT 'failures' FROM turn_failures WHERE {OF_SESSION}
"""  # noqa: S608


def load_session(connection: Connection, head: SessionHead | None) -> LoadedSession | None:
    """Return what continues the session with this head, or None if there is none."""
    if head is None:
        return None
    session = head.tenant, head.session_id
    latest = {"head": head.turn, "recent": head.turn - RECENT_TURNS, "keyed": head.turn - KEYED_TURNS}
    turns = sorted(connection.rows(_TURNS, {**of_session(*session), **latest}))
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
