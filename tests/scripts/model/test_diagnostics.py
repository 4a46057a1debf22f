"""The catalogue of problems: every code can happen, says what is meant, and how to fix it."""

from collections import Counter
from pathlib import Path

import pytest

from scripts.model.base import Location
from scripts.model.diagnostics import CODES, PROBLEMS_MAX, Problems
from scripts.parse.folder import read_path
from scripts.parse.read_script import Source, read_script
from scripts.versions.breaking_changes import CODES as CHANGES
from tests.support.paths import BROKEN_SCRIPTS


def codes_of_the_broken_scripts() -> set[str]:
    return {problem.code for path in BROKEN_SCRIPTS.glob("*.yaml") for problem in read_path(path).problems}


def codes_of_what_no_file_of_ours_should_be(tmp_path: Path) -> set[str]:
    large = read_script(Source("# " + "x" * 1_000_001))
    return {problem.code for problem in (*large.problems, *read_path(tmp_path / "absent.yaml").problems)}


def test_every_code_is_produced_by_some_script(tmp_path: Path) -> None:
    found = codes_of_the_broken_scripts() | codes_of_what_no_file_of_ours_should_be(tmp_path)
    assert CODES.keys() == found | set(CHANGES.values())  # tests/scripts/versions/test_breaking_changes.py has these


@pytest.mark.parametrize("code", CODES)
def test_every_code_tells_its_meaning_and_its_cure(code) -> None:
    kind = CODES[code]
    assert kind.meaning.endswith(".")
    assert kind.fix.endswith((".", '.".'))
    assert code == code.upper()


def test_problems_come_in_the_order_of_the_file_and_each_once() -> None:
    problems = Problems("talk.yaml")
    for line, column, code in [
        (9, 1, "ID_INVALID"),
        (2, 5, "UNKNOWN_KEY"),
        (2, 3, "UNKNOWN_KEY"),
        (9, 1, "ID_INVALID"),
    ]:
        problems.add(code, "wrong", Location(line, column))
    problems.add("ID_INVALID", "wrong", Location(1, 1, "side.yaml"))
    assert [str(problem) for problem in problems.sorted()] == [
        "talk.yaml:2:3 UNKNOWN_KEY wrong",
        "talk.yaml:2:5 UNKNOWN_KEY wrong",
        "talk.yaml:9:1 ID_INVALID wrong",
        "side.yaml:1:1 ID_INVALID wrong",
    ]


def test_a_hopeless_file_has_a_bounded_number_of_problems() -> None:
    actions = "".join(f"          - sai: {n}\n" for n in range(PROBLEMS_MAX * 2))
    reading = read_script(
        Source("script: s\nphases:\n  - phase: p\n    topics:\n      - topic: t\n        actions:\n" + actions)
    )
    assert (len(reading.problems), reading.script) == (PROBLEMS_MAX, None)


def test_an_error_is_never_lost_behind_many_warnings() -> None:
    actions = "".join("          - say: Hello.\n" for _ in range(PROBLEMS_MAX * 2)) + "          - goto: nowhere\n"
    reading = read_script(
        Source("script: s\nphases:\n  - phase: p\n    topics:\n      - topic: t\n        actions:\n" + actions)
    )
    assert reading.script is None
    assert [problem.code for problem in reading.errors] == ["GOTO_UNKNOWN"]


def test_what_could_not_be_read_is_not_called_empty() -> None:
    text = "script: s\nphases:\n  - phase: p\n    topics:\n      - topic: t\n        actions: [{sai: a}]\n"
    assert [problem.code for problem in read_script(Source(text)).problems] == ["ACTION_TYPE_UNKNOWN"]


def test_warning_is_not_hidden_by_many_problems_of_other_kinds() -> None:
    found = Problems()
    for line in range(1, PROBLEMS_MAX * 2):
        found.add("CROSS_TOPIC_READ", "", Location(line, 1))
        found.add("DEPRECATED_KEY", "", Location(line, 1))
    found.add("VARIABLE_MAYBE_UNSET", "", Location(PROBLEMS_MAX * 2, 1))
    assert Counter(each.code for each in found.sorted()) == {
        "CROSS_TOPIC_READ": PROBLEMS_MAX,
        "DEPRECATED_KEY": PROBLEMS_MAX,
        "VARIABLE_MAYBE_UNSET": 1,
    }
