"""Escaping of untrusted texts, so that a model can read them only as data.

Each kind of data is enclosed in its own tags, as JSON, one item a line. No character of a text is left that could
close its tag, begin a line, open a code fence, or imitate the tokens that mark speakers (``<|im_start|>``, ``[INST]``,
``### System``): such characters are written as JSON escapes, ``\\u003c``, so a JSON parser returns exactly the
original text.
"""

import json
import re
from collections.abc import Iterable

from runtime.context.messages import attachments_of
from runtime.context.text_lengths import cut_value
from runtime.state.events import Message
from scripts.expressions.expressions import Spans
from scripts.expressions.values import Value

OTHERS_CHARS_MAX = 500  # of each text in a message's metadata

# brackets, ampersands, number signs and backticks; control and separating characters; invisible characters and those
# that change the direction of writing, which can hide instructions; halves of surrogate pairs
_ESCAPED = re.compile(
    "[<>&\\[\\]#`\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')


def encode_value(value: Value) -> str:
    """Return a value as JSON on one line, with escaped texts."""
    return _STRING.sub(lambda string: _ESCAPED.sub(_escape, string[0]), json.dumps(value, ensure_ascii=False))


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def between_tags(tag: str, lines: Iterable[str]) -> str:
    """Return encoded items between tags, one a line."""
    return "\n".join([f"<{tag}>", *lines, f"</{tag}>"])


def message_line(message: Message) -> str:
    """Return a message as a line: its role, its speaker's name, if any, its text, attachments and tool calls."""
    speaker = message.metadata.get("speaker")
    name = speaker.get("name") if isinstance(speaker, dict) else None
    if message.role == "tool":
        name = name or message.metadata.get("name")
    line = {"from": message.role, **({"as": name} if name else {}), "text": message.content}
    return encode_value({**line, **others_in(message)})


def others_in(message: Message) -> dict[str, Value]:
    """Return a message's data besides its text: attachments, tool calls, and the id of the answered call."""
    attached: list[Value] = [dict(each) for each in attachments_of(message)]
    called = cut_value(message.metadata.get("tool_calls"), OTHERS_CHARS_MAX)
    answered = cut_value(message.metadata.get("tool_call_id"), OTHERS_CHARS_MAX)
    others: dict[str, Value] = {"attached": attached, "called": called, "answers": answered}
    return {name: value for name, value in others.items() if value}


class Marks:
    """Placeholders for the values within a script's texts: each value is replaced by a numbered placeholder."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def mark(self, text: str, spans: Spans) -> str:
        """Return a text with a placeholder for each range that came from a value."""
        parts, end = [], 0
        for begin, until in spans:
            number = str(len(self._values) + 1)
            self._values[number] = text[begin:until]
            parts += [text[end:begin], f'<value id="{number}"/>']
            end = until
        return "".join([*parts, text[end:]])

    @property
    def values(self) -> dict[str, str]:
        """Return the values by their numbers."""
        return dict(self._values)
