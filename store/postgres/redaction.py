"""Redact the turns and calls of sessions: their rows are read, reduced and written back."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from store.interface.event_fields import EACH, EVENT_FIELDS, FieldTree, field_tree
from store.postgres.connection import PostgresConnection
from store.sql.connection import Parameters, rows_select
from store.sql.deletion import OF_SESSIONS
from store.sql.redaction import STATE_FIELDS, redact

TURNS_A_READ = 500


class _Turn(msgspec.Struct, frozen=True):
    session_id: str
    turn: int
    state: Any
    messages: list[dict[str, Any]]
    variables: list[dict[str, Any]]
    events: list[dict[str, Any]]


class _Redacted(msgspec.Struct, frozen=True):
    session_id: str
    turn: int
    state: str
    messages: str
    variables: str
    events: str


_TYPES = {
    "session_id": "UUID",
    "turn": "INTEGER",
    "state": "JSON",
    "messages": "JSON",
    "variables": "JSON",
    "events": "JSON",
}
_CALL = """SET request_digest = '', prompt_digest = NULL, error = NULL, failures = NULL, degraded = NULL, reply = NULL,
    withheld = true"""


def redact_sessions(connection: PostgresConnection, tenant: str, session_ids: list[str], at: datetime) -> list[str]:
    """Redact sessions and delete their memory; return the users whose memory contained them. Within a transaction."""

    def rewrite(parameters: Parameters) -> None:
        _redact_turns(connection, parameters)
        connection.change(f"DELETE FROM turn_texts WHERE {OF_SESSIONS}", parameters)  # noqa: S608
        connection.change(f"UPDATE settled_calls {_CALL}, prompt = NULL WHERE {OF_SESSIONS}", parameters)
        connection.change(f"UPDATE call_journal {_CALL} WHERE {OF_SESSIONS}", parameters)

    return redact(connection, tenant, session_ids, at, rewrite)


def _redact_turns(connection: PostgresConnection, parameters: Parameters) -> None:
    place: tuple[str | None, int] = (None, 0)
    while turns := connection.fetch(_Turn, _NEXT, {**parameters, "after_id": place[0], "after_turn": place[1]}):
        given, values = rows_select([_redacted(turn) for turn in turns], _TYPES)
        connection.change(
            f"""UPDATE turns SET state = redacted.state, messages = redacted.messages, variables = redacted.variables,
                events = redacted.events, idempotency_key = NULL, fingerprint = NULL,
                changed_in = pg_current_xact_id()
            FROM ({given}) AS redacted WHERE turns.tenant = $tenant AND turns.session_id = redacted.session_id
                AND turns.turn = redacted.turn""",  # noqa: S608
            {"tenant": parameters["tenant"], **values},
        )
        place = turns[-1].session_id, turns[-1].turn


_NEXT = f"""
SELECT session_id, turn, state, messages, variables, events FROM turns
WHERE {OF_SESSIONS} AND ($after_id::UUID IS NULL OR (session_id, turn) > ($after_id::UUID, $after_turn::INTEGER))
ORDER BY session_id, turn LIMIT {TURNS_A_READ}"""  # noqa: S608


def _redacted(turn: _Turn) -> _Redacted:
    texts = (
        _remaining(turn.state if isinstance(turn.state, Mapping) else {}, _STATE_TREE),
        [_message(message) for message in turn.messages],
        [write | {"old": None, "new": None} for write in turn.variables],
        [{**event, "data": _remaining(event["data"], _EVENT_TREES.get(event["kind"], {}))} for event in turn.events],
    )
    return _Redacted(turn.session_id, turn.turn, *(msgspec.json.encode(each).decode() for each in texts))


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    characters = message.get("characters")
    length = len(message["content"]) if characters is None else characters
    return {**message, "content": "", "metadata": {}, "characters": length}


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
