"""What is attached to a message: the parts of its content that are no text, each told in a few words.

A message's content is text. The parts it came in, where it came in parts, stand in its metadata under `parts`, in
their order: ``{"type": "text", "text": …}`` and others, such as ``{"type": "image_url", "image_url": {"url": …}}`` or
``{"type": "file", "path": …, "name": …}``.
"""

from collections.abc import Mapping

from runtime.events import Message
from scripts.values import Value

PARTS = "parts"
PARTS_MAX = 50  # of one message, that are told of
REF_CHARS_MAX = 500  # a picture may be in its own address

_REFS = ("file", "url", "path", "id", "name")
_META = ("name", "mime_type", "size", "width", "height", "duration")


def attachments_of(message: Message) -> tuple[dict[str, Value], ...]:
    """Each part that is no text as ``{type, ref, meta}``: what it is, where it is found, and what is known of it.

    `ref` is the first of file, url, path, id and name that is there, in the part itself or in what it holds under the
    name of its type (seed 001).
    """
    parts = message.metadata.get(PARTS)
    if not isinstance(parts, list):
        return ()
    records = [part for part in parts[:PARTS_MAX] if isinstance(part, dict)]
    return tuple(_told(part) for part in records if part.get("type", "text") != "text")


def _told(part: Mapping[str, Value]) -> dict[str, Value]:
    kind = part["type"]
    inner = part.get(str(kind))
    sources = [part, *([inner] if isinstance(inner, dict) else [])]
    sources += [
        each for source in sources[:] for each in source.values() if isinstance(each, dict) and each is not inner
    ]
    meta = {name: found for name in _META if (found := _first(sources, (name,))) is not None}
    own = inner if isinstance(inner, str) else None  # {"type": "image", "image": "https://…"}
    return {"type": str(kind), "ref": _first(sources, _REFS) or _short(own), "meta": meta}


def _first(sources: list[Mapping[str, Value]], names: tuple[str, ...]) -> Value:
    """The first of these names that one of the sources has a plain value for."""
    for source in sources:
        for name in names:
            value = source.get(name)
            if isinstance(value, str | int | float) and value != "":
                return _short(value)
    return None


def _short(value: str | float | None) -> Value:
    return value[:REF_CHARS_MAX] if isinstance(value, str) else value
