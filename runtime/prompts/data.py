"""What people said and what was made of it, put before a model as data that cannot be taken for anything else.

Each kind of data stands between tags of its own, as JSON on one line a piece. Whatever a text holds, no character of it
is left that could close its tag, begin a line, open a fence, or imitate the marks by which models tell who speaks
(``<|im_start|>``, ``[INST]``, ``### System``): those are written as JSON writes any character, ``\\u003c``, and so a
reader gets exactly the text back.
"""

import json
import re
from collections.abc import Iterable

from runtime.context.attachments import attachments_of
from runtime.events import Message
from runtime.prompts.fitting import cut_value
from scripts.expressions import Spans
from scripts.values import Value

OTHERS_CHARS_MAX = 500  # of a text in what a message holds beside its own

# brackets, ampersands, number signs and backticks; control and separating characters; marks that turn the direction of
# writing or are invisible, which have carried orders unseen; halves of surrogate pairs
_ESCAPED = re.compile(
    "[<>&\\[\\]#`\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')


def encoded(value: Value) -> str:
    """A value as JSON on one line, in which no text can be more than text."""
    plain = json.dumps(value, ensure_ascii=False)
    return _STRING.sub(lambda string: _ESCAPED.sub(_escape, string[0]), plain)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def tagged(tag: str, lines: Iterable[str]) -> str:
    """Encoded pieces between tags, one a line."""
    return "\n".join([f"<{tag}>", *lines, f"</{tag}>"])


def message_line(message: Message) -> str:
    """A message: who it is from, by which name where the script or the application gives one, its text, and what there
    is of it besides.
    """
    speaker = message.metadata.get("speaker")
    name = speaker.get("name") if isinstance(speaker, dict) else None
    if message.role == "tool":
        name = name or message.metadata.get("name")
    line = {"from": message.role, **({"as": name} if name else {}), "text": message.content}
    return encoded({**line, **others_in(message)})


def others_in(message: Message) -> dict[str, Value]:
    """What a message holds beside its text: what was attached to it, the tools it called, the call it answers."""
    attached: list[Value] = [dict(each) for each in attachments_of(message)]
    called = cut_value(message.metadata.get("tool_calls"), OTHERS_CHARS_MAX)
    answered = cut_value(message.metadata.get("tool_call_id"), OTHERS_CHARS_MAX)
    others: dict[str, Value] = {"attached": attached, "called": called, "answers": answered}
    return {name: value for name, value in others.items() if value}


class Marks:
    """The values within a script's texts: each leaves a mark in the text, and is data under its number."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def marked(self, text: str, spans: Spans) -> str:
        """A text with a mark in the place of each stretch that came from a value."""
        parts, end = [], 0
        for begin, until in spans:
            number = str(len(self._values) + 1)
            self._values[number] = text[begin:until]
            parts += [text[end:begin], f'<value id="{number}"/>']
            end = until
        return "".join([*parts, text[end:]])

    @property
    def values(self) -> dict[str, str]:
        """The values by their numbers."""
        return dict(self._values)
