"""The words of a reply while it comes: told as soon as everything that decides about them is there."""

import re
from collections.abc import Callable

import jiter
import msgspec

from runtime.models.hosted.marks import MARK_CHARS_MAX, unmarked
from runtime.models.hosted.reading import visible
from runtime.ports import Hear, ModelReply, ModelRequest
from runtime.prompts.prompt import Prompt, Schema
from runtime.prompts.replies import reply_of

UNSURE_CHARS_MAX = 50

_BEGINNING = re.compile(r"(?:```(?:json)?\s*)?(?=\{)")
# at the end: space that may be the last, and what may become a mark
_UNSURE = re.compile(rf"\s*(?:<(?:\|[\w ]*\|?|/?\w*|value\s[\w\s=\"'/]{{0,{MARK_CHARS_MAX}}}))?$")


class Words:
    """Reads one reply as it grows, and tells the listener of its words."""

    def __init__(self, request: ModelRequest, prompt: Prompt, hear: Hear, begun: Callable[[], None]) -> None:
        self._request = request
        self._schema = prompt.schema
        self._values = prompt.values
        self._hear = hear
        self._begun = begun
        self._verdict: ModelReply | None = None  # once it is there it stays
        self._told = ""

    def grow(self, raw: str) -> None:
        """The reply is this long by now."""
        seen = visible(raw)
        reply = _plain(seen) if self._schema is None else self._structured(seen, self._schema)
        if reply is None:
            return
        sure = reply.text[:-UNSURE_CHARS_MAX] + _UNSURE.sub("", reply.text[-UNSURE_CHARS_MAX:])
        words = unmarked(sure, self._values)
        if words and words != self._told:
            self._begun()
            self._told = words
            self._hear(msgspec.structs.replace(reply, text=words))

    def _structured(self, seen: str, schema: Schema) -> ModelReply | None:
        beginning = _BEGINNING.match(seen)
        if beginning is None:
            return None
        try:
            data = jiter.from_json(seen[beginning.end() :].encode(), partial_mode="trailing-strings")
        except ValueError:
            return None  # it is read once more, and mended, when it is whole
        if not isinstance(data, dict) or not isinstance(data.get("text"), str):
            return None
        if self._verdict is None:
            # only what stands before the words is whole while they come
            if next(reversed(data)) != "text" or not data.keys() >= frozenset(schema["required"]):
                return None
            self._verdict = reply_of(self._request, data)
        return msgspec.structs.replace(self._verdict, text=data["text"])


def _plain(seen: str) -> ModelReply | None:
    """Words as they are; what begins as a structure is read when it is whole."""
    return None if seen.startswith(("{", "[", "`", "<")) else ModelReply(text=seen)
