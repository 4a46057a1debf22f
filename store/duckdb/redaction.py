"""Redact the turns and calls of sessions.

The rows of turns and calls are deleted and inserted again, not updated. An UPDATE of their large columns makes the next
checkpoint rewrite these columns for all rows around: 2.4 s and 800 MB for a file of 800 MB, while turns wait.
"""

from collections.abc import Mapping
from datetime import datetime

from store.duckdb.connection import DuckDBConnection
from store.duckdb.event_fields_sql import remaining_event, remaining_fields
from store.duckdb.statements import Cursor
from store.sql.connection import Parameters
from store.sql.deletion import OF_SESSIONS
from store.sql.redaction import STATE_FIELDS, redact

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


def redact_sessions(connection: DuckDBConnection, tenant: str, session_ids: list[str], at: datetime) -> list[str]:
    """Redact sessions and delete their memory; return the users whose memory contained them. Within a transaction."""

    def rewrite(parameters: Parameters) -> None:
        for table, changes in REWRITTEN.items():
            _rewrite(connection.cursor, table, changes, parameters)

    return redact(connection, tenant, session_ids, at, rewrite)


def _rewrite(cursor: Cursor, table: str, changes: Mapping[str, str], parameters: Parameters) -> None:
    columns = ", ".join(f"{expression} AS {column}" for column, expression in changes.items())
    cursor.execute(
        f"CREATE TEMP TABLE reduced AS SELECT * REPLACE ({columns}) FROM {table} WHERE {OF_SESSIONS}",  # noqa: S608
        parameters,
    )
    cursor.execute(f"DELETE FROM {table} WHERE {OF_SESSIONS}", parameters)  # noqa: S608
    cursor.execute(f"INSERT INTO {table} BY NAME FROM reduced")
    cursor.execute("DROP TABLE reduced")
