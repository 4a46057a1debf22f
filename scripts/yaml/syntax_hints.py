"""Explain YAML syntax errors: the probable mistake, its line, and the fix.

The messages of the YAML parser are for programmers, and it detects many mistakes only some lines later. So the lines
around the error are searched for common mistakes, the most reliable patterns first.
"""

import re
from collections.abc import Iterator

import yaml
from msgspec import Struct

from scripts.model.actions import ACTION_TYPES
from scripts.model.languages import action_keys

_WIDE = {"：": ": ", "，": ", ", "【": "[", "】": "]", "｛": "{", "｝": "}", "“": '"', "”": '"', "\u3000": " "}
_WIDE_COLON = re.compile(r"[\s\u3000-]*(?:[^\W]{1,40}：|\u3000|[^\W]{1,40}: *｛(?=\s*\w+\s*[:：]))")
_WIDE_MARK = re.compile(r"(?<=[\w\"'\]}])[：，]|[【】｛｝“”]")
_IN_QUOTES = re.compile(r"\"[^\"]*\"|'[^']*'")
_BLANKS = "\u00a0\u1680\u2000-\u200d\u202f\u205f\u2060\ufeff"
_HIDDEN = re.compile(f"[{_BLANKS}]")
_HIDDEN_WHERE_YAML_LOOKS = re.compile(rf" *(?:-[ ]*)?(?:[^\s:\"'{{\[]{{1,40}}:[ ]*)?(?P<char>[{_BLANKS}])")
_TAB = re.compile(r" *(?:-[ ]*)?(?P<char>\t)")
_BULLET = re.compile(r"\s*(?P<char>[－—–‐−•·●○▪◦＊*+])[ \u3000]*[^\W\d]\w*\s*[:：]")
_DASH_WITHOUT_SPACE = re.compile(r"\s*-(?P<rest>(?:[^\W\d]\w*:(?:\s|$)|[{\[]).*)")
_NO_COLON = re.compile(r"(?P<lead>\s*(?:- +)*)(?P<key>[a-z_]+)(?:(?: *[;=] *| +)(?P<value>[^\s:#].*))?")
_COLON_WITHOUT_SPACE = re.compile(r"\s*(?:- +)?(?P<key>[^\W\d]\w*):(?P<value>[^\s/:].*)")
_KEY = re.compile(r"(?P<lead>\s*(?:- +)*)(?P<key>[^\s:#\"'{}\[\],&*!|>%@`-][^:#\"'{}\[\]]{0,60}?) *:(?P<value>\s.*|$)")
_DASH_BEHIND_KEY = re.compile(r"\s*(?:- +)*(?P<key>[^\W\d]\w*): +(?P<dash>-) (?P<text>.*)")
_ONE_WORD = re.compile(r"[^\W\d]\w*")
_BLOCK_TEXT = re.compile(r":\s+[|>][0-9+-]*\s*(?:#.*)?$")
_FLOW_VALUE = re.compile(r"(?P<key>[^\W\d]\w*): (?P<value>[^\s\"'\[{][^,}\]]*?: [^,}\]]*)")
_BEFORE_BRACKET = re.compile(r".*[{\[, ](?P<key>[^\W\d]\w*): +(?P<value>[^\s\"'][^\"':,]*)")
_COMMENT_IN_FLOW = re.compile(r" (?P<sign>#)[^\n]*[}\]]")
_STARTS_WITH_BRACKET = re.compile(
    r"\s*(?:- +)*(?P<key>[^\W\d]\w*): +(?P<value>(?:\[[^\[\]]*\]|\{\{?[^{}:]*\}\}?)\s*[^\s\]}#].*)"
)
_OPENERS = {"{": "}", "[": "]"}
_SPECIAL = "@`%*&!?|>"
_OUTER_KEYS = {"cuebook", "script", "title", "phases", "phase", "topics", "topic", "actions", "skill", "form", "field"}
_OUTER_KEYS |= {"var", "tool", "detector", "interrupt", "role", "key", "text"}


class SyntaxHint(Struct, frozen=True):
    """A mistake, its location (counted from 1), and its fix."""

    line: int
    column: int
    message: str
    fix: str


def find_hint(text: str, error: yaml.MarkedYAMLError) -> SyntaxHint:
    """Return the mistake that probably caused a syntax error."""
    return _Diagnosis(text, error).hint()


def hidden_character(word: str) -> str:
    """Return the fix for a word that contains an invisible character, or an empty text."""
    found = _HIDDEN.search(word)
    return "" if found is None else f"Delete {_name_character(found[0])} from this word."


def space_missing(text: str) -> str:
    """Return the fix for a text that looks like a key and value without a space, or an empty text."""
    found = _COLON_WITHOUT_SPACE.fullmatch(text)
    return "" if found is None else f"Write a plain space after the colon: `{found['key']}: {found['value'].strip()}`."


class _Diagnosis:
    """A syntax error with the lines around it."""

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
            self._line, self._column = self._opened  # start of the line that has no colon
        self._is_flow = "flow" in self._context

    def hint(self) -> SyntaxHint:
        for look in (
            self._quote, self._character, self._starts_with_bracket, self._no_colon_before_bracket, self._flow,
            self._spaces, self._special, self._block_text, self._list_in_line, self._no_colon, self._colon,
            self._indentation, self._no_key,
        ):  # fmt: skip
            if (found := look()) is not None:
                return found
        fix = "Check this line and the line above it for a missing quote, bracket, colon or dash."
        return SyntaxHint(self._line, self._column, "YAML syntax error", fix)

    def _at(self, number: int) -> str:
        return self._lines[number - 1] if 0 < number <= len(self._lines) else ""

    def _near(self) -> Iterator[tuple[int, str]]:
        """Yield the line of the error, and the last line above it that is neither blank nor a comment."""
        yield self._line, self._at(self._line)
        above = next((n for n in range(self._line - 1, 0, -1) if self._at(n).partition("#")[0].strip()), 0)
        if above:
            yield above, self._at(above)

    # -- quotes -------------------------------------------------------------------------------------------------------

    def _quote(self) -> SyntaxHint | None:
        """Find a quote that is never closed, or a quote inside the text that closes it."""
        if "quoted scalar" in self._context and "escape" not in self._problem:
            return SyntaxHint(*self._opened, "this quote is never closed", "Close the quote at the end of the text.")
        if "escape" in self._problem:
            fix = "Put single quotes around a text that contains a backslash, or double the backslash."
            message = "a backslash starts an escape sequence between double quotes"
            return SyntaxHint(self._line, self._column, message, fix)
        token = self._last_quoted()
        if token is None:
            return None
        start, end = token.start_mark, token.end_mark
        sign = '"' if token.style == '"' else "'"
        if start.line < end.line:
            message = f"this quote is never closed; YAML reads the {sign} in line {end.line + 1} as its end"
            return SyntaxHint(start.line + 1, start.column + 1, message, "Close the quote at the end of the text.")
        other = "single" if token.style == '"' else "double"
        fix = f"Put {other} quotes around the whole text, or write ’ and “ ” inside it."
        return SyntaxHint(end.line + 1, end.column, f"this {sign} ends the text, but more text follows", fix)

    def _last_quoted(self) -> yaml.ScalarToken | None:
        """Return the quoted text directly before the error."""
        last: yaml.Token | None = None
        try:
            for token in yaml.scan(self._text, Loader=yaml.CSafeLoader):
                if (token.start_mark.line + 1, token.start_mark.column + 1) >= (self._line, self._column):
                    break
                last = token
        except yaml.YAMLError:
            pass  # the tokens before the error are all that is needed
        is_quoted = isinstance(last, yaml.ScalarToken) and last.style in ('"', "'")
        if not isinstance(last, yaml.ScalarToken) or not is_quoted or last.end_mark.line + 1 != self._line:
            return None
        between = self._at(self._line)[last.end_mark.column : self._column - 1]
        follows = self._at(self._line)[last.end_mark.column :].strip()
        return last if not between.strip() and follows and follows[0] not in ",:]}#，：】｝" else None

    # -- characters ---------------------------------------------------------------------------------------------------

    def _character(self) -> SyntaxHint | None:
        """Find a character that looks like YAML syntax but is another character, or lines of other formats."""
        for number, written in self._near():
            if written.lstrip().startswith("//"):
                return SyntaxHint(number, _indent(written) + 1, "a comment begins with #, not with //", "Write `#`.")
            if written.startswith("```"):
                fix = "Remove the lines that begin with ```."
                return SyntaxHint(number, 1, "``` marks code in a chat or a document; a script has no such line", fix)
            if (found := _TAB.match(written)) is not None:
                fix = "Use spaces; YAML does not allow tabs here."
                return SyntaxHint(number, found.start("char") + 1, "unexpected tab", fix)
            if (found := _HIDDEN_WHERE_YAML_LOOKS.match(written)) is not None:
                message = f"{_name_character(found['char'])} looks like a space, but YAML reads it as a letter"
                return SyntaxHint(number, found.start("char") + 1, message, "Replace it with a plain space.")
            if (found := _BULLET.match(written)) is not None:
                message = f"a list item cannot start with {found['char']}"
                return SyntaxHint(number, found.start("char") + 1, message, "Write a plain - followed by a space.")
            if (found := _wide(written)) is not None and _STARTS_WITH_BRACKET.fullmatch(written) is None:
                char = found[0][-1]
                fix = f"Write a plain {_WIDE[char]!r} instead."
                return SyntaxHint(number, found.end(), f"full-width {char} in place of YAML syntax", fix)
        return None

    def _spaces(self) -> SyntaxHint | None:
        """Find a dash or colon without a space after it."""
        for number, written in self._near():
            if (found := _DASH_WITHOUT_SPACE.fullmatch(written)) is not None:
                fix = f"Write `- {found['rest'].strip()}`."
                return SyntaxHint(number, found.start("rest"), "a space is missing after the dash", fix)
            found = _COLON_WITHOUT_SPACE.fullmatch(written)
            if found is not None and not self._is_flow:
                column = found.start("value")
                return SyntaxHint(number, column, "a space is missing after the colon", space_missing(written))
        return None

    def _special(self) -> SyntaxHint | None:
        """Find an unquoted text that starts with a character reserved by YAML."""
        signs = ("any token", "an alias", "an anchor", "mapping keys are not", "a directive", "block scalar")
        if not any(each in f"{self._problem} {self._context}" for each in signs):
            return None
        written = self._at(self._line)
        for begin in range(min(self._column, len(written)) - 1, -1, -1):
            before = written[:begin]
            if written[begin] in _SPECIAL and (not before.strip() or before[-1:] in " ,[{"):
                fix = f'Put quotes around the text: "{written[begin:].strip()[:40]}".'
                return SyntaxHint(self._line, begin + 1, f"a text that starts with {written[begin]} needs quotes", fix)
        return None

    # -- brackets -----------------------------------------------------------------------------------------------------

    def _flow(self) -> SyntaxHint | None:
        """Find a text inside brackets that needs quotes, or an unmatched bracket."""
        written = self._at(self._line)
        if not self._is_flow:
            here = written[self._column - 1 : self._column]
            if here in ("}", "]") and "document start" not in self._problem:
                return SyntaxHint(self._line, self._column, f"this {here} has no opening bracket", "Remove it.")
            return None
        is_next = self._line > self._opened[0]
        if (comma := self._no_comma(written)) is not None:
            return comma
        if written[self._column - 1 : self._column] in _OPENERS.values():
            return self._hint_unclosed()  # another bracket is closed here
        if is_next and (not written.strip() or re.match(r"\s*(?:- |[^\W\d]\w*: )", written)):
            return self._hint_unclosed()
        return self._hint_unquoted(written) or (
            self._hint_unclosed() if is_next or self._column > len(written) else None
        )

    def _no_comma(self, written: str) -> SyntaxHint | None:
        """Find two items of a list, each in brackets of its own, without a comma between them."""
        begins = written[self._column - 1 : self._column] in _OPENERS and "flow sequence" in self._context
        line, item = self._line, written[: self._column - 1].rstrip()
        if not item:
            line, item = list(self._near())[-1]
        if not begins or item.rstrip()[-1:] not in _OPENERS.values():
            return None
        return SyntaxHint(line, len(item.rstrip()), "a comma is missing after this item", "Write a comma after it.")

    def _starts_with_bracket(self) -> SyntaxHint | None:
        """Find an unquoted text that starts with a placeholder or a list, which YAML reads as all of the value."""
        for number, written in self._near():
            if (found := _STARTS_WITH_BRACKET.fullmatch(written)) is not None:
                return _quotes(number, found, f"a text that starts with {found['value'][0]} needs quotes")
        return None

    def _hint_unclosed(self) -> SyntaxHint:
        line, column = self._opened
        written = self._at(line)
        sign = written[column - 1 : column]
        if (comment := _COMMENT_IN_FLOW.search(written, column)) is not None:
            message = f"` #` begins a comment, so this {sign} is never closed"
            fix = "Put the value in quotes, or write the mapping over several lines."
            return SyntaxHint(line, comment.start("sign") + 1, message, fix)
        close = _OPENERS.get(sign, "}")
        return SyntaxHint(line, column, f"this {sign or 'bracket'} is never closed", f"Write {close} where it ends.")

    def _hint_unquoted(self, written: str) -> SyntaxHint | None:
        braces = re.search(
            r"(?P<key>[^\W\d]\w*): (?P<value>[^\s\"',{\[][^\"',{]*\{\{.*?\}\}[^,}\]]*|\{\{.*?\}\}[^,}\]]*)", written
        )
        if braces is not None:
            return _quotes(self._line, braces, "a text with {{ }} inside { } or [ ] needs quotes")
        if (colon := _FLOW_VALUE.search(written)) is not None:
            return _quotes(self._line, colon, "a text with a colon inside { } or [ ] needs quotes")
        return self._brackets(written)

    def _brackets(self, written: str) -> SyntaxHint | None:
        """Find a text with brackets, such as a pattern: the error is at the first bracket that is not its start."""
        before = _BEFORE_BRACKET.fullmatch(written[: self._column - 1])
        if before is None or written[self._column - 1 : self._column] not in _OPENERS:
            return None
        begin = before.start("value")
        text = written[begin : _end_of_value(written, begin, "{[", "}]")].strip()
        fix = f'Put quotes around it: {before["key"]}: "{_short(text)}".'
        return SyntaxHint(self._line, begin + 1, "a text with brackets inside { } or [ ] needs quotes", fix)

    # -- lines --------------------------------------------------------------------------------------------------------

    def _block_text(self) -> SyntaxHint | None:
        """Find a text below `|` or `>` that is not indented more than its key."""
        for number in range(self._line, 0, -1):
            written = self._at(number)
            if number < self._line and _BLOCK_TEXT.search(written):
                key = _KEY.match(written)
                first = next((n for n in range(number + 1, len(self._lines) + 1) if self._at(n).strip()), number)
                wanted = len(key["lead"]) + 3 if key is not None else 3
                if _indent(self._at(first)) >= wanted - 2 + 1:
                    return None
                fix = f"Indent each line of the text to column {wanted} or further right."
                message = f"the text below line {number} is not indented enough"
                return SyntaxHint(first, _indent(self._at(first)) + 1, message, fix)
            if number < self._line and _KEY.match(written):
                return None
        return None

    def _list_in_line(self) -> SyntaxHint | None:
        """Find a dash in the line of a key."""
        found = _DASH_BEHIND_KEY.match(self._at(self._line))
        if found is None or "block sequence entries are not allowed" not in self._problem:
            return None
        key, text = found["key"], _short(found["text"].strip())
        fix = f'Write each item on a line of its own below `{key}:`, or put quotes around a text: {key}: "- {text}".'
        return SyntaxHint(self._line, found.start("dash") + 1, "a list cannot begin in the line of its key", fix)

    def _no_colon(self) -> SyntaxHint | None:
        """Find an action, or another key, without its colon: the next line seems to continue its text."""
        is_continued = "mapping values are not allowed" in self._problem
        if not is_continued and "expected ':'" not in self._problem:
            return None
        number, written = list(self._near())[-1] if is_continued else (self._line, self._at(self._line))
        found = None if ": " in f"{written} " else _NO_COLON.fullmatch(written)
        if found is not None and is_continued and found["lead"]:
            below_key = self._at(number - 1).rstrip().endswith(":")
            is_text = ("-" not in found["lead"] and not below_key) or self._at(self._line).lstrip().startswith("- ")
            found = None if is_text else found  # a text may begin with such a word
        return self._without_colon(number, found)

    def _no_colon_before_bracket(self) -> SyntaxHint | None:
        """Find a key without its colon before a mapping or list in brackets."""
        found = _NO_COLON.fullmatch(self._at(self._line))
        return self._without_colon(self._line, found) if found and (found["value"] or "")[:1] in _OPENERS else None

    def _without_colon(self, line: int, found: re.Match[str] | None) -> SyntaxHint | None:
        if found is None or found["key"] not in {*ACTION_TYPES, *action_keys(), *_OUTER_KEYS}:
            return None
        correct = f"{found['lead'].lstrip()}{found['key']}: {found['value'] or ''}".strip()
        message = f"a colon is missing after `{found['key']}`"
        return SyntaxHint(line, found.end("key") + 1, message, f"Write `{correct}`.")

    def _colon(self) -> SyntaxHint | None:
        """Find a colon in an unquoted text."""
        if "mapping values are not allowed" not in self._problem:
            return None
        written = self._at(self._line)
        before = written[: self._column - 1]
        found = _KEY.match(written)
        if found is not None and found.end("key") < self._column - 1 and ":" in before:
            value = found["value"].strip()
            if value.endswith(":") and not written[self._column :].strip():
                fix = f'Remove the colon at the end, or put quotes around a text: {found["key"]}: "{_short(value)}".'
                return SyntaxHint(self._line, self._column, "a second colon in one line", fix)
            curly = " YAML does not accept the curly quotes “ ”." if "“" in value or "”" in value else ""
            fix = f'Put quotes around the text: {found["key"]}: "{_short(value)}".{curly}'
            return SyntaxHint(self._line, self._column, 'a text that contains ": " needs quotes around it', fix)
        word = before.strip()
        if not word.startswith("-") and _ONE_WORD.fullmatch(word) is None:
            fix = "Put quotes around the whole text, or write it below `|`, indented more than its key."
            message = 'this line continues the text above, and a text that contains ": " needs quotes'
            return SyntaxHint(self._line, self._column, message, fix)
        return None

    def _indentation(self) -> SyntaxHint | None:
        """Find a line whose indentation matches no line above it."""
        first = next(
            (n for n, each in enumerate(self._lines, 1) if each.strip() and not each.lstrip().startswith("#")), 1
        )
        if "document start" in self._problem and _indent(self._at(first)):
            column = _indent(self._at(first)) + 1
            return SyntaxHint(first, column, "the first line is indented", "Start it in column 1.")
        written = self._at(self._line)
        begin = _indent(written)
        is_item = written.lstrip().startswith("- ") or written.strip() == "-"
        if not is_item and _KEY.match(written) is None and not written.lstrip().startswith("{"):
            return None
        above = list(self._near())[-1][1]
        if not is_item and above.lstrip().startswith("- {") and begin == _indent(above) + 2:
            message = "a dash is missing at the beginning of the line"
            return SyntaxHint(self._line, begin + 1, message, f"Write `- {_short(written.strip())}`.")
        if is_item and (undashed := self._first_without_dash(begin)) is not None:
            return undashed
        levels = list(self._levels(self._line))
        name = written.strip().removeprefix("- ").partition(":")[0]
        item = next((number for column, dash, number in levels if column == begin and dash), 0)
        if not is_item and item:
            action = self._at(item).strip().removeprefix("- ").partition(":")[0]
            if name in action_keys() and action in ACTION_TYPES:
                message = f"wrong indentation: `{name}` is in column {begin + 1}"
                column = self._at(item).index(action) + 1
                fix = f"Start `{name}` in column {column}, below `{action}` of line {item}."
                return SyntaxHint(self._line, begin + 1, message, fix)
            message, fix = f"a dash is missing before `{name}`", f"Write `- {written.strip()}`."
            return SyntaxHint(self._line, begin + 1, message, fix)
        fitting = [level for level in levels if level[1] == is_item]
        if not fitting or any(level[0] == begin for level in fitting):
            return None
        column, _, number = min(fitting, key=lambda level: abs(level[0] - begin))
        under = self._at(number).strip().removeprefix("- ").partition(":")[0]
        what, above = ("the dash", "the one") if is_item else (f"`{name}`", f"`{under}`")
        fix = f"Start {what} in column {column + 1}, below {above} of line {number}."
        return SyntaxHint(self._line, begin + 1, f"wrong indentation: {what} is in column {begin + 1}", fix)

    def _first_without_dash(self, column: int) -> SyntaxHint | None:
        """Find the first item of a list that has no dash, unlike a later one, which starts in this column."""
        first = self._line
        for number in range(self._line - 1, 0, -1):
            written = self._at(number)
            if not written.strip() or written.lstrip().startswith("#"):
                continue
            is_undashed = _indent(written) == column and not written.lstrip().startswith("- ")
            if _indent(written) <= column and not (is_undashed and not written.rstrip().endswith(":")):
                is_list = _indent(written) < column and written.rstrip().endswith(":")
                break
            first = number
        else:
            return None
        item = self._at(first)
        is_content = _KEY.match(item) is not None or item.lstrip().startswith("{")
        if not is_list or first == self._line or item.lstrip().startswith("- ") or not is_content:
            return None
        name = item.strip().lstrip("{ ").partition(":")[0]
        fix = f"Write `- {item.strip()}` with the dash in column {column + 1}."
        return SyntaxHint(first, _indent(item) + 1, f"a dash is missing before `{name}`", fix)

    def _levels(self, below: int) -> Iterator[tuple[int, bool, int]]:
        """Yield the columns in which a line may start, whether a dash is there, and the line that defines it."""
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

    def _no_key(self) -> SyntaxHint | None:
        """Find a line that is neither a list item nor a key."""
        written = self._at(self._line)
        if "expected ':'" not in self._problem and (_KEY.match(written) or written.lstrip().startswith("-")):
            return None
        if not written.strip():
            return None
        fix = "Indent it further if it continues the text above; otherwise add a key and a colon."
        message = "this line is neither `key: value` nor an item with a dash"
        return SyntaxHint(self._line, _indent(written) + 1, message, fix)


def _indent(written: str) -> int:
    return len(written) - len(written.lstrip(" "))


def _end_of_value(written: str, begin: int, opening: str, closing: str) -> int | None:
    """Return the end of a value inside braces: a comma or closing bracket that is not within brackets of its own."""
    depth = 0
    for at in range(begin, len(written)):
        if depth == 0 and written[at] in ",}]":
            return at
        depth += (written[at] in opening) - (written[at] in closing)
    return None


def _wide(written: str) -> re.Match[str] | None:
    """Find Chinese punctuation in place of YAML syntax."""
    if (colon := _WIDE_COLON.match(written)) is not None or not {"{", "["} & set(written):
        return colon
    return _WIDE_MARK.search(_IN_QUOTES.sub(lambda quoted: '"' * len(quoted[0]), written))


def _name_character(char: str) -> str:
    return "a no-break space" if char in "\u00a0\u202f" else "an invisible character"


def _quotes(line: int, found: re.Match[str], message: str) -> SyntaxHint:
    begin = found.start("value")
    end = _end_of_value(found.string, begin, "{[(", "}])")
    value = found.string[begin : max(end or 0, found.end("value"))]
    fix = f'Put quotes around it: {found["key"]}: "{_short(value.strip())}".'
    return SyntaxHint(line, begin + 1, message, fix)


def _short(text: str) -> str:
    text = text.replace('"', "'")
    return text if len(text) <= 60 else text[:59] + "…"
