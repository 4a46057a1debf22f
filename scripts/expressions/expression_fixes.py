"""Fixes for common mistakes in expressions and templates that do not compile, and for unknown functions and methods."""

import re
from pathlib import Path

import msgspec
from jinja2.filters import FILTERS
from jinja2.tests import TESTS

from scripts.expressions.expressions import compile_expression
from scripts.expressions.members import METHODS
from scripts.expressions.sandbox import SANDBOX, ExpressionInvalid
from scripts.expressions.suggestions import snake_case, suggest
from scripts.expressions.time_values import FUNCTIONS

_WIDE_SIGNS = "＜＞＝“”‘’（），；｜且或０１２３４５６７８９"
FIXED_CHARS_MAX = 500  # a longer expression is not one mistake
_BETWEEN = re.compile(r"(?P<name>[^\W\d][\w.]*)\s+between\s+(?P<low>\S+)\s+and\s+(?P<high>\S+)")
_CAPITALS = re.compile(r"\s(?:AND|OR)\s|\bNOT\s")
_INCREASED = re.compile(r"(?P<name>[^\W\d][\w.]*)\s*(?P<sign>\+\+|--)")
_BARE_DATE = re.compile(r"(?<![\w'\"-])\d{4}-\d\d-\d\d(?![\w'\"-])")
_BARE_TEXT = re.compile(r"(?<![\w.:'\"])(?:\d{1,2}:\d\d|0\d+)(?![\w.:'\"])")
"""A time or a number with a leading zero, such as a postcode."""
_IS = re.compile(r"(?P<name>[^\W\d][\w.]*)\s+is\s+(?P<negated>not\s+)?(?P<value>-?\d[\d.]*|'[^']*'|\"[^\"]*\")")
_SWAPPED = re.compile(r"=([<>])(?!=)")
_ASSIGNS = re.compile(r"(?<![=!<>])=(?!=)")
_UNKNOWN = re.compile(r"No (?P<kind>filter|test) named '(?P<name>\w+)'")
_ELSE_IF = re.compile(r"{%[-+]?\s*(?:else\s*if|elsif)\b")
_LOOP_WITHOUT_IN = re.compile(r"{%[-+]?\s*for\b(?!\s+[\w\s,]+\sin\s)")
_PART = re.compile(r"{{[-+]?(?P<value>.*?)[-+]?}}|{%[-+]?\s*(?:el)?if\s(?P<condition>.*?)[-+]?%}", re.DOTALL)
_CONTAINS = re.compile(
    r"(?P<name>[^\W\d]\w*)\s+(?P<negated>(?:does\s+)?not\s+)?(?:contains?|includes?|has)\s+(?P<word>\S.*)", re.DOTALL
)
_WORDS = re.compile(r"[^\W\d]\w*(?:\s+\w+)+")
_CALLABLE = (*sorted(FUNCTIONS), "history", "range", "recall")
_TERNARY = re.compile(r"\?[^?:]*:")
_FOREIGN = msgspec.yaml.decode(
    Path(__file__).with_name("other_languages.yaml").read_text("utf-8"), type=dict[str, dict[str, str]]
)


def expression_fix(source: str, message: str) -> str:
    """Return the fix for a common mistake in an expression with this error, or an empty text."""
    if len(source) > FIXED_CHARS_MAX:
        return _unknown_fix(message)
    if "{{" in source:
        return "Write the name alone; an expression has no {{ }}."
    if source.startswith("="):
        return "Remove the `=`, or begin the file with `cuebook: 1`, where `=` marks an expression."
    fix = _unknown_fix(message) or _sign_fix(source) or _contains_fix(source) or _word_fix(source)
    if not fix and message == ") is missing at the end":
        return "Write a `)` where the part in parentheses ends."
    if not fix and re.fullmatch(r"[\w\s，。！？,.!?'’-]+", source):
        return f"""Put the text in quotes of its own: "'{source.strip()}'"."""
    return fix


def _word_fix(source: str) -> str:
    """Return the fix for operators and dates as other languages write them, or an empty text."""
    if (found := _BETWEEN.search(source)) is not None:
        return f"Write `{found['low']} <= {found['name']} <= {found['high']}`."
    if _CAPITALS.search(source):
        return "Write `and`, `or` and `not` in small letters."
    if (found := _INCREASED.search(source)) is not None:
        return f"Write `{found['name']} {found['sign'][0]} 1`."
    if (found := _BARE_DATE.search(source)) is not None:
        return f"Put quotes around a date: '{found[0]}'."
    if (found := _BARE_TEXT.search(source)) is not None:
        return f"Put quotes around a time or a text of digits: '{found[0].zfill(5) if ':' in found[0] else found[0]}'."
    if (found := _IS.search(source)) is not None:
        return f"Write `{found['name']} {'!' if found['negated'] else '='}= {found['value']}`."
    return ""


def _contains_fix(source: str) -> str:
    """Return the fix for ``reply contains word``, or an empty text."""
    found = _CONTAINS.fullmatch(source.strip())
    if found is None:
        return ""
    word = found["word"].strip("\"'")
    return f"Write `'{word}' {'not ' if found['negated'] else ''}in {found['name']}`."


def unclosed_fix(source: str) -> str:
    """Return the fix for a part of a template that is not closed, or an empty text."""
    for word in ("if", "for"):
        begun = len(re.findall(rf"{{%[-+]?\s*{word}\b", source))
        if begun > len(re.findall(rf"{{%[-+]?\s*end{word}\b", source)):
            return f"Close `{{% {word} … %}}` with `{{% end{word} %}}`."
    if source.count("{%") > source.count("%}"):
        return "Close {% with %}."
    return "Close {{ with }}." if source.count("{{") > source.count("}}") else ""


def template_fix(source: str, message: str) -> str:
    """Return the fix for a common mistake in a template with this error, or an empty text."""
    if (fix := _unknown_fix(message)) != "":
        return fix
    if _ELSE_IF.search(source):
        return "Write {% elif … %}."
    if _LOOP_WITHOUT_IN.search(source):
        return "Write {% for … in … %}."
    if "unknown tag" in message:
        return "Use {% if … %}, {% elif … %}, {% else %} and {% endif %}, or {% for … in … %} and {% endfor %}."
    for part in _PART.finditer(source):
        written = (part["value"] or part["condition"] or "").strip()
        if written and not _compiles(written):
            is_name = part["value"] is not None and _WORDS.fullmatch(written)
            name = "_".join(written.split())
            return f"A name has no blanks: write {{{{ {name} }}}}." if is_name else _sign_fix(written)
    return ""


def function_fix(name: str) -> str:
    """Return the fix for a call of a function that does not exist."""
    if name == "secret":
        return "Secrets exist only in the headers of tools."
    filters = [each for each in SANDBOX.filters if each.isidentifier()]
    if name in filters:
        return f"It is a filter: write `VALUE | {name}`."
    alike = suggest(name, filters, "").replace("Did you mean `", "It is a filter here: write `VALUE | ")
    fix = suggest(name, _CALLABLE, "") or alike.replace("?", ".")
    return fix or f"The functions are {', '.join(f'`{each}`' for each in _CALLABLE)}; a variable has no parentheses."


def method_fix(name: str) -> str:
    """Return the fix for the call of a method that no value has."""
    instead = _FOREIGN["methods"].get(snake_case(name))
    return f"Write `{instead}`." if instead else suggest(snake_case(name).replace("_", ""), sorted(METHODS))


def _unknown_fix(message: str) -> str:
    found = _UNKNOWN.search(message)
    if found is None:
        return ""
    if (fix := _FOREIGN[f"{found['kind']}s"].get(found["name"].lower())) is not None:
        return fix
    is_filter = found["kind"] == "filter"
    known = [name for name in (SANDBOX.filters if is_filter else SANDBOX.tests) if name.isidentifier()]
    is_of_jinja = found["name"] in (FILTERS if is_filter else TESTS)
    # one of Jinja's is not misspelt, so a similar name means something else
    listed = f"Use one of {', '.join(f'`{name}`' for name in sorted(known))}."
    return listed if is_of_jinja else suggest(found["name"], known)


def _sign_fix(source: str) -> str:
    if any(char in source for char in _WIDE_SIGNS):
        return "Write plain operators and words: < > == ( ) , and or, plain digits and straight quotes."
    for sign, fix in _FOREIGN["signs"].items():
        if sign in source:
            return fix
    if _TERNARY.search(source):
        return "Write `A if CONDITION else B` instead of CONDITION ? A : B."
    if (swapped := _SWAPPED.search(source)) is not None:
        return f"Write {swapped[1]}= instead of {swapped[0]}."
    if source.startswith("="):
        return "Remove the `=`."
    return "Compare with ==." if _ASSIGNS.search(source) else ""


def _compiles(expression: str) -> bool:
    try:
        compile_expression(expression)
    except ExpressionInvalid:
        return False
    return True
