"""Patches: a fix without a choice, as a change of the text that removes its problem."""

import pytest

from scripts.model.diagnostics import Problem
from scripts.parse.patches import Patch, lines_of, patch_of
from scripts.parse.read_script import Source, read_script
from tests.support.paths import BROKEN_SCRIPTS

CERTAIN = (
    "never_set unknown_action unknown_key unknown_goto wrong_enum member_unknown single_braces wide_colon name_as_text"
)


def problems(text: str) -> tuple[Problem, ...]:
    return read_script(Source(text, "visit.yaml")).problems


def patched(text: str, patch: Patch) -> str:
    lines = text.split("\n")
    line, begin = lines[patch.line - 1], patch.column - 1
    end = begin + len(patch.written)
    assert line[begin:end] == patch.written
    lines[patch.line - 1] = line[:begin] + patch.text + line[end:]
    return "\n".join(lines)


def summaries(text: str) -> set[tuple[str, str, int]]:
    return {(each.code, each.message, each.line) for each in problems(text)}


@pytest.mark.parametrize("name", CERTAIN.split())
def test_patch_removes_its_problem(name: str) -> None:
    text = (BROKEN_SCRIPTS / f"{name}.yaml").read_text("utf-8")
    found = {each: patch_of(each, lines_of(text)) for each in problems(text)}
    patches = {each: patch for each, patch in found.items() if patch is not None}
    assert patches
    for problem, patch in patches.items():
        assert (problem.code, problem.message, problem.line) not in summaries(patched(text, patch))


HEAD = "cuebook: 1\nscript: visit\nactions:\n"


@pytest.mark.parametrize(
    ("lines", "patch"),
    [
        ("  - sai: Hi.\n", Patch(4, 5, "sai", "say")),
        ("  - tell: The action tells.\n", Patch(4, 5, "tell", "say")),
        ("  - 说: 你好 😀\n", Patch(4, 5, "说", "say")),
        ("  - {ask: Wer?, into: name}\n  - say: 😀 {{ nme }}\n", Patch(5, 15, "nme", "name")),
        # the word occurs twice: no telling which one is meant
        ("  - {ask: Wer?, into: name}\n  - say: Nme {{ nme }} {{ nme }}\n", None),
        # a fix with a choice
        ("  - goto: elsewhere\n", None),
    ],
)
def test_patch_is_there_where_the_place_is_certain(lines: str, patch: Patch | None) -> None:
    text = HEAD + lines
    found = [patch_of(each, lines_of(text)) for each in problems(text) if each.code != "ID_DERIVED"]
    assert found[:1] == [patch]
