"""The comments of a YAML file, and the node of its script that each belongs to."""

import re
from collections.abc import Iterator, Sequence

import yaml
from msgspec import Struct

from scripts.model.base import Location
from scripts.model.diagnostics import Problems

_LINE_HEAD = re.compile(r"[\s-]*")
_TOUCHING = re.compile(r"^[^#\n]*\S #[^\s#]", re.MULTILINE)
_KEY = re.compile(r"[\s-]*([\"']?)(?P<key>[^\s\"'#:{\[]+)\1\s*(?::|#)")

_NO_TEXT = frozenset(":-,[]{}|>\"'")
"""What a text without quotes does not end with."""


class Comment(Struct, frozen=True):
    """A comment with its `#`; `above` if it is alone on its line, otherwise `about` is the key before it."""

    line: int
    column: int
    text: str
    above: bool
    about: str = ""


def comments(text: str) -> Iterator[Comment]:
    """Yield the comments of a text that is valid YAML."""
    lines = text.splitlines()
    spans = _scalars(text)
    for number, line in enumerate(lines, 1):
        if "#" not in line:
            continue
        inside = spans.get(number, [])
        for found in re.finditer(r"(?:^|(?<=\s))#", line):
            if not any(start <= found.start() < end for start, end in inside):
                above = not line[: found.start()].strip()
                key = _KEY.match(line)
                about = key["key"] if key and not above else ""
                yield Comment(number, found.start() + 1, line[found.start() :].rstrip(), above, about)
                break


def report_cut_texts(text: str, problems: Problems) -> None:
    """Report texts without quotes that ` #5` cuts off: a comment that touches its `#` is probably meant as text."""
    if _TOUCHING.search(text) is None:  # as nearly always; else the text is parsed once more
        return
    lines = text.splitlines()
    for comment in comments(text):
        before = lines[comment.line - 1][: comment.column - 2]
        touches = re.match(r"#[^\s#]", comment.text) and not before.endswith((" ", "\t"))
        if not comment.above and touches and before[-1] not in _NO_TEXT:
            at = Location(comment.line, comment.column, problems.file)
            problems.add("COMMENT_CUTS_TEXT", f"the text ends before `{comment.text.split()[0]}`", at)


def _scalars(text: str) -> dict[int, list[tuple[int, int]]]:
    """Return the column ranges of scalars by line."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if not isinstance(event, yaml.ScalarEvent) or event.start_mark is None or event.end_mark is None:
            continue
        start, end = event.start_mark, event.end_mark
        is_block = event.style in ("|", ">")  # the line of the indicator may have a comment of its own
        for line in range(start.line + is_block, end.line + 1):
            first = start.column if line == start.line else 0
            last = end.column if line == end.line else 1_000_000
            spans.setdefault(line + 1, []).append((first, last))
    return spans


def attach(text: str, places: Sequence[Location]) -> tuple[dict[Location, list[str]], list[str]]:
    """Return the comment lines by node location, and those after the last node. The first location is the file's."""
    lines = text.splitlines()
    parsed = list(comments(text))
    above = {comment.line for comment in parsed if comment.above}
    content = [n for n, line in enumerate(lines, 1) if line.strip() and n not in above]
    begins = {at.line: at for at in reversed(places) if _is_at_head(lines, at)}
    notes: dict[Location, list[str]] = {}
    tail: list[str] = []
    above_before = 0
    for comment in parsed:
        following = next((line for line in content if line > comment.line), None) if comment.above else comment.line
        owner = _owner(comment, following, begins, places, lines) if following is not None else None
        collected = tail if owner is None else notes.setdefault(owner, [])
        between = lines[above_before : comment.line - 1] if comment.above and above_before else []
        if collected and between and not any(line.strip() for line in between):
            collected.append("")  # a new paragraph
        is_about_key = comment.about and comment.line not in begins
        collected.append(f"# {comment.about}: {comment.text.lstrip('# ')}" if is_about_key else comment.text)
        above_before = comment.line if comment.above else 0
    return notes, tail


def _is_at_head(lines: Sequence[str], at: Location) -> bool:
    """Return whether only dashes precede a node in its line."""
    if not 0 < at.line <= len(lines):
        return False
    head = _LINE_HEAD.match(lines[at.line - 1])
    return head is not None and head.end() >= at.column - 1


def _owner(
    comment: Comment, following: int, begins: dict[int, Location], places: Sequence[Location], lines: Sequence[str]
) -> Location:
    """Return the node that starts in the next line or in this line, otherwise the innermost enclosing node."""
    if following in begins:
        return begins[following]
    indent = comment.column
    if not comment.above:
        head = _LINE_HEAD.match(lines[comment.line - 1])
        indent = head.end() + 1 if head else 1
    around = [at for at in places if at.line <= comment.line and at.column <= indent]
    return around[-1] if around else places[0]
