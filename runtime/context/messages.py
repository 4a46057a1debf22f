"""Messages as applications write them: records of a role and a content, of text or of parts."""

from collections.abc import Mapping, Sequence

import msgspec

from runtime.context.attachments import PARTS
from runtime.events import Message
from scripts.values import Value, bounded

ROLES = ("user", "assistant", "system", "tool")

_OWN = ("number", "message_id", "role", "content", "action_id", "metadata", "kind")


def message_of(given: object, number: int) -> Message:
    """A message of a record ``{role, content, …}``, with a number of its own.

    The content is a text, or a list of parts, of which the texts are the message's and all are kept in its metadata.
    So is everything else in the record, such as the calls of tools. Raises TypeError for what is no message,
    ValueRefused for what no message can hold.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"a message is a record of role and content, not {type(given).__name__}")
    role, content, metadata = given.get("role"), given.get("content"), given.get("metadata", {})
    if role not in ROLES:
        raise TypeError(f"a message is of one of the roles {', '.join(ROLES)}, not {role!r:.40}")
    if not isinstance(metadata, Mapping):
        raise TypeError("the metadata of a message is a record")
    others = {**metadata, **{name: value for name, value in given.items() if name not in _OWN}}
    if isinstance(content, list | tuple):
        others[PARTS] = content
        content = "\n".join(text for part in content if (text := _text_in(part)))
    if content is not None and not isinstance(content, str):
        raise TypeError(f"the content of a message is a text or a list of parts, not {type(content).__name__}")
    kept = bounded(dict(others))
    return Message(
        number=number,
        message_id=str(given.get("message_id") or ""),
        role=role,
        content=content or "",
        action_id=str(given.get("action_id") or ""),
        metadata=kept if isinstance(kept, dict) else {},
    )


def record_of(message: Message) -> dict[str, Value]:
    """A message as a record, with nothing in it that says nothing."""
    record = {name: getattr(message, name) for name in ("number", "message_id", "role", "content", "action_id")}
    told = {name: value for name, value in record.items() if value != "" or name == "content"}
    return {**told, **({"metadata": dict(message.metadata)} if message.metadata else {})}


def adopted(given: object, known: Sequence[Message]) -> tuple[Message, ...]:
    """The messages that an application gives in place of those known: those that are among them stay what they are,
    any other has the number 0. Raises TypeError.
    """
    if not isinstance(given, list | tuple):
        raise TypeError(f"a conversation is a list of messages, not {type(given).__name__}")
    numbers = {message.number for message in known}
    found: list[Message] = []
    begin = 0
    for each in given:
        if isinstance(each, Message):
            found.append(each if each.number in numbers else msgspec.structs.replace(each, number=0))
            continue
        message = message_of(each, 0)
        place = next((place for place in range(begin, len(known)) if _same(known[place], message)), None)
        if place is not None:
            begin = place + 1
        found.append(message if place is None else known[place])
    return tuple(found)


def _same(one: Message, other: Message) -> bool:
    return (one.role, one.content, one.metadata) == (other.role, other.content, other.metadata)


def _text_in(part: object) -> str:
    if isinstance(part, str):
        return part
    text = part.get("text") if isinstance(part, Mapping) and part.get("type", "text") == "text" else None
    return text if isinstance(text, str) else ""
