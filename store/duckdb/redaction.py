"""Redact sessions: remove all texts and values, but retain every row, so that it is still counted.

The rows of turns and calls are deleted and inserted again, not updated. An UPDATE of their large columns makes the next
checkpoint rewrite these columns for all rows around: 2.4 s and 800 MB for a file of 800 MB, while turns wait.
"""

from collections.abc import Mapping
from datetime import datetime

from store.duckdb.connection import DuckDBConnection
from store.duckdb.event_fields_sql import remaining_event, remaining_fields
from store.duckdb.fetch import Cursor
from store.sql.deletion import OF_SESSIONS, delete_memory_of

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
"""The retained fields of a state: position and counters. A session with such a state can be read, but not continued."""

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
    lambda event: {{'seq': event.seq, 'kind': event.kind, 'data': {remaining_event("event.kind", "event.data")}}}))"""
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
        "state": remaining_fields("state", STATE_FIELDS),
        "idempotency_key": "NULL",
        "fingerprint": "NULL",
        "messages": _MESSAGES,
        "variables": _VARIABLES,
        "events": _EVENTS,
    },
    "settled_calls": _CALL | {"prompt": "NULL"},
    "call_journal": _CALL,
}
"""The columns to redact, by table, with SQL for the new values. Redaction is idempotent."""

_ORIGIN = """CASE WHEN try_cast(metadata ->> '$.forkedFrom.sessionId' AS UUID) IS NOT NULL
    AND try_cast(metadata ->> '$.forkedFrom.turn' AS INTEGER) IS NOT NULL
    THEN json_object('forkedFrom', json_object('sessionId', metadata ->> '$.forkedFrom.sessionId',
        'turn', (metadata ->> '$.forkedFrom.turn')::INTEGER)) ELSE '{}'::JSON END"""


def redact_sessions(connection: DuckDBConnection, tenant: str, session_ids: list[str], at: datetime) -> list[str]:
    """Redact sessions and delete their memory; return the users whose memory contained them. Within a transaction."""
    connection.prepare_change(tenant, session_ids)
    cursor = connection.cursor
    parameters: dict[str, str | list[str]] = {"tenant": tenant, "sessions": session_ids}
    users = delete_memory_of(connection, tenant, session_ids)
    for table, changes in REWRITTEN.items():
        _rewrite(cursor, table, changes, parameters)
    for table in ("webhook_deliveries", "timers", "hand_overs"):
        cursor.execute(f"DELETE FROM {table} WHERE {OF_SESSIONS}", parameters)  # noqa: S608
    cursor.execute(f"UPDATE turn_failures SET message = '' WHERE {OF_SESSIONS}", parameters)  # noqa: S608
    cursor.execute(f"UPDATE participants SET push = NULL WHERE {OF_SESSIONS} AND push IS NOT NULL", parameters)  # noqa: S608
    cursor.execute(f"UPDATE ratings SET texts = '{{}}' WHERE {OF_SESSIONS}", parameters)  # noqa: S608
    cursor.execute(f"UPDATE session_migrations SET why = '[]' WHERE {OF_SESSIONS}", parameters)  # noqa: S608
    cursor.execute(
        f"""UPDATE session_starts SET key = NULL, metadata = {_ORIGIN}, redacted_at = $at::TIMESTAMPTZ
        WHERE {OF_SESSIONS}""",  # noqa: S608
        parameters | {"at": at.isoformat()},
    )
    return users


def _rewrite(cursor: Cursor, table: str, changes: Mapping[str, str], parameters: dict[str, str | list[str]]) -> None:
    columns = ", ".join(f"{expression} AS {column}" for column, expression in changes.items())
    cursor.execute(
        f"CREATE TEMP TABLE reduced AS SELECT * REPLACE ({columns}) FROM {table} WHERE {OF_SESSIONS}",  # noqa: S608
        parameters,
    )
    cursor.execute(f"DELETE FROM {table} WHERE {OF_SESSIONS}", parameters)  # noqa: S608
    cursor.execute(f"INSERT INTO {table} BY NAME FROM reduced")
    cursor.execute("DROP TABLE reduced")
