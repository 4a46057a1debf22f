"""Convert placeholders of the older formats to Jinja2.

``{x}``, ``{{x}}``, ``${x}``, ``{ x }``, ``｛x｝`` and ``{%x%}`` all mean the variable x, except for built-in values:
``{%user%}`` is the user's id, ``{%time%}`` the time, ``{%who%}`` the role that speaks; ``{user.id}``, ``{role.name}``
and ``{now.year}`` are members of built-in values. They are converted once, when the script is read, so braces or
dollar signs in values are never interpreted. ``{x || 'you'}`` (or ``??``, ``or``, ``| default('you')``) is the text if
x has no value, ``{x || 0}`` the number.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from scripts.expressions.expressions import is_syntax
from scripts.expressions.members import BUILTINS, KINDS
from scripts.expressions.values import Value, literal, shorten
from scripts.model.base import Location
from scripts.model.diagnostics import PROBLEMS_MAX
from scripts.yaml.decoder import Reader
from scripts.yaml.parser import Tree, pairs_of

NAME = r"[^\W\d][\w.\-（）()·]*(?:[ ][\w.\-（）()·]+)*"
INDEX = r"(?:\[\d{1,4}\][\w.]*)*"  # people[0].name
_STATEMENT = (
    r"(?:(?:if|elif|for|set|macro|call|filter|with|include|import|from|block)\s+\S|(?:else|end[a-z]+)\s*[-+]?%\})"
)
# a name before it is as short as possible, because names may have blanks
_DEFAULT = (
    r"(?:(?:\|\||\?\?|\bor\b|\|\s*default\s*\()"
    r"\s*(?P<{}>\"[^\"{{}}]*\"|'[^'{{}}]*'|-?\d{{1,15}}(?:\.\d{{1,15}})?)\s*(?:(?:,\s*[tT]rue\s*)?\)\s*)?)?"
)
_PLACEHOLDER = re.compile(
    rf"\$?\{{\{{\s*(?P<double>{NAME}?{INDEX})\s*{_DEFAULT.format('double_default')}\}}\}}|\{{%(?!\s*{_STATEMENT})\s*(?P<system>{NAME})\s*%\}}"
    rf"|\$?\{{\s*(?P<single>{NAME}?{INDEX})\s*{_DEFAULT.format('single_default')}\}}|｛\s*(?P<wide>{NAME}{INDEX})\s*｝"
)
_ODD_PLACEHOLDER = re.compile(
    r"\{\s*(?P<name>[\w@#$!?*+/\-.]{1,40}|[\w.]{1,40}(?:\s?[+*/%]\s?[\w.]{1,40}){1,3})\s*\}"  # {age + 1}
    r"|\{\{\s*(?P<computed>(?!\s|[\"'][^\"'{}]*[\"']\s*:)[^{}\n]{1,120}?)\s*\}\}"  # {{ a or "you" }}, no {{"a": 1}}
    r"|\{\s*(?P<filtered>[^\W\d][\w.]{0,40}(?:\s*\||\[|:[.,<>^0]| (?:if|or)\s)[^{}\n]{1,120}?)\s*\}"  # {a|title} {a[0]}
    r"|\{\s*(?P<compared>[^\W\d][\w.]{0,40}\s*(?:[=!<>]==?|[<>]|&&|\?\??\s)\s*[\w'\"“‘(-][^{}\n]{0,99}?)\s*\}"  # {a<1}
    r"|\{(?P<prose>(?=[^{}]*[^\W\d_])[\w\s，。？！、；：,;?!…·（）()《》“”‘’~～-]{1,60}?)\}"  # {姓名，年龄} {您几岁？}
    r"|｛(?P<wide>[^{}｛｝\n]{1,60})｝"
)
_FIX_OF_NAME = "Write {name}."
_FIX_OF_CONDITION = "Write each text in an action of its own, with its condition."
_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_EMPTY_PLACEHOLDER = re.compile(r"(?<![:=\[(])(?<![:=,][ ])(?:\{\{\s*\}\}|\{\s*\}|｛\s*｝)")
_CALCULATED = re.compile(r"=\s*[^=\s]")
_KEY_OF_JSON = re.compile(r"[\"']\s*:")
_JINJA_STATEMENT = re.compile(rf"\{{%[-+]?\s*{_STATEMENT}")
_UNCLOSED_PLACEHOLDER = re.compile(
    r"(?P<open>\{\{|\{%)\s*(?P<name>[^\W\d][^{}%\n]{0,80}?)\s*(?:\}(?!\})|%(?!\})|(?=\{)|(?=\n)|\Z)"  # {{ name
)
_JINJA_MARK = re.compile(r"\{\{|\{%|\{#|\{$")  # the last one: the following text may start with a brace

SYSTEM: Mapping[str, str] = {
    "user": "user.id",
    "time": '((now ~ "")[:16]|replace("T", " "))',
    "who": '(role.name or "AI")',
}
"""The expressions of built-in values ``{%name%}``; no variable replaces them."""


SCOPES = frozenset({"global", "session", "phase", "topic", "variables"})
"""Words before a variable that name its scope, as in `{session.mood}`."""


def with_dots(name: str) -> str:
    """Return the name of a member with a dot before its index: `people.0` for `people[0]`."""
    return re.sub(r"\[(\d+)\]", r".\1", name)


def reference(name: str) -> str:
    """Return the expression of a placeholder: a member of a built-in value, or else a variable."""
    return name if is_built_in_member(name) else variable_reference(name)


def variable_reference(name: str) -> str:
    """Return the expression that reads a variable, also one whose name is not an identifier or names its scope."""
    scope, _, inner = name.partition(".")
    if inner and scope in SCOPES:
        return variable_reference(inner)
    return name if name.isidentifier() and not is_syntax(name) else f"vars[{json.dumps(name, ensure_ascii=False)}]"


def member_reference(base: str, parts: Sequence[str]) -> str:
    """Return the expression that reads a member of a value, or of a member; `length` is the number of items."""
    for index, part in enumerate(parts):
        if part in {"length", "size", "count"} and index == len(parts) - 1:
            return f"{base}|length"
        if part.isdecimal() and part.isascii():
            base += f"[{int(part)}]"
        elif part.isidentifier() and not is_syntax(part):
            base += f".{part}"
        else:
            base += f"[{json.dumps(part, ensure_ascii=False)}]"
    return base


def is_built_in_member(name: str) -> bool:
    """Return whether a name is that of a value in a built-in one, such as `user.id`."""
    head, _, member = name.partition(".")
    part = KINDS[head].members.get(member) if head in BUILTINS else None
    return part is not None and not part.example  # functions have an example of their result


def to_template(text: str, refer: Callable[[str], str] = reference) -> str:
    """Convert a text with older placeholders to a Jinja2 template; all other text stays unchanged.

    `refer` returns the expression of a variable; by default `reference`.
    """
    parts, end = [], 0
    for match in _PLACEHOLDER.finditer(text):
        parts.append(_verbatim(text[end : match.start()]))
        parts.append("{{ " + _meaning(match, refer) + " }}")
        end = match.end()
    return "".join([*parts, _verbatim(text[end:])])


def to_text_expression(text: str, refer: Callable[[str], str] = reference) -> str:
    """Convert a text with older placeholders to an expression; a placeholder alone has the type of its value."""
    pieces, end = [], 0
    for match in _PLACEHOLDER.finditer(text):
        pieces += [json.dumps(before, ensure_ascii=False)] if (before := text[end : match.start()]) else []
        meaning = _meaning(match, refer)
        pieces.append(f"({meaning})" if _default(match) else meaning)
        end = match.end()
    pieces += [json.dumps(after, ensure_ascii=False)] if (after := text[end:]) else []
    return " ~ ".join(pieces) or '""'


def to_value_expression(value: Value, refer: Callable[[str], str] = reference) -> str:
    """Convert a value, also a list or mapping, with older placeholders in its texts to an expression."""
    match value:
        case str():
            return to_text_expression(value, refer)
        case list():
            return f"[{', '.join(to_value_expression(each, refer) for each in value)}]"
        case dict():
            pairs = (f"{literal(key)}: {to_value_expression(each, refer)}" for key, each in value.items())
            return f"{{{', '.join(pairs)}}}"
        case _:
            return literal(value)


def _meaning(match: re.Match[str], refer: Callable[[str], str]) -> str:
    """Return the expression of a placeholder."""
    if match["system"] is not None and match["system"].strip() in SYSTEM:
        return SYSTEM[match["system"].strip()]
    name = refer(with_dots((match["double"] or match["system"] or match["single"] or match["wide"]).strip()))
    return f"{name} or {default}" if (default := _default(match)) else name


def _default(match: re.Match[str]) -> str:
    """Return the literal that a placeholder stands for if its variable has no value; empty without one."""
    written = match["double_default"] or match["single_default"] or ""
    if written[:1] not in {"'", '"'}:
        return written
    return json.dumps(written[1:-1], ensure_ascii=False) if len(written) > 2 else ""


def respell_defaults(text: str, spelling: str) -> str:
    """Return a text in which placeholders with a default are written as `spelling`, of their `name` and `default`."""

    def respell(match: re.Match[str]) -> str:
        name = (match["double"] or match["single"] or "").strip()
        return spelling.format(name=name, default=default) if (default := _default(match)) else match[0]

    return _PLACEHOLDER.sub(respell, text) if "{" in text else text


def _verbatim(text: str) -> str:
    return _JINJA_MARK.sub(lambda mark: '{{ "' + mark[0] + '" }}', text)


def looks_calculated(text: str) -> bool:
    """Return whether a text begins with `=`, as an expression of the native format."""
    return _CALCULATED.match(text) is not None


def report_globals(reader: Reader, tree: Tree | None) -> None:
    """Record that global variables which a script itself declares last as long as the session."""
    for key, _ in pairs_of(tree):
        if key.text in {"global", "globals"}:
            message = f"`{key.text}` in a script declares variables of the session, not of the user"
            fix = "Write `declare` instead, or write them to a separate file and list it in `use`."
            reader.add("UNKNOWN_KEY", message, key.at, fix, severity="warning")


def report_calculated(reader: Reader, text: str, at: Location, fix: str = "") -> None:
    """Record that a value is not calculated, if it looks so."""
    if looks_calculated(text):
        message = f"{shorten(text)} is a text: `=` marks no expression in this format"
        reader.slip("TYPE_MISMATCH", message, at, fix or "Write `{name}` for the value of a variable.")


def report_placeholders(reader: Reader, text: str, at: Location) -> None:
    """Record the problems of braces that are not closed or contain no variable name; fenced code has none.

    The text begins at a location.
    """
    if "{" not in text and "｛" not in text:
        return
    is_right = bytearray(len(text))  # by character: it is of a placeholder, or of fenced code
    for pattern in (_PLACEHOLDER, _FENCED):
        for match in pattern.finditer(text):
            is_right[match.start() : match.end()] = b"\1" * len(match[0])

    def outside(pattern: re.Pattern[str]) -> Iterator[tuple[re.Match[str], Location]]:
        wrong = (match for match in pattern.finditer(text) if not is_right[match.start()])
        for match in itertools.islice(wrong, PROBLEMS_MAX):
            yield match, at.below(text.count("\n", 0, match.start()))

    for match, place in itertools.islice(outside(_JINJA_STATEMENT), 1):
        start = shorten(text[match.start() :].partition("%}")[0] + "%}")
        message = f"{start} is not run: texts of this format have no statements"
        reader.add("TEMPLATE_INVALID", message, place, _FIX_OF_CONDITION)
    for match, place in outside(_UNCLOSED_PLACEHOLDER):
        closing = "}}" if match["open"] == "{{" else "%}"
        message = f"`{match['open']}{match['name'][:20]}` is not closed on its line"
        reader.add("TEMPLATE_INVALID", message, place, f"Close {match['open']} with {closing}.")
    for match, place in outside(_ODD_PLACEHOLDER):
        inner = next(filter(None, match.groups()), "")
        fix = _FIX_OF_CONDITION if match["compared"] is not None else _FIX_OF_NAME
        if match["filtered"] is not None:
            fix = "Write the name alone, or convert the file: texts with `cuebook: 1` have filters and operators."
        reader.add("PLACEHOLDER_INVALID", f"{{{inner}}} is not a variable name", place, fix)
    for match, place in outside(_EMPTY_PLACEHOLDER) if _KEY_OF_JSON.search(text) is None else ():
        reader.add("PLACEHOLDER_INVALID", f"{match[0]} names no variable", place, _FIX_OF_NAME)
