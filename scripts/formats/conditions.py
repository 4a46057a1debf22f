"""Convert conditions of the older formats to Jinja2: ``({age} >= 20 && {sex} == 'f') || !{married}``.

Operators of JavaScript, their full-width forms and the words for them are accepted. ``{x} == ''`` tests whether x has
no value. Precedence is that of JavaScript, except for ``!``, which applies to the whole comparison.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator
from itertools import pairwise

from msgspec import Struct

from scripts.expressions.values import number_in, shorten
from scripts.formats.placeholders import (
    INDEX,
    NAME,
    SCOPES,
    SYSTEM,
    reference,
    respell_defaults,
    to_text_expression,
    with_dots,
)
from scripts.formats.words import ALONE, CONSTANTS, FUNCTIONS, JOINING, METHODS, OPERATORS, STATES, TESTS
from scripts.model.base import Location
from scripts.yaml.decoder import Reader

Refer = Callable[[str], str]
TOKENS_MAX = 2_000
NESTING_MAX = 40

_WIDE = str.maketrans(
    "＞＜＝！（）［］，＆｜＋－＊／％｛｝？：．＂＇　。０１２３４５６７８９≧≦", "><=!()[],&|+-*/%{}?:.\"' .0123456789≥≤"
)
_QUOTES = {"'": "'", '"': '"', "“": "”", "”": "”", "‘": "’", "’": "’", "「": "」"}
_TEXT = "|".join(rf"{re.escape(a)}(?:[^\\{re.escape(b)}]|\\.)*{re.escape(b)}" for a, b in _QUOTES.items())
QUOTED = re.compile(_TEXT)
_SIGNS = r"===|!==|==|!=|<>|>=|<=|=>|=<|&&|\|\||[<>=!&|()\[\],+\-*/%.?:≥≤≠]"
_COMPARING = (
    "大于或等于|小于或等于|大于等于|小于等于|不等于|不大于|不小于|等于|大于|小于"
    r"|(?:不?(?:超过|[高低多少]于|为)|至[少多])(?=\s*[\d{'\"“‘])|(?<=\})不?[是为](?![空否])"
)
CHARS_MAX = 2_000
_COMPARES = re.compile(rf"\}}\s*(?:[=!<>＝！＜＞≥≤≠]|{_COMPARING})")  # “{age}＞18”
_EMPTY = r"(?<!是否)(?:不?为空|非空)(?!(?![且或并而])\w)"  # not in the name 是否为空
_LONG_WORDS = (
    rf"{_COMPARING}"
    r"|(?:does[ ]not|doesn't|not)[ ](?:contain|include)s?\b|is[ ](?:not[ ])?(?:in|one[ ]of)\b"
    r"|不包含|不包括|包含|包括|含有|不属于|属于|并且|而且|或者|不是|is[ ]not\b"
)
_TOKEN = re.compile(
    rf"(?P<space>\s+)|(?P<text>{_TEXT})|(?P<placeholder>\$?\{{[{{%]?\s*(?P<name>{NAME}{INDEX})\s*[}}%]?\}})"
    rf"|(?P<date>\d{{4}}(?P<dash>[-/])\d{{1,2}}(?P=dash)\d{{1,2}}(?!\d))|(?P<number>\d+(?:\.\d+)?)"
    rf"|(?P<long>{_LONG_WORDS})|(?P<short>[且或非是](?!\w)|(?<=空)[且或])"
    rf"|(?P<sign>{_SIGNS})|(?P<word>{_EMPTY}|[^\W\d](?:(?!{_COMPARING}|{_EMPTY})\w)*)"  # 年龄大于20, 年龄不为空
)
_OPERAND = rf"(?:\$?\{{\{{?\s*{NAME}\s*\}}?\}}|\d+(?:\.\d+)?)"
_AMBIGUOUS = re.compile(rf"{_OPERAND}[-/]{_OPERAND}|\$?\{{[^{{}}]*\}}(?:\s?[-/]\s?\$?\{{[^{{}}]*\}})+")
_JOINED = re.compile(r"(\w+?)(或者?|且|也不?是)(\w+)")
_EQUALS = {"==", "===", "!=", "!==", "<>"}  # behind them, a word is a text also in a value: {mood} == calm
_COMPARISONS = {"==", "!=", ">=", "<=", ">", "<", "contains", "lacks", "in", "not in"}
_DIFFERENCE = re.compile(r"(\d+(?:\.\d+)?) - (\d+(?:\.\d+)?)")
_ALTERNATIVES = {"==": ("or",), "!=": ("and", "or"), "contains": ("and", "or"), "lacks": ("and", "or")}
"""The words that add a value to the right side of a comparison: `{sex} == 男 or 女`."""


class _Token(Struct, frozen=True):
    kind: str
    text: str
    written: str = ""


_END = _Token("end", "")


class _Part(Struct, frozen=True):
    """A part of the expression; `kind` affects how it is compared."""

    source: str
    kind: str = "value"  # or empty, none, defined, truth, text, list


def _with_alternatives(condition: str) -> str:
    """Write the defaults of placeholders that are not inside quotes as alternatives: `{n || 0}` as `({n} || 0)`."""
    parts = re.split(rf"({_TEXT}|\$?\{{+[^{{}}]*\}}+)", condition)
    return "".join(
        respell_defaults(part, "({{{name}}} || {default})") if part.lstrip("$").startswith("{") else part
        for part in parts
    )


def _tokens(condition: str) -> Iterator[_Token]:
    if len(condition) > CHARS_MAX:
        raise ValueError(f"a condition has at most {CHARS_MAX:,} characters")
    position = 0
    condition = _with_alternatives(condition)
    plain = plain_signs(condition)
    while position < len(plain):
        match = _TOKEN.match(plain, position)
        if match is None:
            raise ValueError(f"{shorten(condition[position : position + 20])} is not supported in a condition")
        position = match.end()
        text = match[0]
        if match["name"] is not None:
            name = with_dots(match["name"].strip())
            yield _Token("system", SYSTEM[name]) if "%" in text and name in SYSTEM else _Token("name", name)
        elif match["text"] is not None:
            yield _Token("text", text)
        elif match["date"] is not None:
            year, month, day = text.split(match["dash"])
            yield _Token("date", f"{year}-{month:0>2}-{day:0>2}")
        elif match["number"] is not None:
            yield _Token("number", text)
        elif not text.isspace():
            meaning = OPERATORS.get(text.lower() if text.isascii() else text)
            yield _Token("sign", meaning, text) if meaning else _Token("word" if match["word"] else "sign", text)


def plain_signs(condition: str) -> str:
    """Replace full-width characters with plain ones, except inside quotes and names."""
    parts = re.split(rf"({_TEXT}|\{{[^{{}}]*\}})", condition)
    return "".join(part if index % 2 else part.translate(_WIDE) for index, part in enumerate(parts))


def to_condition(condition: str, refer: Refer = reference, known: Callable[[str], bool] | None = None) -> str:
    """Convert a condition to a Jinja2 expression. `refer` returns the expression of a variable; a word that is not
    `known` is a text on the right side of a comparison. Raises ValueError, which names the invalid part.
    """
    return _Parser(condition.strip().rstrip(";；,，。"), refer, known or (lambda word: True)).whole()


def is_computed(text: str, known: Callable[[str], bool]) -> bool:
    """Return whether a text is an expression: it has operators between variables, numbers and texts."""
    text = respell_defaults(text, "{{{name}}}")
    try:
        tokens = list(_tokens(text))
        to_condition(text, known=known)
    except ValueError:
        return False
    equal = {index + 1 for index, token in enumerate(tokens) if token.text in {"==", "!="} and token.written in _EQUALS}
    words = (token.text for index, token in enumerate(tokens) if token.kind == "word" and index not in equal)
    if not all(_is_meaning(word, known) for word in words):
        return False
    if all(token.kind == "text" for token in tokens):
        return len(tokens) == 1
    glued = re.search(r"\}\s?[-/:.：]\s?\{|\}-|-\{|\}\s?\.\d|[,，。]$", text) is not None and " - " not in text
    names = any(token.kind in {"name", "word", "system"} for token in tokens)
    signs = any(token.kind == "sign" for token in tokens)
    if signs and names:
        return not glued and not _is_prose(tokens)
    is_sum = signs and re.fullmatch(r"[\d\s.+*/()]+", text) is not None and len(tokens) > 2
    return is_sum and re.fullmatch(r"\d+([./]\d+)+", text) is None  # a date or version: 2026/1/31, 1.2.3


def report_joined_words(reader: Reader, condition: str, known: Callable[[str], bool], at: Location) -> None:
    """Record the first text without quotes that may be meant as two: `{sex} == 男或女`."""
    words = (token.text for token in _tokens(condition) if token.kind == "word" and not known(token.text))
    if (found := next(filter(None, map(_JOINED.fullmatch, words)), None)) is not None:
        left, joining, right = found.groups()
        both = f"{left} {'且' if joining.startswith('也') else joining} {right}"
        fix = f"Write `{both}` if two are meant, or put quotes around the text."
        reader.add("VALUE_AMBIGUOUS", f"{shorten(found[0])} is read as one text", at, fix)


def compares(text: str, known: Callable[[str], bool]) -> bool:
    """Return whether a text is a condition that compares variables in braces, not words for a model."""
    return "{" in text and any(sign in text for sign in "=<>!＝＞＜！") and is_computed(text, known)


def is_ambiguous(text: str) -> bool:
    """Return whether a text with a placeholder may be a calculation or a plain text: `{score}/10`, `{a} / {b}`."""
    return _AMBIGUOUS.fullmatch(text.strip()) is not None and "{" in text


def _is_prose(tokens: list[_Token]) -> bool:
    """Return whether a text consists of placeholders with words between them."""
    placeholders = all(token.kind in {"name", "system"} for token in tokens[::2])
    return placeholders and all(token.written.lower() in JOINING for token in tokens[1::2]) and len(tokens) % 2 == 1


def _is_meaning(word: str, known: Callable[[str], bool]) -> bool:
    low = word.lower()
    return known(word) or low in CONSTANTS or low in FUNCTIONS or low in METHODS


class _Parser:
    """A recursive descent parser, from the lowest to the highest precedence."""

    def __init__(self, condition: str, refer: Refer, known: Callable[[str], bool]) -> None:
        self._tokens = list(_tokens(condition))
        if len(self._tokens) > TOKENS_MAX:
            raise ValueError(f"a condition may have at most {TOKENS_MAX:,} tokens")
        self._refer = refer
        self._known = known
        self._next = 0
        self._depth = 0

    def whole(self) -> str:
        if [token.kind for token in self._tokens] == ["word"] and (alone := ALONE.get(self._tokens[0].text.lower())):
            return alone
        if [token.kind for token in self._tokens] == ["text"] and _COMPARES.search(self._tokens[0].text):
            raise ValueError("a condition in quotes is a text, which is always true")
        part = self.either()
        if self._next < len(self._tokens):
            raise ValueError(f"no operator before {shorten(self._tokens[self._next].text)}")
        return part.source

    def ahead(self, offset: int = 0) -> _Token:
        """Return a token from the next one on, without consuming it."""
        index = self._next + offset
        return self._tokens[index] if index < len(self._tokens) else _END

    def peek(self, *signs: str) -> str:
        """Consume the next token if it is one of these signs."""
        token = self.ahead()
        return token.text if token.kind == "sign" and token.text in signs else ""

    def accept_word(self, words: Collection[str]) -> str:
        """Consume the next token if it is one of these words, and return it."""
        found = self.ahead().text.lower() if self.ahead().kind == "word" else ""
        self._next += found in words
        return found if found in words else ""

    def accept(self, *signs: str) -> str:
        found = self.peek(*signs)
        self._next += bool(found)
        return found

    def must(self, sign: str) -> None:
        if not self.accept(sign):
            raise ValueError(f"a {sign} is missing")

    def either(self) -> _Part:
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise ValueError("nested too deeply")
        part = self.read_junction("or", lambda: self.read_junction("and", self.read_negation))
        if self.accept("?"):
            yes = self.either()
            self.must(":")
            part = _Part(f"({yes.source} if {part.source} else {self.either().source})")
        self._depth -= 1
        return part

    def read_junction(self, word: str, inner: Callable[[], _Part]) -> _Part:
        part = inner()
        while self.accept(word):
            part = _Part(f"{part.source} {word} {inner().source}")
        return part

    def read_negation(self) -> _Part:
        times = 0
        while self.accept("not"):
            times += 1
        part = self.read_comparison()
        return _Part("not " * (times % 2 or 2 * bool(times)) + part.source, part.kind if not times else "value")

    def read_comparison(self) -> _Part:
        left = self.sum()
        if self.peek("not") and self.ahead(1).text == "in":
            self._next += 2
            return _Part(f"{left.source} not in {self.collection().source}")
        if word := self.accept_word(TESTS):
            return _comparison(left, TESTS[word], _Part("none", "none"))
        if self.accept_word({"between"}):
            least = self.sum(right=True)
            self.must("and")
            return _Part(f"({left.source} >= {least.source} and {left.source} <= {self.sum(right=True).source})")
        number = ""  # the right side of the comparison before
        while sign := self.accept(*_COMPARISONS):
            if number and sign in {">=", "<=", ">", "<"}:  # `{age} > 12 < 18`, in which 12 is compared with 18
                raise ValueError(f"{sign} compares the number {number} before it; name the variable again")
            right = self.collection() if sign in {"in", "not in"} else self.sum(right=True)
            number = right.source if number_in(right.source) is not None else ""
            if sign in {"==", "!="} and (found := _DIFFERENCE.fullmatch(right.source)) is not None:
                raise ValueError(f"`{right.source}` is the number {float(found[1]) - float(found[2]):g}, not a range")
            left = self.with_alternatives(left, sign, _comparison(left, sign, right))
        return left

    def collection(self) -> _Part:
        """Read what `in` looks in: a list, or a word, which names one; a number or a range contains nothing."""
        begin = self._next
        is_name = self.is_unknown(self.ahead()) and not self.is_unknown(self.ahead(1))
        part = self.sum(right=not is_name)
        written = self._tokens[begin : self._next]
        is_number = {token.kind for token in written if token.kind != "sign"} == {"number"}
        is_difference = any(before.kind == "number" and sign.text == "-" for before, sign in pairwise(written))
        if is_number and (is_difference or written[0].text not in {"[", "("}):
            shown = "".join(token.written or token.text for token in written)
            found = "difference" if is_difference else "number"
            raise ValueError(f"`in {shown}` is never true, because this is a {found}, not a list")
        return part

    def with_alternatives(self, left: _Part, sign: str, first: _Part) -> _Part:
        """Return a comparison, also with the values that `or` adds to its right side: `{sex} == 男 or 女`."""
        source = first.source
        while (word := self.peek(*_ALTERNATIVES.get(sign, ()))) and self.adds_value():
            self._next += 1
            word = "and" if sign in {"!=", "lacks"} else word
            source = f"{source} {word} {_comparison(left, sign, self.primary(right=True)).source}"
        return first if source == first.source else _Part(f"({source})")

    def adds_value(self) -> bool:
        """Return whether a text or number, not a variable, is all that the next token, `and` or `or`, adds."""
        offset = 1
        token = self.ahead(offset)
        while self.is_unknown(self.ahead(offset)) and self.is_unknown(self.ahead(offset + 1)):
            offset += 1
        is_last = self.ahead(offset + 1).kind == "end" or self.ahead(offset + 1).text in {"and", "or", ")"}
        return is_last and (token.kind in {"text", "number", "date"} or self.is_unknown(token))

    def is_unknown(self, token: _Token) -> bool:
        """Return whether a token is a word that is no variable."""
        return token.kind == "word" and not self._known(token.text)

    def sum(self, *, right: bool = False) -> _Part:
        part = self.product(right=right)
        while sign := self.accept("+", "-"):
            if sign == "-" and part.kind == "text":
                part = self.with_hyphen(part)
                continue
            other = self.product()
            joins = sign == "+" and "text" in {part.kind, other.kind}
            part = _Part(f"{part.source} {'~' if joins else sign} {other.source}", "text" if joins else "value")
        return part

    def with_hyphen(self, part: _Part) -> _Part:
        """Return a text without quotes such as `very-good`, of which the part before the hyphen was read."""
        before, after = self.ahead(-2), self.ahead()
        if before.kind != "word" or after.kind not in {"word", "number"}:
            raise ValueError(f"the text that begins with {part.source} needs quotes")
        self._next += 1
        return _Part(_quote(f"{json.loads(part.source)}-{after.text}"), "text")

    def product(self, *, right: bool = False) -> _Part:
        part = self.unary(right=right)
        while sign := self.accept("*", "/", "%"):
            if sign == "%" and part.source.replace(".", "").isdecimal() and self.is_over():
                raise ValueError(f"{part.source}% is not a number; write {float(part.source) / 100:g} or {part.source}")
            part = _Part(f"{part.source} {sign} {self.unary(right=False).source}")
        return part

    def unary(self, *, right: bool) -> _Part:
        if self.accept("-"):
            return _Part(f"-{self.read_postfix(right=False).source}")
        if self.accept("not"):
            return _Part(f"(not {self.read_postfix(right=False).source})")
        self.accept("+")
        return self.read_postfix(right=right)

    def read_postfix(self, *, right: bool) -> _Part:
        part = self.primary(right=right)
        while sign := self.accept(".", "["):
            if sign == "[":
                part = _Part(f"{part.source}[{self.either().source}]")
                self.must("]")
            else:
                part = self.member(part)
        return part

    def member(self, part: _Part) -> _Part:
        name = self.word()
        low = name.lower()
        if not self.accept("("):
            if low in {"length", "size"}:
                return _Part(f"{part.source}|length")
            return _Part(part.source + (f".{name}" if name.isidentifier() else f"[{_quote(name)}]"))
        arguments = self.read_list(")")
        if low in {"includes", "contains", "include", "contain"} and len(arguments) == 1:
            return _Part(f"({arguments[0]} in {part.source})")
        if low in {"tostring", "valueof"} and not arguments:
            return part
        if low not in METHODS:
            raise ValueError(f"{name}() is not supported in a condition")
        if part.kind in {"list", "nothing"}:
            raise ValueError(f"a list has no {name}()")
        return _Part(f"{part.source}.{METHODS[low]}({', '.join(arguments)})")

    def word(self) -> str:
        token = self.ahead()
        if token.kind not in {"word", "number"} and token.text not in {"contains", "in"}:
            raise ValueError("a name is missing after the point")
        self._next += 1
        return token.text

    def read_list(self, end: str, *, right: bool = False) -> list[str]:
        found: list[str] = []
        while not self.accept(end):
            if found:
                self.must(",")
            found.append((self.primary(right=True) if right and self.is_alone() else self.either()).source)
        return found

    def is_over(self) -> bool:
        """Return whether no operand follows."""
        following = self.ahead()
        return following.kind == "end" or (following.kind == "sign" and following.text not in {"(", "[", "-", "not"})

    def is_alone(self) -> bool:
        """Return whether the next token is a word and a whole item of a list, or the first word of one."""
        return self.ahead().kind == "word" and (self.ahead(1).kind == "word" or self.ahead(1).text in {",", ")", "]"})

    def primary(self, *, right: bool) -> _Part:
        if self.accept("("):
            items = self.read_list(")", right=right)
            return _Part(f"({items[0]})") if len(items) == 1 else _Part(f"[{', '.join(items)}]", "list")
        if self.accept("["):
            items = self.read_list("]", right=right)
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
            case "date":
                return _Part(_quote(token.text), "text")
            case "word":
                return self.bare(token.text, right=right)
            case "sign" if right and token.written == "是":  # an answer: {goes_on} == 是
                return _Part(_quote(token.written), "text")
            case _:
                raise ValueError(f"{shorten(token.text)} found in place of a value")

    def text(self, quoted: str) -> _Part:
        """Read a text in quotes, with its placeholders replaced."""
        inner = re.sub(r"\\(.)", r"\1", quoted[1:-1])
        if not inner.strip():
            return _Part('""', "empty")
        source = to_text_expression(inner, self._refer)
        if "{" in inner and source != _quote(inner):
            return _Part(f"({source})" if " ~ " in source else source)
        return _Part(_quote(inner), "text")

    def bare(self, word: str, *, right: bool) -> _Part:
        low = word.lower()
        if word in SCOPES and not self._known(word) and self.accept("."):
            return _Part(self._refer(self.word()))
        is_state = self.ahead(-2).written in {"is", "is not"} and not self.is_unknown(self.ahead())
        if meaning := CONSTANTS.get(low) or (STATES.get(low) if is_state else None):
            return _Part(meaning, meaning if meaning in {"none", "defined"} else "truth")
        if low in FUNCTIONS and self.accept("("):
            arguments = self.read_list(")")
            if len(arguments) != 1:
                raise ValueError(f"{word}() needs one value")
            return _Part(f"({arguments[0]})|{FUNCTIONS[low]}")
        if self.peek("("):
            raise ValueError(f"{word}() is not supported in a condition")
        if not right or self._known(word):
            return _Part(self._refer(word))
        while self.is_unknown(following := self.ahead()) and following.text.lower() not in {*TESTS, "between"}:
            word = f"{word} {following.text}"  # {mood} == very good
            self._next += 1
        return _Part(_quote(word), "text")


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _comparison(left: _Part, sign: str, right: _Part) -> _Part:
    if left.kind in {"empty", "none", "truth", "nothing"} and right.kind == "value" and sign in {"==", "!="}:
        left, right = right, left
    if sign in {"==", "!="}:
        if right.kind == "defined":
            sign, right = ("!=" if sign == "==" else "=="), _Part("none", "none")
        if right.kind in {"empty", "none"}:
            return _Part(f'({left.source}|default("") ~ "") {sign} ""')
        if right.kind == "nothing":
            return _Part(f"({left.source}|default([]))|length {sign} 0")
        truth = right.source.strip('"').lower()
        if left.kind == "value" and (right.kind == "truth" or (right.kind == "text" and truth in {"true", "false"})):
            text = right.source if right.kind == "text" else f'"{truth}"'  # 'true' may be the text or the value
            return _Part(f"{left.source} {'in' if sign == '==' else 'not in'} [{truth}, {text}]")
    match sign:
        case "contains":
            return _Part(f"{right.source} in {left.source}")
        case "lacks":
            return _Part(f"{right.source} not in {left.source}")
        case _:
            return _Part(f"{left.source} {sign} {right.source}")
