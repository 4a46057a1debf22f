"""Masks the rows of a session."""

from collections.abc import Mapping
from typing import Any

import msgspec

from api.privacy.mask import HiddenValues, name_placeholder
from api.schemas.sessions import WaitView
from runtime.prompts.prompt import PromptMessage, SentPrompt, read_prompt, stored_prompt
from runtime.state.tool_ports import TOOL_PURPOSE
from store.interface.masking import HIDDEN, MASKED, Treatment
from store.interface.rows import EventRow, MessageRow, MigrationRow, SessionRow, SettledCallRow, TurnRow, VariableRow

_PLAIN = frozenset({
    "kind", "scope", "id", "entry", "action_id", "action_type", "phase_id", "topic_id", "skill", "interrupt",
    "detector", "experiment", "arm", "index", "source", "progress", "repair", "by", "unit_id", "trust",
    "created_at", "verdict", "old_place", "new_place", "what", "strategy", "type", "code", "event", "name",
    "key", "role",
})  # fmt: skip
"""Fields of events and replies with ids, names and kinds of the script or the runtime, never user texts."""


def mask_session(row: SessionRow, user_id: str) -> SessionRow:
    """Mask the fixed fields of a session: a pseudonym of its user, and no metadata."""
    return msgspec.structs.replace(row, user_id=user_id, key=None, metadata={}, idempotency_key=None)


def mask_migration(hidden: HiddenValues, row: MigrationRow) -> MigrationRow:
    """Mask a migration."""
    return msgspec.structs.replace(row, why=[hidden.mask.text(why) for why in row.why])


def mask_turn(hidden: HiddenValues, row: TurnRow) -> TurnRow:
    """Mask a turn: without its state, and without digests that could confirm a guess."""
    return msgspec.structs.replace(
        row,
        idempotency_key=None,
        fingerprint=None,
        state=msgspec.Raw(b"null"),
        messages=[mask_message(hidden, message) for message in row.messages],
        variables=[_variable(hidden, write) for write in row.variables],
        events=[_event(hidden, event, quotes=row.turn in hidden.turns) for event in row.events],
    )


def mask_message(hidden: HiddenValues, row: MessageRow) -> MessageRow:
    """Mask a message."""
    name = hidden.messages.get(row.seq)
    if name is not None:
        return msgspec.structs.replace(row, content=name_placeholder(name), metadata={})
    content, metadata = hidden.mask.text(row.content), hidden.mask.fields(row.metadata)
    return msgspec.structs.replace(row, content=content, metadata=metadata)


def mask_wait(hidden: HiddenValues, wait: WaitView) -> WaitView:
    """Mask what a session waits for: its choices, and the values of a form."""
    return msgspec.convert(_walk(hidden, msgspec.to_builtins(wait), quotes=False), WaitView)


def mask_call(hidden: HiddenValues, row: SettledCallRow) -> SettledCallRow:
    """Mask a call of a model or tool."""
    reply = msgspec.json.decode(row.reply)
    quotes = row.turn in hidden.turns
    masked = {name: _mask_column(hidden, getattr(row, name), how) for name, how in _OF_CALLS.items()}
    if row.purpose == TOOL_PURPOSE:
        shown = reply and reply | _hidden_result(reply)
    else:
        shown = _reply(hidden, reply, quotes=quotes) if reply else None
    masked["reply"] = msgspec.Raw(msgspec.json.encode(shown))
    if row.prompt is not None:
        masked["prompt"] = stored_prompt(mask_prompt(hidden, read_prompt(row.prompt)))
    return msgspec.structs.replace(row, **masked)


def mask_prompt(hidden: HiddenValues, prompt: SentPrompt) -> SentPrompt:
    """Mask a prompt: its instructions are texts of the script; its data, with the user's texts, is hidden."""
    messages = [
        PromptMessage(each.role, hidden.mask.text(each.content) if each.role == "system" else HIDDEN)
        for each in prompt.messages
    ]
    return SentPrompt(tuple(messages), prompt.schema)


_OF_CALLS = {name: how for name, how in MASKED["llm_calls"].items() if name not in {"user_id", "reply"}}
"""The masked columns of calls; the reply is JSON and masked field by field. A document names its user once."""


def _mask_column(hidden: HiddenValues, value: Any, how: Treatment) -> Any:
    """Mask a column. Unlike in analytics, texts are masked and not removed, because authors read them."""
    match how:
        case "digest":
            return None if value is None else ""
        case "words" | "flag" if isinstance(value, list):
            return [hidden.mask.text(each) for each in value]
        case "words" | "flag":
            return None if value is None else hidden.mask.text(value)
        case "pseudonym" | "value" | "label" | "fields":
            raise ValueError(f"no column of calls is masked by the rule {how}")


def _variable(hidden: HiddenValues, row: VariableRow) -> VariableRow:
    old, new = hidden.mask.variable(row.name, row.old), hidden.mask.variable(row.name, row.new)
    return msgspec.structs.replace(row, old=old, new=new)


def _event(hidden: HiddenValues, row: EventRow, *, quotes: bool) -> EventRow:
    """Mask an event; if its turn has a hidden message, hide all texts that may quote it."""
    match row.kind:
        case "message" | "variable":  # they only reference a row
            return row
        case "emitted":
            data = row.data | {"data": HIDDEN if quotes else hidden.mask.fields(row.data["data"])}
        case "recalled":  # it may be from other sessions, whose variables are unknown here
            data = {name: row.data[name] for name in ("action_id", "by", "k") if name in row.data}
            data["units"] = [{"unit_id": unit["unit_id"]} for unit in row.data.get("units", ())]
        case "tool_call":  # a service may know personal values that no variable of the session contains
            data = row.data | {"arguments": dict.fromkeys(row.data["arguments"], HIDDEN)}
        case "tool_result":
            data = row.data | _hidden_result(row.data)
        case "remembered":
            data = _walk(hidden, row.data, quotes=quotes) | {"source": hidden.mask.text(row.data["source"])}
        case _:
            data = _walk(hidden, row.data, quotes=quotes)
    return msgspec.structs.replace(row, data=data)


def _hidden_result(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a tool, if there is one, hidden."""
    return {"result": HIDDEN} if data.get("result") is not None else {}


def _reply(hidden: HiddenValues, reply: Mapping[str, Any], *, quotes: bool) -> dict[str, Any]:
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


def _walk(hidden: HiddenValues, value: Any, *, quotes: bool) -> Any:
    """Mask the value of an event or a reply: mask its texts, or hide them if they may be `quotes`."""
    match value:
        case str():
            return HIDDEN if quotes and value else hidden.mask.text(value)
        case list():
            return [_walk(hidden, each, quotes=quotes) for each in value]
        case dict():
            return {name: _field(hidden, value, name, quotes=quotes) for name in value}
        case _:
            return value


def _field(hidden: HiddenValues, holder: Mapping[str, Any], name: str, *, quotes: bool) -> Any:
    value = holder[name]
    if name in _PLAIN and not isinstance(value, dict | list):
        return value
    if name == "value" and isinstance(holder.get("name"), str):  # a field of a form
        return HIDDEN if quotes and value is not None else hidden.mask.variable(holder["name"], value)
    return hidden.mask.variable(name, value) if name in hidden.mask.names else _walk(hidden, value, quotes=quotes)
