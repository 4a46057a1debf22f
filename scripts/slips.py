"""Where a text is no YAML: what its author probably did, in which line, and the cure.

YAML's own words are for programmers, and it notices many slips only lines later. So the lines around the place where
it could not read on are looked at for the usual slips, the surest first.
"""

import re
from collections.abc import Iterator

import yaml
from msgspec import Struct

_WIDE = {"：": ": ", "，": ", ", "【": "[", "】": "]", "｛": "{", "｝": "}", "“": '"', "”": '"', "\u3000": " "}
_WIDE_COLON = re.compile(r"[\s\u3000-]*(?:[^\W]{1,40}：|\u3000)")
_WIDE_MARK = re.compile(r"(?<=[\w\"'\]}])[：，]|[【】｛｝“”]")
_BLANKS = "\u00a0\u1680\u2000-\u200d\u202f\u205f\u2060\ufeff"
_HIDDEN = re.compile(f"[{_BLANKS}]")
_HIDDEN_WHERE_YAML_LOOKS = re.compile(rf" *(?:-[ ]*)?(?:[^\s:\"'{{\[]{{1,40}}:[ ]*)?(?P<char>[{_BLANKS}])")
_TAB = re.compile(r" *(?:-[ ]*)?(?P<char>\t)")
_BULLET = re.compile(r"\s*(?P<char>[－—–‐−•·●○▪◦＊*+])[ \u3000]*[^\W\d]\w*\s*[:：]")
_DASH_WITHOUT_SPACE = re.compile(r"\s*-(?P<rest>[^\W\d]\w*:(?:\s|$).*)")
_COLON_WITHOUT_SPACE = re.compile(r"\s*(?:- +)?(?P<key>[^\W\d]\w*):(?P<value>[^\s/:].*)")
_KEY = re.compile(r"(?P<lead>\s*(?:- +)*)(?P<key>[^\s:#\"'{}\[\],&*!|>%@`-][^:#\"'{}\[\]]{0,60}?) *:(?P<value>\s.*|$)")
_ONE_WORD = re.compile(r"[^\W\d]\w*")
_BLOCK_TEXT = re.compile(r":\s+[|>][0-9+-]*\s*(?:#.*)?$")
_FLOW_VALUE = re.compile(r"(?P<key>[^\W\d]\w*): (?P<value>[^\s\"'\[{][^,}\]]*?: [^,}\]]*)")
_OPENERS = {"{": "}", "[": "]"}
_SPECIAL = "@`%*&!?|>"


class Slip(Struct, frozen=True):
    """What is wrong, where (counted from 1), and how it is put right."""

    line: int
    column: int
    message: str
    fix: str


def slip_at(text: str, error: yaml.MarkedYAMLError) -> Slip:
    """The slip that probably made YAML stop."""
    return _Diagnosis(text, error).slip()


def hidden_character(word: str) -> str:
    """What to say of a word that holds a character nobody sees; empty where there is none."""
    found = _HIDDEN.search(word)
    return "" if found is None else f"Delete {_named(found[0])} that stands in this word."


def space_missing(text: str) -> str:
    """What to say of a text that was to be a key with its value; empty where it looks like none."""
    found = _COLON_WITHOUT_SPACE.fullmatch(text)
    if found is None:
        return ""
    return f"Write a plain space after the colon: `{found['key']}: {found['value'].strip()}`."


class _Diagnosis:
    """One error, with the lines around it."""

    def __init__(self, text: str, error: yaml.MarkedYAMLError) -> None:
        self._text = text
        self._lines = text.splitlines()
        self._problem = error.problem or ""
        self._context = error.context or ""
        mark = error.problem_mark or error.context_mark
        self._line, self._column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        opened = error.context_mark or mark
        self._opened = (opened.line + 1, opened.column + 1) if opened else (1, 1)
        if "expected ':'" in self._problem:
            self._line, self._column = self._opened  # where the line begins that has no colon
        self._is_flow = "flow" in self._context

    def slip(self) -> Slip:
        for look in (
            self._quote, self._character, self._flow, self._spaces, self._special, self._block_text, self._colon,
            self._indentation, self._no_key,
        ):  # fmt: skip
            found = look()
            if found is not None:
                return found
        fix = "Look for a quote, bracket, colon or dash that is missing, here and in the line above."
        return Slip(self._line, self._column, "YAML cannot read on from here", fix)

    def _at(self, number: int) -> str:
        return self._lines[number - 1] if 0 < number <= len(self._lines) else ""

    def _near(self) -> Iterator[tuple[int, str]]:
        """The line where YAML stopped, and the last one above it that is not blank."""
        yield self._line, self._at(self._line)
        above = next((number for number in range(self._line - 1, 0, -1) if self._at(number).strip()), 0)
        if above:
            yield above, self._at(above)

    # -- quotes -------------------------------------------------------------------------------------------------------

    def _quote(self) -> Slip | None:
        """A quote that is never closed, or closed by one that was to be part of the text."""
        if "quoted scalar" in self._context and "escape" not in self._problem:
            return Slip(*self._opened, "this quote is never closed", "Close the quote at the end of the text.")
        if "escape" in self._problem:
            fix = "Put single quotes around a text that has a backslash in it, or double the backslash."
            return Slip(self._line, self._column, "a backslash has a meaning of its own between double quotes", fix)
        token = self._last_quoted()
        if token is None:
            return None
        start, end = token.start_mark, token.end_mark
        sign = '"' if token.style == '"' else "'"
        if start.line < end.line:
            message = f"this quote is never closed; YAML takes the {sign} in line {end.line + 1} for its end"
            return Slip(start.line + 1, start.column + 1, message, "Close the quote at the end of the text.")
        other = "single" if token.style == '"' else "double"
        fix = f"Put {other} quotes around the whole text, or write ’ and “ ” inside it."
        return Slip(end.line + 1, end.column, f"this {sign} ends the text, and more of it follows", fix)

    def _last_quoted(self) -> yaml.ScalarToken | None:
        """The quoted text right behind which YAML stopped."""
        last: yaml.Token | None = None
        try:
            for token in yaml.scan(self._text, Loader=yaml.CSafeLoader):
                if token.start_mark.line + 1 > self._line or (
                    token.start_mark.line + 1 == self._line and token.start_mark.column + 1 >= self._column
                ):
                    break
                last = token
        except yaml.YAMLError:
            pass  # where scanning stops as parsing did, the tokens up to there are what is wanted
        if (
            not isinstance(last, yaml.ScalarToken)
            or last.style not in ('"', "'")
            or last.end_mark.line + 1 != self._line
        ):
            return None
        between = self._at(self._line)[last.end_mark.column : self._column - 1]
        follows = self._at(self._line)[last.end_mark.column :].strip()
        return last if not between.strip() and follows and follows[0] not in ",:]}#，：】｝" else None

    # -- characters ---------------------------------------------------------------------------------------------------

    def _character(self) -> Slip | None:
        """A character that looks like one of YAML's, and is none."""
        for number, written in self._near():
            found = _TAB.match(written)
            if found is not None:
                return Slip(
                    number, found.start("char") + 1, "a tab stands here", "Use spaces; YAML takes no tabs here."
                )
            found = _HIDDEN_WHERE_YAML_LOOKS.match(written)
            if found is not None:
                message = f"{_named(found['char'])} stands here; it looks like a space, and YAML takes it for a letter"
                return Slip(number, found.start("char") + 1, message, "Delete it, and type a plain space.")
            found = _BULLET.match(written)
            if found is not None:
                message = f"a list item does not begin with {found['char']}"
                return Slip(number, found.start("char") + 1, message, "Write a plain - and a space.")
            found = _wide(written)
            if found is not None:
                char = found[0][-1]
                fix = f"YAML knows only the plain {_WIDE[char]!r}; write that."
                return Slip(number, found.end(), f"a full-width {char} stands here", fix)
        return None

    def _spaces(self) -> Slip | None:
        """A dash or colon without the space behind it."""
        for number, written in self._near():
            found = _DASH_WITHOUT_SPACE.fullmatch(written)
            if found is not None:
                fix = f"Write `- {found['rest'].strip()}`."
                return Slip(number, found.start("rest"), "a space is missing after the dash", fix)
            found = _COLON_WITHOUT_SPACE.fullmatch(written)
            if found is not None and not self._is_flow:
                column = found.start("value")
                return Slip(number, column, "a space is missing after the colon", space_missing(written))
        return None

    def _special(self) -> Slip | None:
        """A text that begins with a sign that means something to YAML."""
        signs = ("any token", "an alias", "an anchor", "mapping keys are not", "a directive", "block scalar")
        if not any(each in f"{self._problem} {self._context}" for each in signs):
            return None
        written = self._at(self._line)
        for begin in range(min(self._column, len(written)) - 1, -1, -1):
            before = written[:begin]
            if written[begin] in _SPECIAL and (not before.strip() or before[-1:] in " ,[{"):
                fix = f'Put quotes around the text: "{written[begin:].strip()[:40]}".'
                message = f"a text that begins with {written[begin]} needs quotes"
                return Slip(self._line, begin + 1, message, fix)
        return None

    # -- brackets -----------------------------------------------------------------------------------------------------

    def _flow(self) -> Slip | None:
        """Inside brackets: a text that needs quotes, or a bracket without its other half."""
        written = self._at(self._line)
        if not self._is_flow:
            here = written[self._column - 1 : self._column]
            if here in ("}", "]") and "document start" not in self._problem:
                return Slip(self._line, self._column, f"this {here} closes nothing", "Remove it.")
            return None
        is_next = self._line > self._opened[0]
        if is_next and (not written.strip() or re.match(r"\s*(?:- |[^\W\d]\w*: )", written)):
            return self._unclosed()
        return self._unquoted(written) or (self._unclosed() if is_next or self._column > len(written) else None)

    def _unclosed(self) -> Slip:
        line, column = self._opened
        sign = self._at(line)[column - 1 : column]
        close = _OPENERS.get(sign, "}")
        return Slip(line, column, f"this {sign or 'bracket'} is never closed", f"Write {close} where it ends.")

    def _unquoted(self, written: str) -> Slip | None:
        braces = re.search(
            r"(?P<key>[^\W\d]\w*): (?P<value>[^\s\"',][^\"',{]*\{\{.*?\}\}[^,}\]]*|\{\{.*?\}\}[^,}\]]*)", written
        )
        if braces is not None:
            return _quotes(self._line, braces, "a text with {{ }} inside { } or [ ] needs quotes")
        colon = _FLOW_VALUE.search(written)
        return (
            None if colon is None else _quotes(self._line, colon, "a text with a colon inside { } or [ ] needs quotes")
        )

    # -- lines --------------------------------------------------------------------------------------------------------

    def _block_text(self) -> Slip | None:
        """A text below `|` or `>` that begins no further right than the key."""
        for number in range(self._line, 0, -1):
            written = self._at(number)
            if number < self._line and _BLOCK_TEXT.search(written):
                key = _KEY.match(written)
                first = next((n for n in range(number + 1, len(self._lines) + 1) if self._at(n).strip()), number)
                wanted = len(key["lead"]) + 3 if key is not None else 3
                if _indent(self._at(first)) >= wanted - 2 + 1:
                    return None
                fix = f"Begin each line of it in column {wanted} or further right."
                return Slip(
                    first, _indent(self._at(first)) + 1, f"the text below line {number} begins too far left", fix
                )
            if number < self._line and _KEY.match(written):
                return None
        return None

    def _colon(self) -> Slip | None:
        """A colon in a text without quotes."""
        if "mapping values are not allowed" not in self._problem:
            return None
        written = self._at(self._line)
        before = written[: self._column - 1]
        found = _KEY.match(written)
        if found is not None and found.end("key") < self._column - 1 and ":" in before:
            value = found["value"].strip()
            curly = " The curly quotes “ ” are none to YAML." if "“" in value or "”" in value else ""
            fix = f'Put quotes around the text: {found["key"]}: "{_short(value)}".{curly}'
            return Slip(self._line, self._column, 'a text that contains ": " needs quotes around it', fix)
        word = before.strip()
        if not word.startswith("-") and _ONE_WORD.fullmatch(word) is None:
            fix = "Put quotes around the whole text, or write it below `|`, further right than its key."
            message = 'the text of the line above goes on here, and a text that contains ": " needs quotes'
            return Slip(self._line, self._column, message, fix)
        return None

    def _indentation(self) -> Slip | None:
        """A line that begins where nothing above it begins."""
        first = next(
            (n for n, each in enumerate(self._lines, 1) if each.strip() and not each.lstrip().startswith("#")), 1
        )
        if "document start" in self._problem and _indent(self._at(first)):
            column = _indent(self._at(first)) + 1
            return Slip(first, column, "the first line is indented", "Begin it in column 1.")
        written = self._at(self._line)
        begin = _indent(written)
        is_item = written.lstrip().startswith("- ") or written.strip() == "-"
        if not is_item and _KEY.match(written) is None:
            return None
        levels = list(self._levels(self._line))
        name = written.strip().removeprefix("- ").partition(":")[0]
        if not is_item and any(column == begin and dash for column, dash, _ in levels):
            message, fix = f"a dash is missing before `{name}`", f"Write `- {written.strip()}`."
            return Slip(self._line, begin + 1, message, fix)
        fitting = [level for level in levels if level[1] == is_item]
        if not fitting or any(level[0] == begin for level in fitting):
            return None
        column, _, number = min(fitting, key=lambda level: abs(level[0] - begin))
        under = self._at(number).strip().removeprefix("- ").partition(":")[0]
        what, above = ("the dash", "the one") if is_item else (f"`{name}`", f"`{under}`")
        fix = f"Begin {what} in column {column + 1}, under {above} of line {number}."
        return Slip(self._line, begin + 1, f"this line is indented wrongly: {what} stands in column {begin + 1}", fix)

    def _levels(self, below: int) -> Iterator[tuple[int, bool, int]]:
        """The columns in which a line may begin: each with whether a dash stands there, and the line that shows it."""
        least = 1_000
        for number in range(below - 1, 0, -1):
            written = self._at(number)
            if not written.strip() or written.lstrip().startswith("#") or _indent(written) >= least:
                continue
            key = _KEY.match(written)
            dash = written.lstrip().startswith("- ")
            if key is None and not dash:
                continue
            start = _indent(written)
            inner = len(key["lead"]) if key is not None else start + 2
            if dash:
                if inner < least:
                    yield inner, False, number
                yield start, True, number
            else:
                yield start, False, number
            least = start

    def _no_key(self) -> Slip | None:
        """A line that is neither an item nor a key."""
        written = self._at(self._line)
        if "expected ':'" not in self._problem and (_KEY.match(written) or written.lstrip().startswith("-")):
            return None
        if not written.strip():
            return None
        fix = "Begin it further right if the text above goes on here; else give it a key and a colon."
        return Slip(self._line, _indent(written) + 1, "this line is neither `key: value` nor an item with a dash", fix)


def _indent(written: str) -> int:
    return len(written) - len(written.lstrip(" "))


def _wide(written: str) -> re.Match[str] | None:
    """Chinese punctuation where YAML needs its own."""
    return _WIDE_COLON.match(written) or (_WIDE_MARK.search(written) if "{" in written or "[" in written else None)


def _named(char: str) -> str:
    return "a no-break space" if char in "\u00a0\u202f" else "an invisible character"


def _quotes(line: int, found: re.Match[str], message: str) -> Slip:
    fix = f'Put quotes around it: {found["key"]}: "{_short(found["value"].strip())}".'
    return Slip(line, found.start("value") + 1, message, fix)


def _short(text: str) -> str:
    text = text.replace('"', "'")
    return text if len(text) <= 60 else text[:59] + "…"
