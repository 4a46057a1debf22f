"""Fix common YAML errors in files of the stage format, line by line, if the intention is unambiguous.

Only a text that cannot be parsed is changed, and line numbers stay the same. A file with `cuebook:` at the top is in
the native language, which has keys of the same names: its errors are reported where they are.
"""

import re
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from scripts.model.base import Location
from scripts.model.diagnostics import Problem, Problems
from scripts.yaml.parser import FILE_CHARS_MAX, Mapping, Tree, read_tree

_RECOGNISED = re.compile(
    r"^\ufeff?[^\S\n]*(sessions|stages|skills|roles|rules|forms|global|globals)\s*[:：]", re.MULTILINE
)
_NATIVE = re.compile(r"^\ufeff?cuebook\s*[:：]", re.MULTILINE)
_INDENT = re.compile(r"^[ ]*[\t\u00a0\u3000][ \t\u00a0\u3000]*")
_BLOCK = re.compile(
    r"^(?P<indent> *)(?P<dashes>(?:- +)*)(?:[^\s#'\"][^:#]*:|-)?\s*[|>][-+\d]*(?P<glued>#.*)?(?:\s+#.*)?\s*$"
)
_QUOTED = re.compile(r"^(?P<indent> *)(?P<dashes>(?:- +)*)(?:[^\s#'\"][^:#]*:\s+)?(?P<quote>['\"])(?P<text>.*)$")
_CLOSING = {"'": re.compile(r"(?:[^']|'')*'(?!')"), '"': re.compile(r'(?:[^"\\]|\\.)*"')}
_PAIR = re.compile(r"^(?P<head> *(?:- +)*(?:[\w.\-]+ *[:：](?=[\s'\"“{\[]|$) *|(?<=- )))(?P<value>\S.*)$")
_WIDE = re.compile(r"^(?P<head> *(?:- *)*[A-Za-z_]+) *：[ \u3000]*")
_DASH = re.compile(r"^(?P<head> *)-(?=[A-Za-z_]+ *[:：])")
_GLUED = re.compile(r"^(?P<head> *(?:- +)*[A-Za-z_]+):(?=[^\s:/])")
_SLIP = re.compile(
    r"^(?: *(?:-[a-z_]+ *[:：]|(?:- +)?[a-z_]+ *：)|[\u00a0\u3000]+(?:- *)?[a-z_]+ *[:：])", re.MULTILINE
)  # valid YAML, but not the intended structure
_NOTE = re.compile(r"\s+#.*$")
_ODD_START = "{[&*!|>%@`\"'"


class Fixup(Struct, frozen=True):
    """A fixed line, its number, and the mistake."""

    line: int
    message: str
    text: str


def read_repaired(text: str, problems: Problems, *, lenient: bool) -> Tree | None:
    """Parse a text, fixed if necessary and if `lenient` allows it; each fix is then a warning."""
    first = Problems(problems.file)
    tree = read_tree(text, first)
    is_ours = lenient and _is_ours(text)
    if is_ours and (tree is None or _SLIP.search(text) is not None):
        fixed, slips = _fix(text)
        second = Problems(problems.file)
        other = read_tree(fixed, second) if slips else None
        if slips and (other is not None or tree is None):
            tree, first = other, second  # problems to report if the fixed text is not YAML either
            for slip in slips:
                at = Location(slip.line, 1, problems.file)
                problems.add("SYNTAX_ERROR", slip.message, at, fix=f"Write `{slip.text}`.", severity="warning")
    is_older = is_ours and isinstance(tree, Mapping) and tree.get("script") is None
    lines = text.splitlines()
    for problem in first.sorted():
        if is_older and _says_the_same(problem, lines):
            problem = replace(problem, message=f"{problem.message}; the first is used", severity="warning")
        problems.record(problem)
    return tree


def readable(text: str) -> str:
    """Return the text if it is YAML, otherwise the fixed text."""
    if not _is_ours(text):
        return text
    is_yaml = read_tree(text, Problems()) is not None
    if is_yaml and _SLIP.search(text) is None:
        return text
    fixed = _fix(text)[0]
    return text if is_yaml and read_tree(fixed, Problems()) is None else fixed


def _is_ours(text: str) -> bool:
    """Return whether a text is probably in the stage format, and not too long to be fixed."""
    return len(text) <= FILE_CHARS_MAX and bool(_RECOGNISED.search(text)) and not _NATIVE.search(text)


def _says_the_same(problem: Problem, lines: list[str]) -> bool:
    """Return whether a duplicate key has the same value both times, on one line each."""
    other = re.search(r"in line (\d+)", problem.message)
    if problem.code != "DUPLICATE_KEY" or other is None or problem.line > len(lines):
        return False
    first, second = (lines[line - 1].strip().removeprefix("-").strip() for line in (int(other[1]), problem.line))
    return first == second and not first.endswith((":", "|", ">"))


def _fix(text: str) -> tuple[str, list[Fixup]]:
    """Return the fixed text, with tabs of the first width with which it is YAML, and its mistakes."""
    written = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for tab in (4, 2, 8, 2) if "\t" in text else (2,):
        slips: list[Fixup] = []
        fixed = "\n".join(_lines(written, slips, tab))
        if read_tree(fixed, Problems()) is not None:
            break
    return fixed, slips


def _lines(lines: list[str], slips: list[Fixup], tab: int) -> Iterator[str]:
    block = -1  # indentation of the line that a block, or a quoted text of several lines, belongs to
    quote = ""  # of the text
    for number, line in enumerate(lines, 1):
        written = line
        line, tabs = _with_spaces(line, tab)
        indent = len(line) - len(line.lstrip(" "))
        if block >= 0 and (indent > block or not line.strip()):
            if tabs and line.strip() and len(written) - len(written.lstrip(" ")) <= block:
                yield _note(slips, number, line, "it is indented with tabs or wide spaces")
            else:  # wide spaces behind the indentation are part of the text
                yield written if line.strip() else line
            if quote and _CLOSING[quote].match(line):
                block, quote = -1, ""
            continue
        block, quote = -1, ""
        fixed, why = _fixed_line(line)
        why = why or ("this line is indented with tabs or wide spaces" if tabs and line.strip() else "")
        yield _note(slips, number, fixed, why) if why else fixed
        found = _BLOCK.match(fixed)
        if found is None and (found := _QUOTED.match(fixed)) is not None:
            quote = "" if _CLOSING[found["quote"]].match(found["text"]) else found["quote"]
        if found is not None and (quote or found.re is _BLOCK):
            block = len(found["indent"]) + len(found["dashes"])


def _note(slips: list[Fixup], number: int, line: str, why: str) -> str:
    slips.append(Fixup(number, why, line.strip()))
    return line


def _with_spaces(line: str, tab: int) -> tuple[str, bool]:
    found = _INDENT.match(line)
    if found is None:
        return line, False
    return found[0].replace("\u3000", "  ").replace("\u00a0", " ").expandtabs(tab) + line[found.end() :], True


def _fixed_line(line: str) -> tuple[str, str]:
    """Return the fixed line and the mistake, or None if the line is valid."""
    if not line.strip() or line.lstrip().startswith("#"):
        return line, ""
    why = ""
    if (found := _DASH.match(line)) is not None:
        line, why = f"{found['head']}- {line[found.end() :]}", "a space is missing after the dash"
    if (found := _WIDE.match(line)) is not None:
        line, why = f"{found['head']}: {line[found.end() :]}", "full-width ： instead of a plain colon"
    if (found := _GLUED.match(line)) is not None:
        line, why = f"{found['head']}: {line[found.end() :]}", "a space is missing after the colon"
    if (block := _BLOCK.match(line)) is not None:
        if block["glued"]:
            head = line[: block.start("glued")]
            return f"{head} {line[block.start('glued') :]}", "a space is missing before the comment"
        return line, why
    pair = _PAIR.match(line)
    if pair is None or _is_fine(pair["value"], behind_dash=pair["head"].rstrip().endswith("-")):
        return line, why
    note = _NOTE.search(pair["value"])
    value = pair["value"][: note.start()] if note else pair["value"]
    quoted = "'" + _text_in_quotes(value.rstrip()).replace("'", "''") + "'"
    return pair["head"] + quoted + (note[0] if note else ""), "this text needs quotes"


def _text_in_quotes(value: str) -> str:
    """Return the text in quotes that contains such quotes itself: ``'it's fine'``, but not ``"A" or "B"``."""
    quote = value[0]
    is_whole = quote in "\"'" and value[-1] == quote and (value.count(quote) % 2 or value[-2:] == quote * 2)
    return value[1:-1] if is_whole else value


def _is_fine(value: str, *, behind_dash: bool) -> bool:
    """Return whether a value is valid by itself; a value that continues on the next line is not changed."""
    if value[0] not in _ODD_START and ": " not in value and not value.rstrip().endswith(":"):
        return True
    if value[0] in "{[" and not _closes(value):
        return True
    if value[0] in "\"'" and value.count(value[0]) == 1:
        return True
    if value[0] in "&*" and re.fullmatch(r"[&*][\w-]+( .*)?", value):
        return True
    if behind_dash and value[0] not in _ODD_START and re.match(r"[\w.\- ]+:(?: |\s*$)", value):
        return True  # a mapping
    return read_tree(f"k: {value}\n", Problems()) is not None


def _closes(value: str) -> bool:
    """Return whether the brackets at the start of a value are closed on the same line."""
    depth = 0
    for char in value:
        depth += (char in "{[") - (char in "}]")
        if depth == 0:
            return True
    return False
