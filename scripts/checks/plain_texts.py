"""Check the texts in which nothing is replaced or calculated, because a model or a variable gets them as they are."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from msgspec import Struct

from scripts.expressions.values import shorten
from scripts.formats.placeholders import looks_calculated
from scripts.model.actions import ChoiceItem, Ending, Step
from scripts.model.base import Location, Node, parts
from scripts.model.detectors import Measure, Pattern
from scripts.model.diagnostics import Problems, Severity
from scripts.model.script import Detector, FormField, Parameter, Role, Script, Skill, StringTable, Topic, Trigger
from scripts.model.tools import ToolDefinition
from scripts.model.variables import Declaration, Output, Records

_PLAIN: Mapping[type[Struct], tuple[str, ...]] = {
    **dict.fromkeys((Topic, Skill), ("goal", "strategy")),
    **dict.fromkeys((Declaration, Parameter), ("value", "choices")),
    **dict.fromkeys((Output, FormField), ("define", "default", "choices")),
    **dict.fromkeys((Detector, Pattern), ("define", "note")),
    **dict.fromkeys((Records, Measure), ("define",)),
    Role: ("tone", "define", "desc"),
    Trigger: ("intent",),
    ChoiceItem: ("key",),
    Ending: ("reason",),
}
"""The fields of nodes that are texts without placeholders, and of which nothing is calculated."""

_BRACES = re.compile(
    r"(?P<double>\{\{\s*(?P<inner>[^{}]+?)\s*\}\})|\$?\{%?\s*(?P<name>[^{}%]+?)\s*%?\}|｛\s*(?P<wide>[^{}｛｝]+?)\s*｝"
)
_STATEMENT = re.compile(r"\{%[-+]?\s*(?:if|for)\s")
_NAME = re.compile(r"[^\W\d][\w.\-（）()·]*(?: [\w.\-（）()·]+)*")
_AS_IT_IS = "Remove the braces: this text is used as it is. Texts that are said or asked have placeholders."
_FIXES = {
    "value": "Declare it without a value, and set it where the other variable has one.",
    "default": "Write the value itself, or in a file with `cuebook: 1` an expression such as `default: =n`.",
    "choices": "Write the choices themselves, or in a file with `cuebook: 1` a list such as `choices: =cities`.",
    "key": "Write the choice as `{key: a, text: …}`; only its text has placeholders.",
}


def check_plain_texts(script: Script, known: Collection[str], problems: Problems) -> None:
    """Add a problem for each text with a placeholder that is not replaced, or that looks calculated.

    Single braces are a placeholder around a name in the older formats, and around a `known` one in the native format.
    """
    wrong = {(each.line, each.column) for each in problems.errors}  # such as a text for a number
    is_native = script.form in {"native", "detectors"}
    for key, text, at in _plain_texts(script):
        if (written := _placeholder(text, known, is_native=is_native)) is not None:
            message = f"{shorten(written, 60)} in `{key}` is not replaced"
            severity: Severity = "warning" if key in _FIXES else "note"  # a model understands most of the others
            problems.add("PLACEHOLDER_INVALID", message, at, fix=_FIXES.get(key, _AS_IT_IS), severity=severity)
        elif not is_native and key in {"value", "default"} and looks_calculated(text):
            if (at.line, at.column) in wrong:
                continue
            what = "a declared value" if key == "value" else "a default"
            message = f"{shorten(text)} is a text: {what} is not calculated"
            fix = "Write the value itself, such as 2, or put a blank before the `=`."
            problems.add("TYPE_MISMATCH", message, at, fix=fix, severity="warning")


def _placeholder(text: str, known: Collection[str], *, is_native: bool) -> str | None:
    """Return the first placeholder of a text, as it is written."""
    for found in _BRACES.finditer(text):
        name = found["inner"] or found["name"] or found["wide"]
        if found["double"] is not None or name in known or (not is_native and _NAME.fullmatch(name)):
            return found[0]
    statement = _STATEMENT.search(text)
    return text[statement.start() : statement.end()] + "… %}" if statement is not None else None


def _plain_texts(script: Script) -> Iterator[tuple[str, str, Location]]:
    """Yield the key, text and place of each text that may contain a placeholder or look calculated."""
    waiting: list[Any] = [script]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Node):
            keys = ("tone",) if isinstance(node, Step) else _PLAIN.get(type(node), ())
            for key in keys:
                value = getattr(node, key)
                texts = value if isinstance(value, tuple) else (value,)
                yield from ((key, text, node.mark(key)) for text in texts if _may_matter(text))
        if not isinstance(node, StringTable | ToolDefinition):
            waiting += [part for part in parts(node) if part and isinstance(part, (Node, tuple, dict))]


def _may_matter(text: Any) -> bool:
    return isinstance(text, str) and ("{" in text or "｛" in text or text.startswith("="))
