"""The results of test cases."""

from typing import Any

from api.schemas.base import View
from api.schemas.scripts import ProblemView


class CaseFailureView(View, frozen=True, kw_only=True):
    """A difference between what a case expects and what happened."""

    turn: int | None
    """The turn of the case, from 0; null at the end."""
    input: str
    """What the user did, as the case has it: `say: yes`."""
    what: str
    """What differs."""
    expected: Any
    """What the case expects."""
    got: Any
    """What happened."""
    line: int


class CaseResultView(View, frozen=True, kw_only=True):
    """The result of a case."""

    file: str
    line: int
    name: str
    passed: bool
    """Whether nothing differs."""
    turns: int
    """The turns that ran."""
    failures: list[CaseFailureView]
    """What differs; a case ends at the first turn with a difference."""


class CoverageCount(View, frozen=True, kw_only=True):
    """How many parts of a kind the cases reached."""

    kind: str
    """`phases`, `topics`, `actions`, `branches` or `conditions`."""
    covered: int
    """The parts that a case reached."""
    total: int
    """All parts of the kind."""


class MissedPart(View, frozen=True, kw_only=True):
    """A part of a script that no case reached."""

    kind: str
    name: str
    """Its path of ids."""
    arm: str
    """The branch or the result of the condition; empty for other parts."""
    file: str
    """The include file; empty for the script itself."""
    line: int


class CaseReport(View, frozen=True, kw_only=True):
    """The results of the cases of a script, and what they reached of it."""

    passed: int
    """The cases that passed."""
    failed: int
    """The cases that did not."""
    results: list[CaseResultView]
    """The cases in the order of their files."""
    diagnostics: list[ProblemView]
    """The problems of the case files; a file with an error has no results."""
    coverage: list[CoverageCount]
    """What the cases reached, by kind."""
    missed: list[MissedPart]
    """What no case reached."""
