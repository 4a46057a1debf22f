"""Every code is explained by a script that has the problem where it says, and by the same script without it."""

from pathlib import Path

import pytest

from scripts.checks.examples import MARK, NOT_SHOWN, explanation
from scripts.model.diagnostics import CODES, Problems
from scripts.parse.folder import read_path
from scripts.parse.read_script import Source, read_script
from scripts.versions.breaking_changes import changes, report

SHOWN = [code for code in CODES if code not in NOT_SHOWN]
CODES_MIN = 50

SIDE_FILE = "# file: "
EARLIER = "earlier.yaml"


def files_of(example: str) -> tuple[str, dict[str, str]]:
    """Return the script of an example, and its include files by name."""
    script, *sides = f"\n{example}".split(f"\n{SIDE_FILE}")
    named = (side.partition("\n") for side in sides)
    return script[1:], {name: text for name, _, text in named}


def problems_of(text: str):
    script, sides = files_of(text)
    earlier = sides.pop(EARLIER, None)
    reading = read_script(Source(script, "example.yaml", sides))
    return reading.problems if earlier is None else (*reading.problems, *changed(reading.script, earlier))


def changed(script, earlier: str):
    """Return what has changed since an earlier version."""
    before = read_script(Source(earlier, EARLIER))
    assert before.problems == ()
    problems = Problems("example.yaml")
    report(changes(before.script, script), problems)
    return problems.sorted()


def marked_in(text: str) -> list[tuple[str, int]]:
    """Return the lines that are marked as broken, with their file."""
    script, sides = files_of(text)
    return [
        (name, number)
        for name, content in {"example.yaml": script, **sides}.items()
        for number, line in enumerate(content.splitlines(), 1)
        if MARK in line
    ]


@pytest.mark.parametrize("code", SHOWN)
def test_broken_example_has_its_problem_in_the_marked_line(code) -> None:
    broken = explanation(code).broken
    marked = marked_in(broken)
    problems = problems_of(broken)
    assert len(marked) == 1
    assert set(marked) == {(problem.file, problem.line) for problem in problems if problem.code == code}, problems
    assert {problem.code for problem in problems if problem.severity == "error"} <= {code}


@pytest.mark.parametrize("code", SHOWN)
def test_the_fixed_example_has_no_problem_at_all(code) -> None:
    assert problems_of(explanation(code).fixed) == ()


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_a_cause_and_an_example(code) -> None:
    explained = explanation(code)
    assert explained.cause.endswith(".")
    assert explained.broken.strip()
    assert explained.fixed.strip()
    assert explained.broken != explained.fixed


def test_what_no_small_file_can_show_happens_all_the_same(tmp_path: Path) -> None:
    large = problems_of("# " + "x" * 1_000_001)
    absent = read_path(tmp_path / "absent.yaml").problems
    assert {problem.code for problem in (*large, *absent)} == NOT_SHOWN.keys()


def test_there_are_as_many_codes_as_promised() -> None:
    assert len(CODES) >= CODES_MIN


def test_only_a_code_is_explained() -> None:
    with pytest.raises(KeyError):
        explanation("NO_SUCH_CODE")
