"""The conditions of the stage form, as Jinja2: ``({age} >= 20 && {sex} == 'f') || !{married}``.

JavaScript's signs, their full-width twins and the words people write for them all count. ``{x} == ''`` asks whether
x was given at all. Operators bind as they do in JavaScript, but for ``!``, which takes the whole comparison.
"""

import json
import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from scripts.dialects.placeholders import NAME, SYSTEM, reference, to_text_expression
from scripts.values import shorten

Refer = Callable[[str], str]
TOKENS_MAX = 2_000
NESTING_MAX = 40

_WIDE = str.maketrans("＞＜＝！（）［］，＆｜＋－＊／％｛｝？：．＂＇　。", "><=!()[],&|+-*/%{}?:.\"' .")
_QUOTES = {"'": "'", '"': '"', "“": "”", "”": "”", "‘": "’", "’": "’", "「": "」"}
_TEXT = "|".join(rf"{re.escape(a)}(?:[^\\{re.escape(b)}]|\\.)*{re.escape(b)}" for a, b in _QUOTES.items())
_SIGNS = r"===|!==|==|!=|<>|>=|<=|=>|=<|&&|\|\||[<>=!&|()\[\],+\-*/%.?:≥≤≠]"
_LONG_WORDS = (
    r"大于或等于|小于或等于|大于等于|小于等于|不等于|不大于|不小于|等于|大于|小于"
    r"|不包含|不包括|包含|包括|含有|不属于|属于|并且|而且|或者|不是"
)
_TOKEN = re.compile(
    rf"(?P<space>\s+)|(?P<text>{_TEXT})|(?P<placeholder>\$?\{{[{{%]?\s*(?P<name>{NAME})\s*[}}%]?\}})"
    rf"|(?P<number>\d+(?:\.\d+)?)|(?P<long>{_LONG_WORDS})|(?P<short>[且或非是](?!\w))"
    rf"|(?P<sign>{_SIGNS})|(?P<word>[^\W\d]\w*)"
)
_MEANINGS = {
    **dict.fromkeys(("===", "==", "=", "等于", "是", "equals", "is", "eq"), "=="),
    **dict.fromkeys(("!==", "!=", "<>", "≠", "不等于", "不是", "ne"), "!="),
    **dict.fromkeys((">=", "=>", "≥", "大于等于", "大于或等于", "不小于"), ">="),
    **dict.fromkeys(("<=", "=<", "≤", "小于等于", "小于或等于", "不大于"), "<="),
    "大于": ">",
    "小于": "<",
    ">": ">",
    "<": "<",
    **dict.fromkeys(("&&", "&", "and", "且", "并且", "而且"), "and"),
    **dict.fromkeys(("||", "|", "or", "或", "或者"), "or"),
    **dict.fromkeys(("!", "not", "非"), "not"),
    **dict.fromkeys(("contains", "contain", "includes", "include", "包含", "包括", "含有"), "contains"),
    **dict.fromkeys(("不包含", "不包括"), "lacks"),
    **dict.fromkeys(("in", "属于"), "in"),
    "不属于": "not in",
}
_COMPARISONS = {"==", "!=", ">=", "<=", ">", "<", "contains", "lacks", "in", "not in"}
_CONSTANTS = {"true": "true", "false": "false", "null": "none", "none": "none", "undefined": "none", "nil": "none"}
_METHODS = {"startswith": "startswith", "endswith": "endswith", "tolowercase": "lower", "lower": "lower"}
_METHODS |= {"touppercase": "upper", "upper": "upper", "trim": "strip", "strip": "strip", "indexof": "find"}
_FUNCTIONS = {"parseint": "int", "int": "int", "number": "float", "parsefloat": "float", "float": "float"}
_FUNCTIONS |= {"len": "length", "length": "length", "count": "length", "string": "string", "str": "string"}


class _Token(Struct, frozen=True):
    kind: str
    text: str


class _Part(Struct, frozen=True):
    """A piece of the expression; `kind` tells what is special about it when it is compared."""

    source: str
    kind: str = "value"  # or empty, none, truth, text, list


def _tokens(condition: str) -> Iterator[_Token]:
    position = 0
    plain = _straight(condition)
    while position < len(plain):
        match = _TOKEN.match(plain, position)
        if match is None:
            raise ValueError(f"{shorten(condition[position : position + 20])} has no meaning in a condition")
        position = match.end()
        text = match[0]
        if match["name"] is not None:
            name = match["name"].strip()
            yield _Token("system", SYSTEM[name]) if "%" in text and name in SYSTEM else _Token("name", name)
        elif match["text"] is not None:
            yield _Token("text", text)
        elif match["number"] is not None:
            yield _Token("number", text)
        elif not text.isspace():
            meaning = _MEANINGS.get(text.lower() if text.isascii() else text)
            yield _Token("sign", meaning) if meaning else _Token("word" if match["word"] else "sign", text)


def _straight(condition: str) -> str:
    """Full-width signs as plain ones, but inside of quotes and names."""
    parts = re.split(rf"({_TEXT}|\{{[^{{}}]*\}})", condition)
    return "".join(part if index % 2 else part.translate(_WIDE) for index, part in enumerate(parts))


def to_condition(condition: str, refer: Refer = reference, known: Callable[[str], bool] | None = None) -> str:
    """The Jinja2 expression of a condition. `refer` reads a variable; a word that is not `known` counts as a text
    where it stands to the right of a comparison. Raises ValueError, naming the part that has no meaning.
    """
    return _Parser(condition.strip().rstrip(";；,，。"), refer, known or (lambda word: True)).whole()


def is_computed(text: str, known: Callable[[str], bool]) -> bool:
    """Whether a text is meant to be worked out rather than said: operators between variables, numbers and texts."""
    try:
        tokens = list(_tokens(text))
        to_condition(text, known=known)
    except ValueError:
        return False
    if any(token.kind == "word" and not _is_meaning(token.text, known) for token in tokens):
        return False
    if all(token.kind == "text" for token in tokens):
        return len(tokens) == 1
    glued = re.search(r"\}\s?[-/:.：]\s?\{|\}-|-\{", text) is not None and " - " not in text
    names = any(token.kind in {"name", "word", "system"} for token in tokens)
    signs = any(token.kind == "sign" for token in tokens)
    numbers = sum(token.kind == "number" for token in tokens)
    return signs and not glued and (names or (numbers > 1 and re.fullmatch(r"[\d\s.+*/()]+", text) is not None))


def _is_meaning(word: str, known: Callable[[str], bool]) -> bool:
    low = word.lower()
    return known(word) or low in _CONSTANTS or low in _FUNCTIONS or low in _METHODS


class _Parser:
    """Goes through the tokens once, from the loosest operator to the tightest."""

    def __init__(self, condition: str, refer: Refer, known: Callable[[str], bool]) -> None:
        self._tokens = list(_tokens(condition))
        if len(self._tokens) > TOKENS_MAX:
            raise ValueError(f"a condition may have {TOKENS_MAX:,} parts")
        self._refer = refer
        self._known = known
        self._next = 0
        self._depth = 0

    def whole(self) -> str:
        part = self.either()
        if self._next < len(self._tokens):
            raise ValueError(f"{shorten(self._tokens[self._next].text)} stands where a condition should end")
        return part.source

    def peek(self, *signs: str) -> str:
        """The sign that stands here, if it is one of these."""
        token = self._tokens[self._next] if self._next < len(self._tokens) else None
        return token.text if token is not None and token.kind == "sign" and token.text in signs else ""

    def taken(self, *signs: str) -> str:
        found = self.peek(*signs)
        self._next += bool(found)
        return found

    def must(self, sign: str) -> None:
        if not self.taken(sign):
            raise ValueError(f"a {sign} is missing")

    def either(self) -> _Part:
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise ValueError("nested too deeply")
        part = self.joined("or", lambda: self.joined("and", self.negated))
        if self.taken("?"):
            yes = self.either()
            self.must(":")
            part = _Part(f"({yes.source} if {part.source} else {self.either().source})")
        self._depth -= 1
        return part

    def joined(self, word: str, inner: Callable[[], _Part]) -> _Part:
        part = inner()
        while self.taken(word):
            part = _Part(f"{part.source} {word} {inner().source}")
        return part

    def negated(self) -> _Part:
        times = 0
        while self.taken("not"):
            times += 1
        part = self.compared()
        return _Part("not " * (times % 2 or 2 * bool(times)) + part.source, part.kind if not times else "value")

    def compared(self) -> _Part:
        left = self.sum()
        if self.peek("not") and self._next + 1 < len(self._tokens) and self._tokens[self._next + 1].text == "in":
            self._next += 2
            return _Part(f"{left.source} not in {self.sum(right=True).source}")
        while sign := self.taken(*_COMPARISONS):
            left = _comparison(left, sign, self.sum(right=True))
        return left

    def sum(self, *, right: bool = False) -> _Part:
        part = self.product(right=right)
        while sign := self.taken("+", "-"):
            other = self.product()
            joins = sign == "+" and "text" in {part.kind, other.kind}
            part = _Part(f"{part.source} {'~' if joins else sign} {other.source}", "text" if joins else "value")
        return part

    def product(self, *, right: bool = False) -> _Part:
        part = self.unary(right=right)
        while sign := self.taken("*", "/", "%"):
            part = _Part(f"{part.source} {sign} {self.unary(right=False).source}")
        return part

    def unary(self, *, right: bool) -> _Part:
        if self.taken("-"):
            return _Part(f"-{self.postfixed(right=False).source}")
        if self.taken("not"):
            return _Part(f"(not {self.postfixed(right=False).source})")
        self.taken("+")
        return self.postfixed(right=right)

    def postfixed(self, *, right: bool) -> _Part:
        part = self.primary(right=right)
        while sign := self.taken(".", "["):
            if sign == "[":
                part = _Part(f"{part.source}[{self.either().source}]")
                self.must("]")
            else:
                part = self.member(part)
        return part

    def member(self, part: _Part) -> _Part:
        name = self.word()
        low = name.lower()
        if not self.taken("("):
            if low in {"length", "size"}:
                return _Part(f"{part.source}|length")
            return _Part(part.source + (f".{name}" if name.isidentifier() else f"[{_quoted(name)}]"))
        given = self.listed(")")
        if low in {"includes", "contains", "include", "contain"} and len(given) == 1:
            return _Part(f"({given[0]} in {part.source})")
        if low in {"tostring", "valueof"} and not given:
            return part
        if low not in _METHODS:
            raise ValueError(f"{name}() has no meaning in a condition")
        return _Part(f"{part.source}.{_METHODS[low]}({', '.join(given)})")

    def word(self) -> str:
        token = self._tokens[self._next] if self._next < len(self._tokens) else None
        if token is None or (token.kind not in {"word", "number"} and token.text not in {"contains", "in"}):
            raise ValueError("a name is missing after the point")
        self._next += 1
        return token.text

    def listed(self, end: str) -> list[str]:
        found: list[str] = []
        while not self.taken(end):
            if found:
                self.must(",")
            found.append(self.either().source)
        return found

    def primary(self, *, right: bool) -> _Part:
        if self.taken("("):
            items = self.listed(")")
            if len(items) == 1:
                return _Part(f"({items[0]})")
            return _Part(f"[{', '.join(items)}]", "list")
        if self.taken("["):
            items = self.listed("]")
            return _Part(f"[{', '.join(items)}]", "list" if items else "nothing")
        if self._next >= len(self._tokens):
            raise ValueError("the condition ends too early")
        token = self._tokens[self._next]
        self._next += 1
        match token.kind:
            case "name":
                return _Part(self._refer(token.text))
            case "number" | "system":
                return _Part(token.text)
            case "text":
                return self.text(token.text)
            case "word":
                return self.bare(token.text, right=right)
            case _:
                raise ValueError(f"{shorten(token.text)} stands where a value should be")

    def text(self, quoted: str) -> _Part:
        """A text in quotes; one that holds placeholders is the text that comes of them."""
        inner = re.sub(r"\\(.)", r"\1", quoted[1:-1])
        if not inner.strip():
            return _Part('""', "empty")
        source = to_text_expression(inner, self._refer)
        if "{" in inner and source != _quoted(inner):
            return _Part(f"({source})" if " ~ " in source else source)
        return _Part(_quoted(inner), "text")

    def bare(self, word: str, *, right: bool) -> _Part:
        low = word.lower()
        if low in _CONSTANTS:
            meaning = _CONSTANTS[low]
            return _Part(meaning, "none" if meaning == "none" else "truth")
        if low in _FUNCTIONS and self.taken("("):
            given = self.listed(")")
            if len(given) != 1:
                raise ValueError(f"{word}() takes one value")
            return _Part(f"({given[0]})|{_FUNCTIONS[low]}")
        if self.peek("("):
            raise ValueError(f"{word}() has no meaning in a condition")
        return _Part(_quoted(word), "text") if right and not self._known(word) else _Part(self._refer(word))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _comparison(left: _Part, sign: str, right: _Part) -> _Part:
    if left.kind in {"empty", "none", "truth", "nothing"} and right.kind == "value" and sign in {"==", "!="}:
        left, right = right, left
    if sign in {"==", "!="}:
        if right.kind in {"empty", "none"}:
            return _Part(f'({left.source}|default("") ~ "") {sign} ""')
        if right.kind == "nothing":
            return _Part(f"({left.source}|default([]))|length {sign} 0")
        if right.kind == "truth" and left.kind == "value":
            word = "in" if sign == "==" else "not in"
            return _Part(f'{left.source} {word} [{right.source}, "{right.source}"]')
    match sign:
        case "contains":
            return _Part(f"{right.source} in {left.source}")
        case "lacks":
            return _Part(f"{right.source} not in {left.source}")
        case _:
            return _Part(f"{left.source} {sign} {right.source}")
