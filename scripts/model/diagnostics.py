"""Diagnostics of scripts: one code per kind of problem; `diagnostics.yaml` has its meaning and its fix."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from scripts.model.base import NOWHERE, Location

Severity: TypeAlias = Literal["error", "warning", "note"]
PROBLEMS_MAX = 500


class Code(Struct, frozen=True):
    """A kind of problem: its default severity, what it means, and how an author fixes it."""

    severity: Severity
    meaning: str
    fix: str


_GROUPS = msgspec.yaml.decode(Path(__file__).with_suffix(".yaml").read_text("utf-8"), type=dict[str, dict[str, Code]])
CODES: Mapping[str, Code] = {code: kind for group in _GROUPS.values() for code, kind in group.items()}


def code_groups() -> dict[str, list[str]]:
    """Return the codes by topic, in the order of `CODES`."""
    return {title: list(group) for title, group in _GROUPS.items()}


class Fault(Struct, frozen=True):
    """What a check of one node finds; an empty fix and no severity mean those of the code."""

    code: str
    message: str
    at: Location
    fix: str = ""
    severity: Severity | None = None


class Problem(Struct, frozen=True):
    """One problem and its location; line and column count from 1."""

    code: str
    message: str
    severity: Severity
    line: int
    column: int
    file: str = ""
    path: str = ""
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.file or '<script>'}:{self.line}:{self.column} {self.code} {self.message}"


def problem_at(
    code: str,
    message: str,
    at: Location = NOWHERE,
    *,
    file: str = "",
    path: str = "",
    fix: str = "",
    severity: Severity | None = None,
) -> Problem:
    """Return a problem at a location, which is in `file` unless it names one; its code has a severity and a fix."""
    kind = CODES[code]
    return Problem(
        code=code,
        message=message,
        severity=severity or kind.severity,
        line=max(at.line, 1),
        column=max(at.column, 1),
        file=at.file or file,
        path=path,
        fix=fix or kind.fix,
    )


class Problems:
    """The problems of one script: at most `PROBLEMS_MAX` errors, and as many warnings and notes of each code.

    They are counted apart, so that no number of warnings or notes hides an error or a warning of another kind.
    """

    def __init__(self, file: str = "") -> None:
        self.file = file
        self._problems: dict[tuple[str, int, int, str, str], Problem] = {}
        self._counts: dict[str, int] = {}  # by code; that of all errors by ""
        self._softened: frozenset[str] = frozenset()

    def soften(self, codes: frozenset[str]) -> None:
        """Report these errors as warnings from now on."""
        self._softened |= codes

    def add(
        self,
        code: str,
        message: str,
        at: Location = NOWHERE,
        *,
        path: str = "",
        fix: str = "",
        severity: Severity | None = None,
    ) -> None:
        softened: Severity | None = "warning" if code in self._softened else None
        self.record(problem_at(code, message, at, file=self.file, path=path, fix=fix, severity=severity or softened))

    def record(self, problem: Problem) -> None:
        """Add a problem, unless there is an equal one or the limit is reached."""
        key = (problem.code, problem.line, problem.column, problem.file, problem.message)
        counted = "" if problem.severity == "error" else problem.code
        if key not in self._problems and self._counts.get(counted, 0) < PROBLEMS_MAX:
            self._counts[counted] = self._counts.get(counted, 0) + 1
            self._problems[key] = problem

    def soften_within(self, begin: Location, end_line: int) -> None:
        """Turn the errors of a file into warnings, from the line of `begin` up to `end_line` (exclusive)."""
        for key, problem in self._problems.items():
            is_within = problem.file == begin.file and begin.line <= problem.line < end_line
            if is_within and problem.severity == "error":
                self._problems[key] = replace(problem, severity="warning")

    def extend(self, other: "Problems") -> None:
        """Add the problems of another file."""
        for problem in other.sorted():
            self.record(problem)

    def sorted(self) -> tuple[Problem, ...]:
        """Return all problems in the order of the file."""
        return tuple(
            sorted(self._problems.values(), key=lambda p: (p.file != self.file, p.file, p.line, p.column, p.code))
        )

    def has_at(self, at: Location, *codes: str, only_errors: bool = False) -> bool:
        """Return whether a problem with one of these codes is recorded at a location, or an error with one of them."""
        where = (at.file or self.file, at.line, at.column)
        recorded = self.errors if only_errors else self._problems.values()
        return any((each.file, each.line, each.column) == where and each.code in codes for each in recorded)

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems because of which the script cannot run."""
        return tuple(problem for problem in self._problems.values() if problem.severity == "error")

    @property
    def fatal(self) -> bool:
        """Whether the script has an error and cannot run."""
        return any(problem.severity == "error" for problem in self._problems.values())
