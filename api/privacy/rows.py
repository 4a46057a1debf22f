"""The rows of a session without what is personal in them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from api.privacy.hidden import Hidden
from api.privacy.mask import named
from store.masking import HIDDEN, MASKED, Treatment
from store.rows import CallRow, EventRow, MessageRow, MigrationRow, SessionRow, TurnRow, VariableRow

_PLAIN = frozenset(
    {
        "kind",
        "scope",
        "id",
        "entry",
        "action_id",
        "action_type",
        "phase_id",
        "topic_id",
        "skill",
        "interrupt",
        "detector",
        "experiment",
        "arm",
        "index",
        "source",
        "progress",
        "repair",
        "by",
        "unit_id",
        "trust",
        "created_at",
        "verdict",
        "old_place",
        "new_place",
        "what",
        "strategy",
        "type",
        "code",
        "event",
        "name",
        "key",
        "role",
    }
)
"""Fields of events and replies that hold ids, names and kinds of the script's or the runtime's own, never words."""


def masked_session(row: SessionRow, user_id: str) -> SessionRow:
    """What is fixed of a session, with a pseudonym of its user, and without what the application noted of it."""
    return msgspec.structs.replace(row, user_id=user_id, key=None, metadata={}, idempotency_key=None)


def masked_move(hidden: Hidden, row: MigrationRow) -> MigrationRow:
    """A move to another version."""
    return msgspec.structs.replace(row, why=[hidden.mask.text(why) for why in row.why])


def masked_turn(hidden: Hidden, row: TurnRow) -> TurnRow:
    """A turn without its state, which is not for reading, and without digests that a guess could be held against."""
    return msgspec.structs.replace(
        row,
        idempotency_key=None,
        fingerprint=None,
        state=msgspec.Raw(b"null"),
        messages=[masked_message(hidden, message) for message in row.messages],
        variables=[_variable(hidden, write) for write in row.variables],
        events=[_event(hidden, event, quotes=row.turn in hidden.turns) for event in row.events],
    )


def masked_message(hidden: Hidden, row: MessageRow) -> MessageRow:
    """A message."""
    name = hidden.messages.get(row.seq)
    if name is not None:
        return msgspec.structs.replace(row, content=named(name), metadata={})
    content, metadata = hidden.mask.text(row.content), hidden.mask.fields(row.metadata)
    return msgspec.structs.replace(row, content=content, metadata=metadata)


def masked_call(hidden: Hidden, row: CallRow) -> CallRow:
    """A call of a language model."""
    reply = msgspec.json.decode(row.reply)
    quotes = row.turn in hidden.turns
    masked = {name: _masked_column(hidden, getattr(row, name), how) for name, how in _OF_CALLS.items()}
    masked["reply"] = msgspec.Raw(msgspec.json.encode(_reply(hidden, reply, quotes=quotes) if reply else None))
    return msgspec.structs.replace(row, **masked)


_OF_CALLS = {name: how for name, how in MASKED["llm_calls"].items() if name not in {"user_id", "reply"}}
"""The columns of a call that are masked; its reply is JSON, and is walked through. A document names its user once."""


def _masked_column(hidden: Hidden, value: Any, how: Treatment) -> Any:
    """A column without what is personal. Its words stay, other than in analytics: they are what an author reads."""
    match how:
        case "digest":
            return None if value is None else ""
        case "words" | "flag" if isinstance(value, list):
            return [hidden.mask.text(each) for each in value]
        case "words" | "flag":
            return None if value is None else hidden.mask.text(value)
        case "pseudonym" | "value" | "label" | "fields":
            raise ValueError(f"no column of calls is masked by the rule {how}")


def _variable(hidden: Hidden, row: VariableRow) -> VariableRow:
    old, new = hidden.mask.variable(row.name, row.old), hidden.mask.variable(row.name, row.new)
    return msgspec.structs.replace(row, old=old, new=new)


def _event(hidden: Hidden, row: EventRow, *, quotes: bool) -> EventRow:
    """An event; where the turn has a message that is hidden, no words that may quote it."""
    match row.kind:
        case "message" | "variable":  # they only say which one it is
            return row
        case "emitted":
            data = row.data | {"data": HIDDEN if quotes else hidden.mask.fields(row.data["data"])}
        case "recalled":  # it may be of other conversations, whose variables nobody looked at
            data = {name: row.data[name] for name in ("action_id", "by", "k") if name in row.data}
            data["units"] = [{"unit_id": unit["unit_id"]} for unit in row.data.get("units", ())]
        case "remembered":
            data = _walk(hidden, row.data, quotes=quotes) | {"source": hidden.mask.text(row.data["source"])}
        case _:
            data = _walk(hidden, row.data, quotes=quotes)
    return msgspec.structs.replace(row, data=data)


def _reply(hidden: Hidden, reply: Mapping[str, Any], *, quotes: bool) -> dict[str, Any]:
    others = {name: value for name, value in reply.items() if name not in {"values", "text"}}
    masked: dict[str, Any] = _walk(hidden, others, quotes=quotes)
    if "text" in reply:
        masked["text"] = hidden.mask.text(reply["text"])
    if "values" in reply:
        masked["values"] = hidden.mask.fields(reply["values"])
    raw = str(reply.get("raw", ""))
    if any(f'"{name}"' in raw for name in hidden.mask.names):
        masked["raw"] = HIDDEN
    return masked


def _walk(hidden: Hidden, given: Any, *, quotes: bool) -> Any:
    """What stands in an event or a reply: its words masked, or hidden where they may be `quotes`."""
    match given:
        case str():
            return HIDDEN if quotes and given else hidden.mask.text(given)
        case list():
            return [_walk(hidden, each, quotes=quotes) for each in given]
        case dict():
            return {name: _field(hidden, given, name, quotes=quotes) for name in given}
        case _:
            return given


def _field(hidden: Hidden, holder: Mapping[str, Any], name: str, *, quotes: bool) -> Any:
    value = holder[name]
    if name in _PLAIN and not isinstance(value, dict | list):
        return value
    if name == "value" and isinstance(holder.get("name"), str):  # a field of a form
        return HIDDEN if quotes and value is not None else hidden.mask.variable(holder["name"], value)
    return hidden.mask.variable(name, value) if name in hidden.mask.names else _walk(hidden, value, quotes=quotes)
