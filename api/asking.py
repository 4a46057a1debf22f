"""What a client asks of a turn, and whether it has asked the very same before."""

import hashlib
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from api.errors import ApiError
from api.schemas.sessions import NewMessage
from runtime.inputs import Chosen, Filled, Input, Reply
from scripts.contexts import ContextSettings, SettingsInvalid, checked, read_settings
from scripts.values import ValueRefused, bounded
from scripts.written_context import strategies
from store.rows import TurnRow


class Condition(Struct, frozen=True):
    """What a client asks of a turn beside its content."""

    idempotency_key: str | None = None
    expected_turn: int | None = None
    queue: bool = False


def input_of(message: NewMessage) -> Input:
    """What the user gives. Raises ApiError REQUEST_INVALID."""
    form = None if message.form is UNSET else message.form
    match message.content, message.choice, form:
        case str(content), None, None:
            return Reply(content)
        case None, str(choice), None:
            return Chosen(choice)
        case None, None, dict(values):
            return Filled(values)
        case _:
            raise ApiError("REQUEST_INVALID", "a message has one of `content`, `choice` and `form`")


def values_of(given: dict[str, Any], name: str) -> dict[str, Any]:
    """The values of a field of a request. Raises ApiError REQUEST_INVALID for what is too large or deep."""
    try:
        values = bounded(given)
    except ValueRefused as error:
        raise ApiError("REQUEST_INVALID", f"{name}: {error}") from error
    return values if isinstance(values, dict) else {}


def context_settings_of(given: dict[str, Any] | str | UnsetType | None) -> ContextSettings | None:
    """The settings of a session's own context, in the words of scripts. Raises ApiError REQUEST_INVALID."""
    if given is UNSET or given is None:
        return None
    try:
        return checked(read_settings(given), dict.fromkeys(strategies()))
    except SettingsInvalid as error:
        raise ApiError("REQUEST_INVALID", f"context: {error}") from error


def same_request(row: TurnRow | None, fingerprint: str | None) -> TurnRow:
    """The turn of a key, if this very request made it. Raises ApiError IDEMPOTENCY_MISMATCH."""
    if row is None or row.fingerprint != fingerprint:
        raise ApiError("IDEMPOTENCY_MISMATCH", "this Idempotency-Key came with another request before")
    return row


def fingerprint_of(body: Struct, condition: Condition) -> str | None:
    """The same for two requests that mean the same, whatever the order of their fields; none without a key."""
    if condition.idempotency_key is None:
        return None
    return hashlib.sha256(msgspec.json.encode(body, order="sorted")).hexdigest()
