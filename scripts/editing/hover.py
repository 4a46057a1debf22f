"""What a position of a script means, as Markdown: a key, a name, a problem."""

import re
from collections.abc import Sequence

from msgspec import Struct

from scripts.checks.examples import explanation
from scripts.editing.completion import KnownNames, about
from scripts.editing.known_keys import known_keys
from scripts.editing.line_place import place_at
from scripts.editing.name_occurrences import Name
from scripts.model.diagnostics import CODES, Problem
from scripts.model.script import Path, Script
from scripts.versions.rename_map import format_path

_KEY = re.compile(r"([\w-]+):(?=\s|$)")


def key_meaning(lines: Sequence[str], index: int, column: int, kind: type[Struct] = Script) -> str:
    """Return the meaning of the key at a position of a file of this kind; empty if there is none."""
    found = next((each for each in _KEY.finditer(lines[index]) if each.start() <= column <= each.end(1)), None)
    if found is None:
        return ""
    meaning = known_keys(kind).meaning_at(place_at(lines, index, found.start()), found[1])
    return f"**{found[1]}**: {meaning}" if meaning else ""


def name_meaning(name: Name, known: KnownNames) -> str:
    """Return the kind of a name, and of a variable its type and meaning."""
    declaration = known.declarations.get(name.id) if name.kind == "variable" else None
    path: Path = name.path
    text = f"{name.kind} `{format_path(path)}`"
    if declaration is None:
        return text + (", not declared" if name.kind == "variable" else "")
    value = f"\n\nInitial value: `{declaration.value}`" if declaration.value is not None else ""
    return f"{text}: {about(declaration)}{value}"


def problem_meaning(problem: Problem) -> str:
    """Return the explanation of a problem's code, with an example before and after the fix."""
    kind, explained = CODES[problem.code], explanation(problem.code)
    examples = f"Before:\n```yaml\n{explained.broken.strip()}\n```\nAfter:\n```yaml\n{explained.fixed.strip()}\n```"
    return f"**{problem.code}**: {kind.meaning}\n\nCause: {explained.cause}\n\nFix: {kind.fix}\n\n{examples}"
