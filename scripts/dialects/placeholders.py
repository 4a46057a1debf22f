"""The placeholders and conditions of the older forms, as Jinja2.

``{x}``, ``{{x}}``, ``${x}``, ``{ x }`` and ``{%x%}`` all mean the variable x, but for what only the runtime knows:
``{%user%}`` is the user's id, ``{%time%}`` the time, ``{%who%}`` the role that speaks. They are translated once, when
the script is read, so a value is never looked at again, whatever braces or dollars it holds.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping

from scripts.expressions import is_syntax

NAME = r"[^\W\d][\w.\-（）()·]*(?:[ ][\w.\-（）()·]+)*"
_PLACEHOLDER = re.compile(
    rf"\$?\{{\{{\s*(?P<double>{NAME})\s*\}}\}}|\{{%\s*(?P<system>{NAME})\s*%\}}|\$?\{{\s*(?P<single>{NAME})\s*\}}"
)
_ODD_PLACEHOLDER = re.compile(
    r"\{\s*(?P<name>[\w@#!?*+/\-.]{1,40}|[\w.]{1,40}(?:\s?[+*/%]\s?[\w.]{1,40}){1,3})\s*\}"  # {age + 1} counts nothing
)
_JINJA_MARK = re.compile(r"\{\{|\{%|\{#|\{$")  # the last: what follows may begin with a brace

SYSTEM: Mapping[str, str] = {
    "user": "user.id",
    "time": '((now ~ "")[:16]|replace("T", " "))',
    "who": '(role.name or "AI")',
}
"""What ``{%name%}`` stands for where the runtime knows it, as expressions; no variable takes its place."""

_TOKEN = re.compile(
    rf"""(?P<space>\s+)
    |(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<placeholder>\$?\{{\{{?\s*(?P<name>{NAME})\s*\}}?\}})
    |(?P<operator>===|!==|==|!=|>=|<=|&&|\|\||[<>!()\[\],+\-*/%.])
    |(?P<number>\d+(?:\.\d+)?)
    |(?P<word>[^\W\d]\w*)""",
    re.VERBOSE,
)
_OPERATORS = {"===": "==", "!==": "!=", "&&": " and ", "||": " or ", "!": " not "}
_WORDS = {"null": "none", "undefined": "none", "True": "true", "False": "false", "None": "none"}
_OPERATOR_WORDS = {"AND": " and ", "OR": " or ", "NOT": " not "}


def reference(name: str) -> str:
    """The expression that reads a variable, also one whose name is no word."""
    return name if name.isidentifier() and not is_syntax(name) else f"vars[{json.dumps(name, ensure_ascii=False)}]"


def to_template(text: str, refer: Callable[[str], str] | None = None) -> str:
    """A text with the older placeholders as a Jinja2 template; everything else stays to the letter.

    `refer` gives the expression that reads a variable, where that is not simply `reference`.
    """
    refer = refer or reference
    parts, end = [], 0
    for match in _PLACEHOLDER.finditer(text):
        parts.append(_verbatim(text[end : match.start()]))
        parts.append("{{ " + _meaning(match, refer) + " }}")
        end = match.end()
    return "".join([*parts, _verbatim(text[end:])])


def to_text_expression(text: str, refer: Callable[[str], str] | None = None) -> str:
    """A text with the older placeholders as an expression; a placeholder alone keeps the kind of its value."""
    refer = refer or reference
    pieces, end = [], 0
    for match in _PLACEHOLDER.finditer(text):
        pieces += [json.dumps(before, ensure_ascii=False)] if (before := text[end : match.start()]) else []
        pieces.append(_meaning(match, refer))
        end = match.end()
    pieces += [json.dumps(after, ensure_ascii=False)] if (after := text[end:]) else []
    return " ~ ".join(pieces) or '""'


def _meaning(match: re.Match[str], refer: Callable[[str], str]) -> str:
    """The expression that a placeholder stands for."""
    if match["system"] is not None and match["system"].strip() in SYSTEM:
        return SYSTEM[match["system"].strip()]
    return refer((match["double"] or match["system"] or match["single"]).strip())


def _verbatim(text: str) -> str:
    return _JINJA_MARK.sub(lambda mark: '{{ "' + mark[0] + '" }}', text)


def odd_placeholders(text: str) -> Iterator[tuple[str, int]]:
    """What stands in single braces like a placeholder but is no variable's name, with its offset."""
    taken = [match.span() for match in _PLACEHOLDER.finditer(text)]
    fences = [match.span() for match in re.finditer(r"```.*?(?:```|\Z)", text, re.DOTALL)]
    for match in _ODD_PLACEHOLDER.finditer(text):
        if not any(start <= match.start() < end for start, end in (*taken, *fences)):
            yield match["name"], match.start()


def to_expression(condition: str) -> str:
    """A condition in the small JS-like syntax (``{age} >= 20 && !{married}``) as a Jinja2 expression.

    Raises ValueError, naming the part that has no meaning.
    """
    parts, position = [], 0
    while position < len(condition):
        match = _TOKEN.match(condition, position)
        if match is None:
            raise ValueError(f"{condition[position : position + 20]!r} has no meaning in a condition")
        parts.append(_TRANSLATE[str(match.lastgroup if match["name"] is None else "placeholder")](match))
        position = match.end()
    return re.sub(r"\s+", " ", "".join(parts)).strip()


_TRANSLATE: dict[str, Callable[[re.Match[str]], str]] = {
    "space": lambda match: " ",
    "text": lambda match: match["text"],
    "placeholder": lambda match: reference(match["name"].strip()),
    "operator": lambda match: _OPERATORS.get(match["operator"], match["operator"]),
    "number": lambda match: match["number"],
    "word": lambda match: _OPERATOR_WORDS.get(match["word"]) or _WORDS.get(match["word"], match["word"]),
}
