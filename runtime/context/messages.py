"""Messages in the form that applications write: records of a role and a content, which is text or parts.

A message's content is text. If it was sent in parts, its metadata contains them under `parts`, in order:
``{"type": "text", "text": …}`` and attachments, such as ``{"type": "image_url", "image_url": {"url": …}}`` or
``{"type": "file", "path": …, "name": …}``, which `attachments_of` describes. The metadata of nanobot's messages
contains the paths of pictures under `media` instead.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from runtime.state.events import Message
from scripts.expressions.values import Value, ValueRefused, to_value

# -- attachments ------------------------------------------------------------------------------------------------------


PARTS = "parts"
MEDIA = "media"
PARTS_MAX = 50  # of one message, that are described
PARTS_BYTES_MAX = 20_000_000  # of one message
REF_CHARS_MAX = 500  # a data URL contains the whole picture

_REFS = ("file", "url", "path", "id", "name")
_META = ("name", "mime_type", "size", "width", "height", "duration")


def attachments_of(message: Message) -> tuple[dict[str, Value], ...]:
    """Return each attachment as ``{type, ref, meta}``: its type, its address, and its known properties.

    `ref` is the first of file, url, path, id and name that exists in the part itself or in its member named after its
    type, as in Agently.
    """
    records = [part for part in _list_parts(message, PARTS) if isinstance(part, dict)]
    pictures = [path for path in _list_parts(message, MEDIA) if isinstance(path, str) and path]
    records += [{"type": "image", "path": path} for path in pictures]
    return tuple(_describe(part) for part in records if not is_text(part))


def is_text(part: Mapping[str, object]) -> bool:
    """Return whether a part of a message is text, or empty; one with neither a type nor a text is an attachment."""
    kind = part.get("type")
    return kind == "text" if kind is not None else "text" in part or not part


def _list_parts(message: Message, name: str) -> list[Value]:
    listed = message.metadata.get(name)
    return listed[:PARTS_MAX] if isinstance(listed, list) else []


def _describe(part: Mapping[str, Value]) -> dict[str, Value]:
    kind = str(part.get("type") or "file")
    inner = part.get(kind)
    if isinstance(inner, str):  # {"type": "image", "image": "https://…"}
        inner = {"url": inner}
    sources = [part, *([inner] if isinstance(inner, dict) else [])]
    held = [each for source in sources for each in source.values() if isinstance(each, dict) and each is not inner]
    sources += held
    meta = {name: found for name in _META if (found := _first(sources, (name,))) is not None}
    return {"type": kind, "ref": _first(sources, _REFS), "meta": meta}


def _first(sources: list[Mapping[str, Value]], names: tuple[str, ...]) -> Value:
    """Return the first of these names that has a plain value in one of the sources."""
    for name in names:
        for source in sources:
            value = source.get(name)
            if isinstance(value, str | int | float) and value != "":
                return _short(value)
    return None


def _short(value: str | float) -> Value:
    return value[:REF_CHARS_MAX] if isinstance(value, str) else value


# -- messages ---------------------------------------------------------------------------------------------------------


ROLES = ("user", "assistant", "system", "tool")

_OWN = ("number", "message_id", "role", "content", "action_id", "metadata", "kind")


def message_of(data: object, number: int) -> Message:
    """Return a message from a record ``{role, content, …}``, with a certain number.

    The content is a text, a record, which becomes its JSON, or a list of parts: then the text parts are the message's
    text, and its metadata contains all parts. Other fields of the record, such as tool calls, are added to the
    metadata. Raises TypeError if the record is not a message, ValueRefused for values over the limits.
    """
    if not isinstance(data, Mapping):
        raise TypeError(f"a message is a record of role and content, not {type(data).__name__}")
    role, content, metadata = data.get("role"), data.get("content"), data.get("metadata", {})
    if role not in ROLES:
        raise TypeError(f"a message is of one of the roles {', '.join(ROLES)}, not {role!r:.40}")
    if not isinstance(metadata, Mapping):
        raise TypeError("the metadata of a message is a record")
    others = {**metadata, **{name: value for name, value in data.items() if name not in _OWN}}
    parts = others.pop(PARTS, None)
    if isinstance(content, list | tuple):
        parts, content = content, text_of(content)
    if isinstance(content, Mapping):
        content = msgspec.json.encode(_plain(content)).decode()
    if content is not None and not isinstance(content, str):
        raise TypeError(
            f"the content of a message is a text, a record or a list of parts, not {type(content).__name__}"
        )
    bounded_metadata = to_value(others)
    fields = bounded_metadata if isinstance(bounded_metadata, dict) else {}
    return Message(
        number=number,
        message_id=str(data.get("message_id") or ""),
        role=role,
        content=content or "",
        action_id=str(data.get("action_id") or ""),
        metadata=fields if parts is None else {**fields, PARTS: _plain(parts)},
    )


def _plain(parts: object) -> Value:
    """Return parts as JSON values. They may be longer than values of variables: data URLs contain whole pictures."""
    try:
        encoded = msgspec.json.encode(parts)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueRefused(f"the parts of a message cannot be stored: {error}") from error
    if len(encoded) > PARTS_BYTES_MAX:
        raise ValueRefused(f"the parts of a message may have at most {PARTS_BYTES_MAX:,} bytes, not {len(encoded):,}")
    plain: Value = msgspec.json.decode(encoded)
    return plain


def prompt_record(message: Message) -> dict[str, Any]:
    """Return a message as prompts of models have it: a message that was sent in parts has its parts as content."""
    others = dict(message.metadata)
    parts = others.pop(PARTS, None)
    content: object = message.content
    if isinstance(parts, list) and text_of(parts) == message.content:
        content = parts
    elif isinstance(parts, list):  # a window cuts the text of a message that is too long
        said = [{"type": "text", "text": message.content}] if message.content else []
        content = [*said, *(part for part in parts if not _text_in(part))]
    own = {"role": message.role, "content": content}
    return {**own, **others, **own}  # metadata may have these names too


def record_of(message: Message) -> dict[str, Value]:
    """Return a message as a record without empty fields."""
    record = {name: getattr(message, name) for name in ("number", "message_id", "role", "content", "action_id")}
    fields = {name: value for name, value in record.items() if value != "" or name == "content"}
    return {**fields, **({"metadata": dict(message.metadata)} if message.metadata else {})}


def adopt(data: object, known: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages that an application supplies to replace known ones: a known message retains its number, any
    other gets the number 0. Raises TypeError.
    """
    if not isinstance(data, list | tuple):
        raise TypeError(f"a conversation is a list of messages, not {type(data).__name__}")
    numbers = {message.number for message in known}
    found: list[Message] = []
    begin = 0
    for each in data:
        if isinstance(each, Message):
            found.append(each if each.number in numbers else msgspec.structs.replace(each, number=0))
            continue
        message = message_of(each, 0)
        place = next((place for place in range(begin, len(known)) if _same(known[place], message)), None)
        if place is not None:
            begin = place + 1
        found.append(message if place is None else known[place])
    return tuple(found)


def attachment_texts(message: Message) -> list[str]:
    """Return the attachments of a message as text: ``[image_url: https://…]``."""
    return [f"[{each['type']}: {each['ref'] or '?'}]" for each in attachments_of(message)]


def _same(one: Message, other: Message) -> bool:
    return (one.role, one.content, one.metadata) == (other.role, other.content, other.metadata)


def text_of(parts: Sequence[object]) -> str:
    """Return the text of a message in parts."""
    return "\n".join(text for part in parts if (text := _text_in(part)))


def _text_in(part: object) -> str:
    if isinstance(part, str):
        return part
    text = part.get("text") if isinstance(part, Mapping) and is_text(part) else None
    return text if isinstance(text, str) else ""
