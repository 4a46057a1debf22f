"""YAML that is not quite YAML, as the stage form is often written: mended line by line where its meaning is plain.

Only a text that cannot be read as it stands is touched, and lines keep their numbers.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from scripts.diagnostics import Problem, Problems
from scripts.nodes import Location
from scripts.source import FILE_CHARS_MAX, Mapping, Tree, read_tree

_RECOGNISED = re.compile(r"^\ufeff?\s*(sessions|stages|skills|roles|rules|forms|global|globals)\s*[:：]", re.MULTILINE)
_INDENT = re.compile(r"^[ ]*[\t\u00a0\u3000][ \t\u00a0\u3000]*")
_BLOCK = re.compile(
    r"^(?P<indent> *)(?P<dashes>(?:- +)*)(?:[^\s#'\"][^:#]*:|-)?\s*[|>][-+\d]*(?P<glued>#.*)?(?:\s+#.*)?\s*$"
)
_PAIR = re.compile(r"^(?P<head> *(?:- +)*(?:[\w.\-]+ *[:：](?=[\s'\"“{\[]|$) *|(?<=- )))(?P<value>\S.*)$")
_WIDE = re.compile(r"^(?P<head> *(?:- *)*[A-Za-z_]+) *：[ \u3000]*")
_DASH = re.compile(r"^(?P<head> *)-(?=[A-Za-z_]+ *[:：])")
_GLUED = re.compile(r"^(?P<head> *(?:- +)*[A-Za-z_]+):(?=[^\s:/])")
_SLIP = re.compile(r"^ *(?:-[a-z_]+ *[:：]|(?:- +)?[a-z_]+ *：)", re.MULTILINE)  # is YAML, but not what was meant
_NOTE = re.compile(r"\s+#.*$")
_ODD_START = "{[&*!|>%@`\"'"


class Slip(Struct, frozen=True):
    """A line that was mended, and how."""

    line: int
    message: str


def read_repaired(text: str, problems: Problems, *, lenient: bool) -> Tree | None:
    """The tree of a text, mended where it takes that and `lenient` allows it; each slip is then a warning."""
    first = Problems(problems.file)
    tree = read_tree(text, first)
    is_ours = lenient and len(text) <= FILE_CHARS_MAX and _RECOGNISED.search(text) is not None
    if is_ours and (tree is None or _SLIP.search(text) is not None):
        mended, slips = _mended(text)
        second = Problems(problems.file)
        other = read_tree(mended, second) if slips else None
        if slips and (other is not None or tree is None):
            tree, first = other, second  # what is left to tell, where that is no YAML either
            for slip in slips:
                at = Location(slip.line, 1, problems.file)
                problems.add("SYNTAX_ERROR", slip.message, at, severity="warning")
    is_older = is_ours and isinstance(tree, Mapping) and tree.get("script") is None
    lines = text.splitlines()
    for problem in first.sorted():
        _keep(problems, problem, forgiven=is_older and _says_the_same(problem, lines))
    return tree


def readable(text: str) -> str:
    """The text itself where it is YAML, else the mended one."""
    if len(text) > FILE_CHARS_MAX or not _RECOGNISED.search(text):
        return text
    is_yaml = read_tree(text, Problems()) is not None
    if is_yaml and _SLIP.search(text) is None:
        return text
    mended = _mended(text)[0]
    return text if is_yaml and read_tree(mended, Problems()) is None else mended


def _says_the_same(problem: Problem, lines: list[str]) -> bool:
    """Whether a key that stands twice says the same both times, in a line each."""
    other = re.search(r"in line (\d+)", problem.message)
    if problem.code != "DUPLICATE_KEY" or other is None or problem.line > len(lines):
        return False
    first, second = (lines[line - 1].strip().removeprefix("-").strip() for line in (int(other[1]), problem.line))
    return first == second and not first.endswith((":", "|", ">"))


def _keep(problems: Problems, problem: Problem, *, forgiven: bool) -> None:
    is_double = problem.code == "DUPLICATE_KEY" and forgiven
    problems.add(
        problem.code,
        f"{problem.message}; the first counts" if is_double else problem.message,
        Location(problem.line, problem.column, problem.file),
        fix=problem.fix,
        severity="warning" if is_double else problem.severity,
    )


def _mended(text: str) -> tuple[str, list[Slip]]:
    slips: list[Slip] = []
    lines = list(_lines(text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n"), slips))
    return "\n".join(lines), slips


def _lines(lines: list[str], slips: list[Slip]) -> Iterator[str]:
    block = -1  # how far the line is indented that a block belongs to
    for number, line in enumerate(lines, 1):
        line, tabs = _with_spaces(line)
        indent = len(line) - len(line.lstrip(" "))
        if block >= 0 and (indent > block or not line.strip()):
            yield (
                line if not tabs or not line.strip() else _noted(slips, number, line, "tabs and wide spaces indent it")
            )
            continue
        block = -1
        mended, why = _mended_line(line)
        why = why or ("tabs and wide spaces indent this line" if tabs and line.strip() else "")
        yield _noted(slips, number, mended, why) if why else mended
        found = _BLOCK.match(mended)
        if found is not None:
            block = len(found["indent"]) + len(found["dashes"])


def _noted(slips: list[Slip], number: int, line: str, why: str) -> str:
    slips.append(Slip(number, why))
    return line


def _with_spaces(line: str) -> tuple[str, bool]:
    found = _INDENT.match(line)
    if found is None:
        return line, False
    return found[0].replace("\u3000", "  ").replace("\u00a0", " ").expandtabs(2) + line[found.end() :], True


def _mended_line(line: str) -> tuple[str, str]:
    """The line as YAML wants it, and what was wrong; nothing where it may stand."""
    if not line.strip() or line.lstrip().startswith("#"):
        return line, ""
    why = ""
    if (found := _DASH.match(line)) is not None:
        line, why = f"{found['head']}- {line[found.end() :]}", "a space belongs after the dash"
    if (found := _WIDE.match(line)) is not None:
        line, why = f"{found['head']}: {line[found.end() :]}", "a full-width ： stands for the plain one"
    if (found := _GLUED.match(line)) is not None:
        line, why = f"{found['head']}: {line[found.end() :]}", "a space belongs after the colon"
    block = _BLOCK.match(line)
    if block is not None:
        if block["glued"]:
            head = line[: block.start("glued")]
            return f"{head} {line[block.start('glued') :]}", "a space belongs before the comment"
        return line, why
    pair = _PAIR.match(line)
    if pair is None or _is_fine(pair["value"], behind_dash=pair["head"].rstrip().endswith("-")):
        return line, why
    note = _NOTE.search(pair["value"])
    value = pair["value"][: note.start()] if note else pair["value"]
    quoted = "'" + value.rstrip().replace("'", "''") + "'"
    return pair["head"] + quoted + (note[0] if note else ""), "this text needs quotes"


def _is_fine(value: str, *, behind_dash: bool) -> bool:
    """Whether a value can be read by itself; one that goes on in the next line is left alone."""
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
    """Whether the brackets that a value opens with are closed in its line."""
    depth = 0
    for char in value:
        depth += (char in "{[") - (char in "}]")
        if depth == 0:
            return True
    return False
