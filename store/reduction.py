"""Dropping the text of sessions: every row stays to be counted, without the words and values in it.

The rows of turns and calls are replaced, not updated: an UPDATE of their large columns has the next checkpoint write
those columns anew for all rows around, 2.4 s and as many bytes again in a file of 800 MB, while turns wait.
"""

from collections.abc import Mapping
from datetime import datetime

from store.event_fields import kept_fields, kept_of_event
from store.fetch import Cursor
from store.removal import OF_SESSIONS, let_go_of_memory

STATE_FIELDS = (
    "version",
    "seed",
    "locale",
    "user_id",
    "turn",
    "begun",
    "status",
    "phase",
    "topic",
    "phase_entry",
    "topic_entry",
    "event_seq",
    "message_seq",
    "heard",
    "draws",
    "gaps",
    "wait.kind",
    "frames[].action",
    "frames[].block",
    "frames[].arm",
    "frames[].skill",
    "frames[].interrupt",
    "frames[].detector",
    "spent.calls",
    "spent.tokens",
    "spent.cost",
)
"""What stays of a state: where the session stands and what it counts. It can be read, but not gone on from."""

_MESSAGES = """to_json(list_transform(from_json(messages, '[{"seq": "INTEGER", "message_id": "VARCHAR",
    "role": "VARCHAR", "content": "VARCHAR", "action_id": "VARCHAR", "created_at": "VARCHAR",
    "characters": "INTEGER"}]'),
    lambda message: {'seq': message.seq, 'message_id': message.message_id, 'role': message.role, 'content': '',
        'action_id': message.action_id, 'metadata': '{}'::JSON, 'created_at': message.created_at,
        'characters': coalesce(message.characters, length(message.content))}))"""
_VARIABLES = """to_json(list_transform(from_json(variables, '[{"scope": "VARCHAR", "name": "VARCHAR", "old": "JSON",
    "new": "JSON", "type": "VARCHAR", "action_id": "VARCHAR", "source": "VARCHAR", "phase_id": "VARCHAR",
    "topic_id": "VARCHAR"}]'),
    lambda write: {'scope': write.scope, 'name': write.name, 'old': NULL, 'new': NULL, 'type': write.type,
        'action_id': write.action_id, 'source': write.source, 'phase_id': write.phase_id,
        'topic_id': write.topic_id}))"""
_EVENTS = f"""to_json(list_transform(
    from_json(events, '[{{"seq": "INTEGER", "kind": "VARCHAR", "data": "JSON"}}]'),
    lambda event: {{'seq': event.seq, 'kind': event.kind, 'data': {kept_of_event("event.kind", "event.data")}}}))"""
_CALL = {
    "request_digest": "''",
    "prompt_digest": "NULL",
    "error": "NULL",
    "failures": "NULL",
    "degraded": "NULL",
    "reply": "NULL",
    "withheld": "true",
}
REWRITTEN: Mapping[str, Mapping[str, str]] = {
    "turns": {
        "state": kept_fields("state", STATE_FIELDS),
        "idempotency_key": "NULL",
        "fingerprint": "NULL",
        "messages": _MESSAGES,
        "variables": _VARIABLES,
        "events": _EVENTS,
    },
    "settled_calls": _CALL,
    "call_journal": _CALL,
}
"""By table the columns that change, with SQL for what they become. Who is reduced twice is as who is reduced once."""

_ORIGIN = """CASE WHEN try_cast(metadata ->> '$.forkedFrom.sessionId' AS UUID) IS NOT NULL
    AND try_cast(metadata ->> '$.forkedFrom.turn' AS INTEGER) IS NOT NULL
    THEN json_object('forkedFrom', json_object('sessionId', metadata ->> '$.forkedFrom.sessionId',
        'turn', (metadata ->> '$.forkedFrom.turn')::INTEGER)) ELSE '{}'::JSON END"""


def drop_text(cursor: Cursor, tenant: str, session_ids: list[str], at: datetime) -> list[str]:
    """Drop the text of sessions, and what memory has of them; the users whose memory that was. Within a transaction."""
    given: dict[str, str | list[str]] = {"tenant": tenant, "sessions": session_ids}
    users = let_go_of_memory(cursor, tenant, session_ids)
    for table, changes in REWRITTEN.items():
        _rewrite(cursor, table, changes, given)
    cursor.execute(f"DELETE FROM webhook_deliveries WHERE {OF_SESSIONS}", given)  # noqa: S608
    cursor.execute(f"UPDATE turn_failures SET message = '' WHERE {OF_SESSIONS}", given)  # noqa: S608
    cursor.execute(f"UPDATE session_migrations SET why = '[]' WHERE {OF_SESSIONS}", given)  # noqa: S608
    cursor.execute(
        f"""UPDATE session_starts SET key = NULL, metadata = {_ORIGIN}, text_dropped_at = $at::TIMESTAMPTZ
        WHERE {OF_SESSIONS}""",  # noqa: S608
        given | {"at": at.isoformat()},
    )
    return users


def _rewrite(cursor: Cursor, table: str, changes: Mapping[str, str], given: dict[str, str | list[str]]) -> None:
    columns = ", ".join(f"{expression} AS {column}" for column, expression in changes.items())
    cursor.execute(
        f"CREATE TEMP TABLE reduced AS SELECT * REPLACE ({columns}) FROM {table} WHERE {OF_SESSIONS}",  # noqa: S608
        given,
    )
    cursor.execute(f"DELETE FROM {table} WHERE {OF_SESSIONS}", given)  # noqa: S608
    cursor.execute(f"INSERT INTO {table} BY NAME FROM reduced")
    cursor.execute("DROP TABLE reduced")
