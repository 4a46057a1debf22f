"""What a model meant to reply, out of what it literally said: thoughts, fences, calls of tools and slips removed."""

import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import json_repair
import msgspec
from msgspec import Struct

from runtime.models.hosted.failures import Failure
from runtime.ports import ModelReply, ModelRequest
from runtime.prompts.prompt import Prompt, Schema
from runtime.prompts.replies import reply_of

REPAIRED_CHARS_MAX = 20_000
REPAIRED_BRACES_MAX = 500  # each may cost a tenth of a millisecond, in which nothing else runs
NESTED_MAX = 3  # how deep the object that was asked for may be packed

Object: TypeAlias = Mapping[str, object]

_THOUGHTS = re.compile(r"(?:\s*<think(?:ing)?>.*?</think(?:ing)?>)+", re.DOTALL)
_THINKING = re.compile(r"\s*<think(?:ing)?>")
_STRUCTURE = re.compile(r"\s*[{\[`]")
_END_OF_THOUGHT = re.compile(r"</think(?:ing)?>")
_MARKS = re.compile(r"<\|[\w ]{1,40}\|>|</?tool_call>")
_FENCED = re.compile(r"```\w*[ \t]*\n?(.*?)(?:```|$)", re.DOTALL)
_OF_JSON = re.compile(r"""[{\[]\s*["'{\[}\]]|["']\s*:""")
_PLAIN: Schema = {"properties": {"text": {}}}


class Read(Struct, frozen=True):
    """A reply as it was understood; `degraded` where it is not what was asked for, with why."""

    reply: ModelReply
    degraded: str = ""


def read_reply(raw: str, request: ModelRequest, prompt: Prompt, *, is_called: bool = False) -> Read:
    """What a model replied, in words or by calling a tool. Raises Failure where that is nothing."""
    if not visible(raw):
        raise Failure("empty")
    if prompt.schema is None:
        text = _packed_in(raw) if is_called else _plain_in(raw)
        if not text:
            raise Failure("unusable")
        return Read(ModelReply(text=text, raw=raw))
    found = object_in(raw, prompt.schema)
    if found is not None:
        reply = msgspec.structs.replace(reply_of(request, found), raw=raw)
        if reply.exit is not None or "exit" not in prompt.schema["properties"]:
            return Read(reply)
        if reply.text.strip():
            return Read(reply, "its verdict was missing, so that only its words were taken")
    text = prose_in(raw) if "text" in prompt.schema["properties"] else ""
    if not text:
        raise Failure("unusable")
    return Read(ModelReply(text=text, raw=raw), "it was no JSON, so that it was taken as plain text")


def nothing_read(raw: str, prompt: Prompt) -> Read | None:
    """What a reply that cannot be used counts as where no words are wanted of it: that nothing was found."""
    if prompt.schema is None or "text" in prompt.schema["properties"]:
        return None
    return Read(ModelReply(raw=raw), "nothing in it could be used")


def visible(raw: str) -> str:
    """What is left without thoughts and the marks of templates; nothing while a thought is still being thought."""
    text = _THOUGHTS.sub("", raw, count=1) if _THOUGHTS.match(raw) else raw
    if _THINKING.match(text):
        return ""
    if not _STRUCTURE.match(text):  # some thoughts have an end alone
        text = _END_OF_THOUGHT.split(text, maxsplit=1)[-1]
    marked = "<|" in text or "tool_call>" in text
    return (_MARKS.sub("", text) if marked else text).strip()


def object_in(raw: str, schema: Schema) -> Object | None:
    """The object in the shape that was asked for, as far as any is found; None where there is none."""
    text = visible(raw)
    for candidate in _candidates(text):
        found = next(_with_any(candidate, frozenset(schema["properties"]), NESTED_MAX), None)
        if found is not None:
            return found
    return None


def prose_in(raw: str) -> str:
    """What was said without any structure; nothing where it is rather a structure gone wrong."""
    text = visible(raw)
    return "" if "```" in text or _OF_JSON.search(text) else text


def _plain_in(raw: str) -> str:
    """The words of a reply that was to be nothing else; some models pack them all the same."""
    text = visible(raw)
    if not text.startswith(("{", "[", "```")):
        return text
    fenced = _FENCED.fullmatch(text)
    return _packed_in(raw) or (fenced[1].strip() if fenced is not None else text)


def _packed_in(raw: str) -> str:
    """The words in a structure that was not asked for."""
    packed = (object_in(raw, _PLAIN) or {}).get("text")
    return packed if isinstance(packed, str) and packed.strip() else ""


def _candidates(text: str) -> Iterator[object]:
    """What the text may mean, the strictest reading first."""
    fenced = _FENCED.search(text)
    for part in (text, *([fenced[1]] if fenced is not None else ())):
        try:
            yield msgspec.json.decode(part)
        except (msgspec.DecodeError, RecursionError):
            continue
    if 0 < text.count("{") <= REPAIRED_BRACES_MAX and len(text) <= REPAIRED_CHARS_MAX:
        try:
            yield json_repair.loads(text[text.index("{") :])
        except (ValueError, RecursionError):
            return


def _with_any(found: object, names: frozenset[str], depth: int) -> Iterator[Object]:
    """The objects within that have any of the names: replies come packed in lists and as arguments of calls."""
    if isinstance(found, list):
        for item in found[:depth]:
            yield from _with_any(item, names, depth)
    if not isinstance(found, dict):
        return
    if any(str(name).strip().casefold() in names for name in found):
        yield found
    if depth == 0:
        return
    for inner in found.values():
        yield from _with_any(_unpacked(inner), names, depth - 1)


def _unpacked(value: object) -> object:
    """The arguments of a call are JSON in a text."""
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value
