"""What is wrong with a template, or looks so, with the line of it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

from runtime.prompts.rendering import variables_for
from runtime.prompts.templates import CUSTOM, NAMES, SUFFIX, PromptInvalid, Source, custom_sources, is_safe_name
from scripts.sandbox import ExpressionInvalid
from scripts.suggest import suggest

_OPENING = re.compile(r"\{\{|\{%|\{#")
_CLOSINGS = {"{{": "}}", "{%": "%}", "{#": "#}"}
_FENCED = re.compile(r"^(```|~~~).*?(^\1|\Z)", re.DOTALL | re.MULTILINE)
_SINGLE = re.compile(r"(?<![{$\w])\$?\{\s*(?P<name>[^\W\d]\w*)\s*\}(?!\})")
_SAYS_TASK = frozenset({"say", "ask", "extract", "think", "chat"})


class Fault(Struct, frozen=True):
    """Something wrong; a warning's template can be used all the same."""

    file: str
    line: int
    severity: Literal["error", "warning"]
    message: str


def faults_in(folder: Path) -> list[Fault]:
    """Everything wrong with the templates of a folder of prompts, by file and line."""
    try:
        sources = custom_sources(folder)
    except PromptInvalid as error:
        return [Fault(str(folder), 1, "error", str(error))]
    found = [fault for source in sources for fault in faults_of(source)]
    return sorted([*_misplaced(folder), *found], key=lambda each: (each.file, each.line))


def faults_of(source: Source) -> list[Fault]:
    """Everything wrong with a template."""

    def fault(line: int, message: str, severity: Literal["error", "warning"] = "warning") -> Fault:
        return Fault(str(source.path), line, severity, message)

    if not source.text.strip():
        return [fault(1, "it is empty; delete it, and the default prompt counts", "error")]
    try:
        names = source.compiled.facts.names
    except ExpressionInvalid as error:
        unclosed = _unclosed(source.text)
        if unclosed is not None:
            return [fault(unclosed[0], f"`{unclosed[1]}` is not closed by `{_CLOSINGS[unclosed[1]]}`", "error")]
        return [fault(error.line, str(error), "error")]
    known = variables_for(source.name)
    found = [
        fault(_line(source.text, name), f"nothing is called `{name}` here: it is empty. {suggest(name, sorted(known))}")
        for name in sorted(names - known)
    ]
    if source.name != "data" and "data" not in names:
        found.append(fault(1, "it does not say that data is no instruction; write {{ data }} where it is to stand"))
    if source.name in _SAYS_TASK and "task" not in names:
        found.append(fault(1, "it never says what the script wants; write {{ task }} where it is to stand"))
    return [*found, *(fault(*each) for each in _single_braces(source.text))]


def _line(text: str, name: str) -> int:
    """The line a name first stands on within a tag."""
    found = re.search(rf"\{{[{{%][^}}]*?(?<!\w){re.escape(name)}(?!\w)", text, re.DOTALL)
    return _line_at(text, found.end() if found is not None else 0)


def _line_at(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _unclosed(text: str) -> tuple[int, str] | None:
    """Line and kind of the first tag that another one, or the end, comes before the end of."""
    at = 0
    while (opening := _OPENING.search(text, at)) is not None:
        closing = text.find(_CLOSINGS[opening[0]], opening.end())
        following = _OPENING.search(text, opening.end())
        if closing < 0 or (following is not None and following.start() < closing and opening[0] != "{#"):
            return _line_at(text, opening.start()), opening[0]
        at = closing + 2
    return None


def _single_braces(text: str) -> Iterator[tuple[int, str]]:
    """Names in single braces, which older systems filled in; in fenced code they are code."""
    plain = _FENCED.sub(lambda fenced: "\n" * fenced[0].count("\n"), text)
    for found in _SINGLE.finditer(plain):
        line = _line_at(plain, found.start())
        yield line, f"{found[0]} stays as it is; for a value write {{{{ {found['name']} }}}}"


def _misplaced(folder: Path) -> Iterator[Fault]:
    """Files that no prompt is read from."""
    custom = folder / CUSTOM
    for path in sorted(folder.rglob(f"*{SUFFIX}")):
        parts = path.relative_to(custom).parts if path.is_relative_to(custom) else ()
        if len(parts) != 3:
            where = f"{CUSTOM}/SCHEME/LANGUAGE/{path.name}"
            yield Fault(str(path), 1, "error", f"it lies where no prompt is read from; it belongs in {where}")
        elif not all(map(is_safe_name, parts[:2])):
            yield Fault(str(path), 1, "error", "schemes and languages are called by letters, digits, _ and - alone")
        elif path.stem not in NAMES:
            yield Fault(str(path), 1, "error", f"there is no prompt called {path.stem}. {suggest(path.stem, NAMES)}")
