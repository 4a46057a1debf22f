"""Redact sessions: remove all texts and values, but retain every row, so that it is still counted.

The rows of turns and calls are deleted and inserted again, not updated. In DuckDB, an UPDATE of their large columns
makes the next checkpoint rewrite these columns for all rows around: 2.4 s and 800 MB for a file of 800 MB, while turns
wait.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from store.interface.admission import StoredTurn
from store.interface.event_fields import EACH, EVENT_FIELDS, FieldTree, field_tree
from store.interface.rows import (
    NO_TURN,
    CallRow,
    EventRow,
    JsonObject,
    JsonText,
    MessageRow,
    SessionRow,
    SettledCallRow,
    is_uuid,
)
from store.sql.connection import NO_SESSION, Connection, Parameters, Values
from store.sql.deletion import OF_SESSIONS, delete_memory_of

TURNS_A_READ = 500
STATE_FIELDS = (
    "version", "seed", "locale", "user_id", "turn", "begun", "status", "phase", "topic", "phase_entry",
    "topic_entry", "event_seq", "message_seq", "heard", "draws", "outcome", "gaps", "wait.kind", "frames[].action",
    "frames[].block", "frames[].arm", "frames[].skill", "frames[].interrupt", "frames[].detector", "spent.calls",
    "spent.tokens", "spent.cost",
)  # fmt: skip
"""The retained fields of a state: position and counters. A session with such a state can be read, but not continued."""


def redact_sessions(connection: Connection, tenant: str, session_ids: list[str], at: datetime) -> list[str]:
    """Redact sessions and delete their memory; return the users whose memory contained them. Within a transaction.

    What is redacted already stays as it is.
    """
    connection.prepare_change(tenant, session_ids)
    parameters: Parameters = {"tenant": tenant, "sessions": session_ids}
    users = delete_memory_of(connection, tenant, session_ids)
    _redact_turns(connection, parameters)
    _redact_calls(connection, parameters)
    for table in ("webhook_deliveries", "timers", "hand_overs", *connection.derived_texts):
        connection.change(f"DELETE FROM {table} WHERE {OF_SESSIONS}", parameters)  # noqa: S608
    connection.change(f"UPDATE turn_failures SET message = '' WHERE {OF_SESSIONS}", parameters)  # noqa: S608
    connection.change(f"UPDATE participants SET push = NULL WHERE {OF_SESSIONS} AND push IS NOT NULL", parameters)  # noqa: S608
    connection.change(f"UPDATE ratings SET texts = '{{}}' WHERE {OF_SESSIONS}", parameters)  # noqa: S608
    connection.change(f"UPDATE session_migrations SET why = '[]' WHERE {OF_SESSIONS}", parameters)  # noqa: S608
    _redact_starts(connection, parameters, at)
    return users


_NEXT = f"""SELECT * FROM turns WHERE {OF_SESSIONS} AND (session_id, turn) > ($after_id::UUID, $after_turn)
    ORDER BY session_id, turn LIMIT {TURNS_A_READ}"""  # noqa: S608
_DELETE = f"""DELETE FROM turns WHERE {OF_SESSIONS}
    AND (session_id, turn) IN (SELECT unnest($ids::UUID[]), unnest($turns::INTEGER[]))"""  # noqa: S608


def _redact_turns(connection: Connection, parameters: Parameters) -> None:
    after: Values = {"after_id": NO_SESSION, "after_turn": NO_TURN}
    while turns := connection.fetch(StoredTurn, _NEXT, {**parameters, **after}):
        numbers: Values = {"ids": [turn.session_id for turn in turns], "turns": [turn.turn for turn in turns]}
        connection.change(_DELETE, {**parameters, **numbers})
        connection.insert("turns", [_redact(turn) for turn in turns])
        after = {"after_id": turns[-1].session_id, "after_turn": turns[-1].turn}


def _redact(turn: StoredTurn) -> StoredTurn:
    return replace(
        turn,
        state=_redact_state(turn.state),
        idempotency_key=None,
        fingerprint=None,
        messages=[_redact_message(message) for message in turn.messages],
        variables=[replace(write, old=None, new=None) for write in turn.variables],
        events=[
            EventRow(event.seq, event.kind, _remaining(event.data, _EVENT_TREES.get(event.kind, {})))
            for event in turn.events
        ],
    )


def _redact_message(message: MessageRow) -> MessageRow:
    length = len(message.content) if message.characters is msgspec.UNSET else message.characters
    return replace(message, content="", metadata={}, characters=length)


def _redact_state(state: JsonText) -> JsonText:
    found = msgspec.json.decode(state)
    return msgspec.Raw(msgspec.json.encode(_remaining(found if isinstance(found, dict) else {}, _STATE_TREE)))


_STATE_TREE = field_tree(STATE_FIELDS)
_EVENT_TREES = {kind: field_tree(fields) for kind, fields in EVENT_FIELDS.items()}


def _remaining(value: Mapping[str, Any], tree: FieldTree) -> dict[str, Any]:
    """Return the fields of an object that are in the tree; fields that are missing or null are left out."""
    found = {name.removesuffix(EACH): _field(value.get(name.removesuffix(EACH)), name, tree[name]) for name in tree}
    return {name: each for name, each in found.items() if each is not None}


def _field(value: Any, name: str, within: FieldTree) -> Any:
    if not within or value is None:
        return value
    if name.endswith(EACH):
        return [_remaining(each, within) for each in value] if isinstance(value, list) else None
    return (_remaining(value, within) or None) if isinstance(value, Mapping) else None


_TEXTS_OF_CALLS = ("prompt_digest", "error", "failures", "degraded", "reply", "prompt")
_CALL = dict.fromkeys(_TEXTS_OF_CALLS, "NULL::VARCHAR") | {"request_digest": "''", "withheld": "true"}


def _redact_calls(connection: Connection, parameters: Parameters) -> None:
    for table, row in (("settled_calls", SettledCallRow), ("call_journal", CallRow)):
        columns = ", ".join(f"{_CALL.get(name, name)} AS {name}" for name in row.__struct_fields__)
        calls = connection.fetch(row, f"SELECT {columns} FROM {table} WHERE {OF_SESSIONS}", parameters)  # noqa: S608
        if calls:
            connection.change(f"DELETE FROM {table} WHERE {OF_SESSIONS}", parameters)  # noqa: S608
            connection.insert(table, calls)


def _redact_starts(connection: Connection, parameters: Parameters, at: datetime) -> None:
    starts = connection.fetch(SessionRow, f"SELECT * FROM session_starts WHERE {OF_SESSIONS}", parameters)  # noqa: S608
    connection.change(f"DELETE FROM session_starts WHERE {OF_SESSIONS}", parameters)  # noqa: S608
    redacted = [replace(row, key=None, metadata=_origin(row.metadata), redacted_at=at) for row in starts]
    connection.insert("session_starts", redacted)


def _origin(metadata: JsonObject) -> JsonObject:
    """Return what remains of the metadata: the session and turn that a fork was copied from."""
    match metadata.get("forkedFrom"):
        case {"sessionId": str() as session_id, "turn": int() as turn} if is_uuid(session_id):
            return {"forkedFrom": {"sessionId": session_id, "turn": turn}}
        case _:
            return {}
