"""Each broken script yields exactly the problems that its first line names, where it names them.

``# expect: CODE line:column [warning|note] ["words of its fix"] | …[; mode: strict]``: errors are listed in full;
a warning or note need not be, but must come when it is. A place in an include file begins with its name.
"""

import re
from pathlib import Path

import pytest

from scripts.model.diagnostics import Problem
from scripts.parse.read_script import Mode, Source, read_file, read_script
from tests.support.paths import BROKEN_SCRIPTS

BROKEN = sorted(BROKEN_SCRIPTS.glob("*.yaml"))
EXPECTED = re.compile(
    r'(?P<code>[A-Z_]+) (?P<at>(?:[\w./]+:)?\d+:\d+)(?: (?P<severity>warning|note))?(?: "(?P<fix>[^"]+)")?'
)


def problems_of(path: Path) -> tuple[str, tuple[Problem, ...]]:
    """Return what the first line expects, and what was found."""
    text = path.read_text("utf-8")
    expected, _, mode = text.splitlines()[0].removeprefix("# expect: ").partition("; mode: ")
    spelled: Mode = "strict" if mode == "strict" else "compat"
    source = Source(text, path.name, read_file(path).side_files)
    return expected, read_script(source, spelled).problems


@pytest.mark.gate
@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_a_broken_script_has_the_expected_problems_and_places(path) -> None:
    wanted, problems = problems_of(path)
    expected = [EXPECTED.fullmatch(part.strip()) for part in wanted.split(" | ")]
    assert all(expected), wanted
    found = {(p.code, place(p, path), p.severity): p for p in problems}
    named = {(each["code"], each["at"], each["severity"] or "error"): each["fix"] or "" for each in expected if each}

    assert {key for key in found if key[2] == "error"} == {key for key in named if key[2] == "error"}
    assert named.keys() <= found.keys()
    assert all(fix in found[key].fix for key, fix in named.items())
    assert all(p.message and p.fix and (path.parent / p.file).is_file() for p in problems)


def place(problem: Problem, path: Path) -> str:
    at = f"{problem.line}:{problem.column}"
    return at if problem.file == path.name else f"{problem.file}:{at}"
