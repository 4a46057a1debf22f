"""Redact sessions: remove all texts and values, but retain every row, so that it is still counted."""

from collections.abc import Callable
from datetime import datetime

import msgspec

from store.interface.rows import JsonObject, encode, is_uuid
from store.sql.connection import Connection, Parameters, rows_select
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
    "outcome",
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


class _Metadata(msgspec.Struct, frozen=True):
    session_id: str
    metadata: JsonObject


class _Origin(msgspec.Struct, frozen=True):
    """What remains of the metadata of a session."""

    session_id: str
    metadata: str


def redact(
    connection: Connection, tenant: str, session_ids: list[str], at: datetime, rewrite: Callable[[Parameters], None]
) -> list[str]:
    """Redact sessions and delete their memory; return the users whose memory contained them. Within a transaction.

    `rewrite` redacts the turns and calls of `$sessions` of `$tenant`.
    """
    connection.prepare_change(tenant, session_ids)
    parameters: Parameters = {"tenant": tenant, "sessions": session_ids}
    users = delete_memory_of(connection, tenant, session_ids)
    rewrite(parameters)
    for table in ("webhook_deliveries", "timers", "hand_overs"):
        connection.change(f"DELETE FROM {table} WHERE {OF_SESSIONS}", parameters)  # noqa: S608
    connection.change(f"UPDATE turn_failures SET message = '' WHERE {OF_SESSIONS}", parameters)  # noqa: S608
    connection.change(f"UPDATE participants SET push = NULL WHERE {OF_SESSIONS} AND push IS NOT NULL", parameters)  # noqa: S608
    connection.change(f"UPDATE ratings SET texts = '{{}}' WHERE {OF_SESSIONS}", parameters)  # noqa: S608
    connection.change(f"UPDATE session_migrations SET why = '[]' WHERE {OF_SESSIONS}", parameters)  # noqa: S608
    _redact_starts(connection, parameters, at)
    return users


def _redact_starts(connection: Connection, parameters: Parameters, at: datetime) -> None:
    select = f"SELECT session_id, metadata FROM session_starts WHERE {OF_SESSIONS}"  # noqa: S608
    found = connection.fetch(_Metadata, select, parameters)
    origins = [_Origin(row.session_id, encode(_origin(row.metadata)).decode()) for row in found]
    if not origins:
        return
    given, values = rows_select(origins, {"session_id": "UUID", "metadata": "JSON"})
    connection.change(
        f"""UPDATE session_starts SET key = NULL, metadata = origin.metadata, redacted_at = $at::TIMESTAMPTZ
        FROM ({given}) AS origin
        WHERE session_starts.tenant = $tenant AND session_starts.session_id = origin.session_id""",  # noqa: S608
        {"tenant": parameters["tenant"], "at": at.isoformat(), **values},
    )


def _origin(metadata: JsonObject) -> JsonObject:
    """Return what remains of the metadata: the session and turn that a fork was copied from."""
    match metadata.get("forkedFrom"):
        case {"sessionId": str() as session_id, "turn": int() as turn} if is_uuid(session_id):
            return {"forkedFrom": {"sessionId": session_id, "turn": turn}}
        case _:
            return {}
