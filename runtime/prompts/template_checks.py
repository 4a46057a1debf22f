"""Checks of templates: errors and warnings with their lines."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

from runtime.prompts import templates
from runtime.prompts.rendering import variables_for
from runtime.prompts.templates import PromptInvalid, TemplateSource
from scripts.expressions.sandbox import ExpressionInvalid
from scripts.expressions.suggestions import suggest

_OPENING = re.compile(r"\{\{|\{%|\{#")
_CLOSINGS = {"{{": "}}", "{%": "%}", "{#": "#}"}
_FENCED = re.compile(r"^(```|~~~).*?(^\1|\Z)", re.DOTALL | re.MULTILINE)
_SINGLE = re.compile(r"(?<![{$\w])\$?\{\s*(?P<name>[^\W\d]\w*)\s*\}(?!\})")
_SAYS_TASK = frozenset({"say", "ask", "extract", "think", "chat"})


class PromptFault(Struct, frozen=True):
    """A problem of a template; with a warning, the template can still be used."""

    file: str
    line: int
    severity: Literal["error", "warning"]
    message: str


def faults_in(folder: Path) -> list[PromptFault]:
    """Return all problems of a folder's templates, by file and line."""
    try:
        sources = templates.custom_sources(folder)
    except PromptInvalid as error:
        return [PromptFault(str(folder), 1, "error", str(error))]
    found = [fault for source in sources for fault in faults_of(source)]
    return sorted([*_find_misplaced(folder), *found], key=lambda each: (each.file, each.line))


def faults_of(source: TemplateSource) -> list[PromptFault]:
    """Return all problems of a template."""

    def fault(line: int, message: str, severity: Literal["error", "warning"] = "warning") -> PromptFault:
        return PromptFault(str(source.path), line, severity, message)

    if not source.text.strip():
        return [fault(1, "it is empty; delete it to use the default prompt", "error")]
    try:
        names = source.compiled.facts.names
    except ExpressionInvalid as error:
        unclosed = _find_unclosed(source.text)
        if unclosed is not None:
            return [fault(unclosed[0], f"`{unclosed[1]}` is not closed by `{_CLOSINGS[unclosed[1]]}`", "error")]
        return [fault(error.line, str(error), "error")]
    known = variables_for(source.name)
    found = [
        fault(_line(source.text, name), f"there is no variable `{name}`: it is empty. {suggest(name, sorted(known))}")
        for name in sorted(names - known)
    ]
    if source.name not in templates.PARTS and "data" not in names:
        found.append(fault(1, "it does not say that data is not an instruction; add {{ data }} at the place for it"))
    if source.name in _SAYS_TASK and "task" not in names:
        found.append(fault(1, "it does not contain the script's task; add {{ task }} at the place for it"))
    return [*found, *(fault(*each) for each in _single_braces(source.text))]


def _line(text: str, name: str) -> int:
    """Return the line where a name first occurs within a tag."""
    found = re.search(rf"\{{[{{%][^}}]*?(?<!\w){re.escape(name)}(?!\w)", text, re.DOTALL)
    return _line_at(text, found.end() if found is not None else 0)


def _line_at(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _find_unclosed(text: str) -> tuple[int, str] | None:
    """Return line and kind of the first tag that is not closed before the next one, or before the end."""
    at = 0
    while (opening := _OPENING.search(text, at)) is not None:
        closing = text.find(_CLOSINGS[opening[0]], opening.end())
        following = _OPENING.search(text, opening.end())
        if closing < 0 or (following is not None and following.start() < closing and opening[0] != "{#"):
            return _line_at(text, opening.start()), opening[0]
        at = closing + 2
    return None


def _single_braces(text: str) -> Iterator[tuple[int, str]]:
    """Yield names in single braces, a syntax of older systems; fenced code is ignored."""
    plain = _FENCED.sub(lambda fenced: "\n" * fenced[0].count("\n"), text)
    for found in _SINGLE.finditer(plain):
        yield _line_at(plain, found.start()), f"{found[0]} is not replaced; for a value write {{{{ {found['name']} }}}}"


def _find_misplaced(folder: Path) -> Iterator[PromptFault]:
    """Yield the files that are not read as prompts."""
    custom = folder / templates.CUSTOM
    for path in sorted(folder.rglob(f"*{templates.SUFFIX}")):
        parts = path.relative_to(custom).parts if path.is_relative_to(custom) else ()
        if len(parts) != 3:
            where = f"{templates.CUSTOM}/SCHEME/LANGUAGE/{path.name}"
            message = f"no prompt is read from this path; it belongs in {where}"
        elif not all(map(templates.is_safe_name, parts[:2])):
            message = "names of schemes and languages contain only letters, digits, _ and -"
        elif path.stem not in templates.NAMES:
            message = f"there is no prompt called {path.stem}. {suggest(path.stem, templates.NAMES)}"
        else:
            continue
        yield PromptFault(str(path), 1, "error", message)
