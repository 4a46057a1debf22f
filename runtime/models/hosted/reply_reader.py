"""Parsing of a model's raw output: removes reasoning, code fences, tool calls and syntax errors, and replaces the
placeholders of values, which weak models repeat.

While a reply grows, its text is streamed as soon as all fields that decide about the text are complete.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import jiter
import json_repair
import msgspec
from msgspec import Struct

from runtime.models.hosted.failures import AttemptFailure
from runtime.prompts.prompt import Prompt, Schema
from runtime.prompts.reply_fields import reply_of
from runtime.state.ports import ModelReply, ModelRequest, OnReply

REPAIRED_CHARS_MAX = 20_000
REPAIRED_BRACES_MAX = 500  # each may cost 0.1 ms, during which the event loop is blocked
NESTED_MAX = 3  # the depth at which the requested object may be nested

Object: TypeAlias = Mapping[str, object]

_OPEN = r"(?:<(?:seed:)?(?:think(?:ing)?|thought|reasoning) ?>|\[THINK\]|◁think▷|<\|START_THINKING\|>)"
_CLOSE = r"(?:</(?:seed:)?(?:think(?:ing)?|thought|reasoning) ?>|\[/THINK\]|◁/think▷|<\|END_THINKING\|>)"
_CHANNEL = r"(?:<\|start\|>assistant)?<\|channel\|>"  # of gpt-oss; only `final` is for the user
_FLAGS = re.DOTALL | re.IGNORECASE
_THOUGHTS = re.compile(rf"(?:\s*(?:{_OPEN}.*?{_CLOSE}|{_CHANNEL}(?!final)\w.*?<\|(?:end|call)\|>))+", _FLAGS)
_THINKING = re.compile(rf"\s*(?:{_OPEN}|<\|(?:start|channel)\|>)", _FLAGS)
_FINAL = re.compile(rf"\s*(?:{_CHANNEL}final.*?|<\|start\|>assistant)<\|message\|>", _FLAGS)
_STARTS, _ENDS = ("<", "[", "◁"), ("</", "[/", "◁/", "<|")  # how the tags begin
_TAG = re.compile(rf"(?P<end>{_CLOSE})|{_OPEN}", _FLAGS)
_START_OF_THOUGHT = re.compile(_OPEN, _FLAGS)
_STRUCTURE = re.compile(r"\s*[{\[`]")
_END_OF_THOUGHT = re.compile(_CLOSE, _FLAGS)
_MARKS = re.compile(r"<[|｜][\w ▁]{1,40}[|｜]>|</?tool_call>")
_FENCED = re.compile(r"```\w*[ \t]*\n?(.*?)(?:```|$)", re.DOTALL)
_OF_JSON = re.compile(r"""[{\[]\s*["'“”{\[}\]]|["']\s*:""")
# a model that does not stop at these goes on with the user's next message
_END_OF_TURN = re.compile(
    r"(?<=\S)\s*(?:<\|(?:im_end|eot_id|end|end_?of_?text)\|>|<end_of_turn>|<｜end▁of▁sentence｜>|</s>\s*\Z)"
)
_CONSTANTS = frozenset({"null", "true", "false"})
_PLAIN: Schema = {"properties": {"text": {}}}


class ReplyReading(Struct, frozen=True):
    """A parsed reply; `degraded` says why, if it does not have the requested format."""

    reply: ModelReply
    degraded: str = ""


def read_reply(raw: str, request: ModelRequest, prompt: Prompt, *, is_called: bool = False) -> ReplyReading:
    """Return the reply in a model's text or tool call. Raises AttemptFailure if there is none."""
    if not visible(raw):
        raise AttemptFailure("empty")
    if prompt.schema is None:
        text = _text_in(raw) if is_called else _plain_in(raw)
        if not text:
            raise AttemptFailure("unusable")
        return ReplyReading(ModelReply(text=text, raw=raw))
    found = object_in(raw, prompt.schema)
    if found is not None:
        reply = reply_of(request, found)
        reply = msgspec.structs.replace(reply, text=_without_thought(reply.text), raw=raw)
        if reply.tool_call is not None:
            return ReplyReading(reply)
        if (request.offers or request.purpose == "chat") and not (reply.text.strip() or reply.exit):
            raise AttemptFailure("unusable")  # it calls a tool that does not exist, or says nothing at all
        if request.detectors and not reply.detected and found.get("detected", found):
            raise AttemptFailure("unusable")  # it names no score of any detector
        if reply.exit is not None or "exit" not in prompt.schema["properties"]:
            return ReplyReading(reply)
        if reply.text.strip():
            return ReplyReading(reply, "its verdict was missing; only its text was used")
    text = prose_in(raw) if "text" in prompt.schema["properties"] else ""
    if not text:
        raise AttemptFailure("unusable")
    return ReplyReading(ModelReply(text=text, raw=raw), "it was not JSON; it was used as plain text")


def nothing_read(raw: str, prompt: Prompt) -> ReplyReading | None:
    """Return an empty reply for an unusable one, if no text is requested; None otherwise."""
    if prompt.schema is None or "text" in prompt.schema["properties"]:
        return None
    return ReplyReading(ModelReply(raw=raw), "nothing in it could be used")


def visible(raw: str) -> str:
    """Return the output without reasoning and template tokens; empty while the reasoning is not finished."""
    text = _THOUGHTS.sub("", raw, count=1) if _THOUGHTS.match(raw) else raw
    text = _FINAL.sub("", text, count=1) if _FINAL.match(text) else text
    if _THINKING.match(text):
        return ""
    if not _STRUCTURE.match(text) and _may_have(text, _ENDS):
        text = _outside_thoughts(text)[0]
    if "<" in text and not _STRUCTURE.match(text):
        text = _END_OF_TURN.split(text, maxsplit=1)[0]
    marked = "<|" in text or "<｜" in text or "tool_call>" in text
    return (_MARKS.sub("", text) if marked else text).strip()


def begins_in_thought(raw: str) -> bool:
    """Return whether the output begins with reasoning that has only an end tag: its start is in the model's prompt."""
    return not _STRUCTURE.match(raw) and _may_have(raw, _ENDS) and _outside_thoughts(raw)[1]


def _may_have(text: str, beginnings: tuple[str, ...]) -> bool:
    """Return whether a text contains a beginning of tags: a fast check, because growing texts are parsed often."""
    return any(beginning in text for beginning in beginnings)


def _outside_thoughts(text: str) -> tuple[str, bool]:
    """Return a text without its finished thoughts, and whether it begins with one: some models write no start tag."""
    outside: list[str] = []
    at, began, has_no_start = 0, -1, False
    for tag in _TAG.finditer(text):
        if tag["end"] is None:
            began = tag.start() if began < 0 else began
        elif began >= 0:
            outside.append(text[at:began])
            at, began = tag.end(), -1
        elif not has_no_start:
            outside, at, has_no_start = [], tag.end(), True
    return "".join([*outside, text[at:]]), has_no_start


def whole_characters(text: str) -> str:
    """Return a text with its surrogate pairs joined; half a pair, which cannot be stored, becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def object_in(raw: str, schema: Schema) -> Object | None:
    """Return the object with the requested properties, as far as there is one, else None.

    If there is none, an object with their own properties counts: models leave out ``values`` and ``detected``.
    """
    text = visible(raw)
    properties: Mapping[str, Schema] = schema["properties"]
    inner = (name.casefold() for each in properties.values() for name in each.get("properties", ()))
    of_calls = frozenset({"parameters"} if "arguments" in properties else ())  # as Llama names the arguments of a call
    each_time = itertools.tee(_candidates(text), 3)  # each is parsed, and repaired, once
    for names, candidates in zip((frozenset(properties), frozenset(inner), of_calls), each_time, strict=True):
        for candidate in candidates if names else ():
            found = next(_with_any(candidate, names, NESTED_MAX), None)
            if found is not None:
                return found
    return None


def prose_in(raw: str) -> str:
    """Return a text without structure; empty if it looks like invalid structured data."""
    text = visible(raw)
    return "" if "```" in text or text in _CONSTANTS or _OF_JSON.search(text) else text


def _plain_in(raw: str) -> str:
    """Return the text of a reply that was to be plain text; some models wrap it nevertheless."""
    text = visible(raw)
    if not text.startswith(("{", "[", "```")):
        return text
    fenced = _FENCED.fullmatch(text)
    return _text_in(raw) or (fenced[1].strip() if fenced is not None else text)


def _without_thought(text: str) -> str:
    """Return the text of a structure; a model that is held to a structure may reason within it."""
    return visible(text) if _THINKING.match(text) else text


def _text_in(raw: str) -> str:
    """Return the text in a structure that was not requested."""
    packed = (object_in(raw, _PLAIN) or {}).get("text")
    return packed if isinstance(packed, str) and packed.strip() else ""


def _candidates(text: str) -> Iterator[object]:
    """Yield the possible readings of a text, the strictest first."""
    fenced = _FENCED.search(text)
    for part in (text, *([fenced[1]] if fenced is not None else ())):
        try:
            yield msgspec.json.decode(part)
        except (msgspec.DecodeError, RecursionError):
            continue
    if 0 < text.count("{") <= REPAIRED_BRACES_MAX and len(text) <= REPAIRED_CHARS_MAX:
        try:
            repaired = json.dumps(json_repair.loads(text[text.index("{") :]), ensure_ascii=False)
            yield json.loads(whole_characters(repaired))
        except (ValueError, RecursionError):
            return


def _with_any(found: object, names: frozenset[str], depth: int) -> Iterator[Object]:
    """Yield the inner objects that have any of the names: replies may be wrapped in lists and tool call arguments."""
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
        yield from _with_any(_unpack(inner), names, depth - 1)


def _unpack(value: object) -> object:
    """Return a value, decoded if it is JSON in a string, as the arguments of a tool call are."""
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value


# -- placeholders -----------------------------------------------------------------------------------------------------


MARK_CHARS_MAX = 20  # after the tag name
MARKS_MAX = 50  # in one reply; each may be replaced by a long text

_MARK = re.compile(r"""<value\s{1,5}id\s?=\s?["']?(\d{1,4})["']?\s?/?>""")


def fill_placeholders(text: str, values: Mapping[str, str]) -> str:
    """Return a text with its placeholders replaced by values; an unknown placeholder does not change."""
    return text if not values else _MARK.sub(lambda mark: values.get(mark[1], mark[0]), text, count=MARKS_MAX)


# -- a reply as it grows ----------------------------------------------------------------------------------------------


UNSURE_CHARS_MAX = 50

_BEGINNING = re.compile(r"(?:```(?:json)?\s*)?(?=\{)")
# at the end: whitespace that may be trailing, and the possible start of a placeholder
_UNSURE = re.compile(rf"\s*(?:<(?:[|｜][\w ▁]*[|｜]?|/?\w*|value\s[\w\s=\"'/]{{0,{MARK_CHARS_MAX}}}))?$")


class TextStream:
    """Parses one reply as it grows, and streams its text to the listener."""

    def __init__(
        self,
        request: ModelRequest,
        prompt: Prompt,
        hear: OnReply,
        begun: Callable[[], None],
        *,
        begins_in_thought: bool = False,
    ) -> None:
        self._request = request
        self._schema = prompt.schema
        self._values = prompt.values
        self._hear = hear
        self._begun = begun
        self._begins_in_thought = begins_in_thought
        self._verdict: ModelReply | None = None  # does not change once it is complete
        self._sent = ""

    def grow(self, raw: str) -> None:
        """Parse the reply received so far and stream its new text."""
        if self._begins_in_thought and _END_OF_THOUGHT.search(raw) is None:
            return
        seen = visible(raw)
        reply = _plain(seen) if self._schema is None else self._read_structure(seen, self._schema)
        if reply is None:
            return
        sure = reply.text[:-UNSURE_CHARS_MAX] + _UNSURE.sub("", reply.text[-UNSURE_CHARS_MAX:])
        words = fill_placeholders(sure, self._values)
        if words and words != self._sent:
            self._begun()
            self._sent = words
            self._hear(msgspec.structs.replace(reply, text=words))

    def _read_structure(self, seen: str, schema: Schema) -> ModelReply | None:
        beginning = _BEGINNING.match(seen)
        if beginning is None:
            return None
        try:
            data = jiter.from_json(seen[beginning.end() :].encode(), partial_mode="trailing-strings")
        except ValueError:
            return None  # the complete reply is parsed again, with repairs
        if not isinstance(data, dict) or not isinstance(data.get("text"), str):
            return None
        if self._verdict is None:
            # only the fields before the text are complete while it is streamed
            if next(reversed(data)) != "text" or not data.keys() >= frozenset(schema["required"]):
                return None
            self._verdict = reply_of(self._request, data)
        return msgspec.structs.replace(self._verdict, text=_without_thought(data["text"]))


def _plain(seen: str) -> ModelReply | None:
    """Return plain text up to an unfinished thought; the start of a structure is parsed when it is complete."""
    if seen.startswith(("{", "[", "`", "<", "◁")):
        return None
    return ModelReply(text=_START_OF_THOUGHT.split(seen, maxsplit=1)[0].rstrip() if _may_have(seen, _STARTS) else seen)
