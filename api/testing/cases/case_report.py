"""Reports the results of cases, coverage and walks as lines to print and as one JSON document."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from api.catalog.script_views import problem_views
from api.testing.cases import detector_examples
from api.testing.cases.case_model import PreparedScript
from api.testing.cases.case_run import CaseFailure, CaseResult
from api.testing.cases.coverage import KINDS, Coverage
from api.testing.cases.random_walk import RandomWalks, case_text
from runtime.state.program import PlaceLost
from scripts.expressions.values import Value, count_text
from scripts.model.base import Location
from scripts.model.diagnostics import Problem

Line: TypeAlias = tuple[str, str]
"""A style of rich, and a text."""

SHOWN_CHARS_MAX = 500


class Report(Struct, frozen=True):
    """The results of one `cuebook test`. `coverage` is None if it was not requested."""

    problems: tuple[Problem, ...] = ()
    results: tuple[CaseResult, ...] = ()
    walks: tuple[RandomWalks, ...] = ()
    coverage: tuple[tuple[PreparedScript, Coverage], ...] | None = None
    examples: tuple[detector_examples.TestedExample, ...] = ()  # of detectors

    @property
    def exit_code(self) -> int:
        """Return 2 if a file has errors, 1 if a case failed or a walk found a problem, else 0."""
        if any(problem.severity == "error" for problem in self.problems):
            return 2
        failed = any(not result.passed for result in self.results) or any(walks.findings for walks in self.walks)
        failed = failed or any(each.failed for each in self.examples)
        return 1 if failed else 0


# -- lines ------------------------------------------------------------------------------------------------------------


def case_lines(report: Report) -> Iterator[Line]:
    """Yield a line for every case with its failures, and the totals."""
    for problem in report.problems:
        yield "red" if problem.severity == "error" else "yellow", f"{problem}\n    {problem.fix}"
    for result in report.results:
        yield ("green", f"ok    {result.found}") if result.passed else ("red", f"FAIL  {result.found}")
        for failure in result.failures:
            yield from _failure_lines(failure)
    passed = sum(result.passed for result in report.results)
    if report.results:
        failed = len(report.results) - passed
        yield "bold", f"{count_text(len(report.results), 'case')}: {passed} passed, {failed} failed"
    yield from detector_examples.lines(report.examples)


def _failure_lines(failure: CaseFailure) -> Iterator[Line]:
    where = "at the end" if failure.turn is None else f"turn {failure.turn} ({_short(failure.input_text)})"
    yield "", f"  {failure.file}:{failure.line} {where}: {failure.what}"
    yield "", f"    expected {_format_value(failure.expected)}"
    yield "", f"    got      {_format_value(failure.got)}"
    if isinstance(failure.expected, str) and str(failure.got).startswith(f"{failure.expected}, "):
        yield "", "    In [ ] a comma ends a text: put quotes around a text with a comma."


def _format_value(value: Value) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ("\n" + " " * 13).join(value) or "none"
    return _short(msgspec.json.encode(value).decode())


def _short(text: str) -> str:
    text = text.replace("\n", "\\n")
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}… ({len(text):,} characters)"


def walk_lines(report: Report) -> Iterator[Line]:
    """Yield the results of the walks through each script, with a case for each finding."""
    for walks in report.walks:
        stopped = f" of {walks.requested:,} (time limit reached)" if walks.walked < walks.requested else ""
        ends = f"{walks.completed:,} completed, {walks.unfinished:,} unfinished"
        sums = [f"{count_text(walks.walked, 'walk')}{stopped}", count_text(walks.turns, "turn"), ends]
        yield "bold", f"{walks.script.path}: {', '.join(sums)}, {count_text(len(walks.findings), 'finding')}"
        for finding in walks.findings:
            line = place_of(walks.script, finding.place).line
            yield "red", f"  {finding.kind} at {walks.script.path}:{line} {finding.place}: {_short(finding.message)}"
            yield "dim", f"  in {count_text(finding.times, 'walk')}; save this as NAME.case.yaml to reproduce it:"
            yield "", "\n".join(f"    {each}" for each in case_text(walks.script, finding).splitlines())


def coverage_rows(report: Report) -> tuple[Sequence[str], list[list[str]]]:
    """Return the coverage table: one row per script, one column per kind."""
    rows = [
        [str(script.path), *(f"{(count := coverage.count(kind)).covered}/{count.total}" for kind in KINDS)]
        for script, coverage in report.coverage or ()
    ]
    return ["script", *KINDS.values()], rows


def missed_lines(report: Report) -> Iterator[Line]:
    """Yield everything that no conversation reached, with its location."""
    for script, coverage in report.coverage or ():
        for item, at in coverage.missed:
            yield "yellow", f"{file_of(script, at)}:{at.line} missed {item.kind} {item}"


def file_of(script: PreparedScript, at: Location) -> str:
    """Return the file of a location in a script."""
    own = at.file in {"", script.reading.source.file}
    return str(script.path) if own else str(script.path.parent / at.file)


def place_of(script: PreparedScript, place: str) -> Location:
    """Return the location of an action ``phase/topic/action``, or of its existing parent."""
    phase, _, rest = place.partition("/")
    topic, _, action = rest.partition("/")
    program = script.program
    try:
        if action:
            return program.action(phase, topic, action).at
        if topic:
            return program.topics[phase, topic].at
    except PlaceLost:
        return program.script.at
    return program.phases[phase].at if phase in program.phases else program.script.at


# -- a document -------------------------------------------------------------------------------------------------------


def document(report: Report) -> dict[str, Any]:
    """Return the report as one JSON document; `coverage` and `walks` only if they were requested."""
    passed = sum(result.passed for result in report.results)
    found: dict[str, Any] = {
        "cases": len(report.results),
        "passed": passed,
        "failed": len(report.results) - passed,
        "results": [_result(result) for result in report.results],
        "diagnostics": problem_views(report.problems),
    }
    if report.examples:
        found["detectors"] = detector_examples.document(report.examples)
    if report.walks:
        found["walks"] = [_walks(walks) for walks in report.walks]
    if report.coverage is not None:
        found["coverage"] = coverage_document(report)
    return found


def coverage_document(report: Report) -> list[dict[str, Any]]:
    """Return the coverage of each script, with the parts that were not reached."""
    return [_coverage(script, coverage) for script, coverage in report.coverage or ()]


def _coverage(script: PreparedScript, coverage: Coverage) -> dict[str, Any]:
    counts = {name: coverage.count(kind) for kind, name in KINDS.items()}
    return {
        "script": str(script.path),
        **{name: {**asdict(count), "percent": count.percent} for name, count in counts.items()},
        "missing": [{**asdict(item), "file": file_of(script, at), "line": at.line} for item, at in coverage.missed],
    }


def _result(result: CaseResult) -> dict[str, Any]:
    return {
        "file": result.found.file,
        "line": result.found.line(),
        "script": str(result.found.script.path),
        "name": result.found.case.name,
        "passed": result.passed,
        "turns": len(result.turns),
        "failures": [msgspec.to_builtins(failure) for failure in result.failures],
    }


def _walks(walks: RandomWalks) -> dict[str, Any]:
    return {
        "script": str(walks.script.path),
        "asked": walks.requested,
        "walks": walks.walked,
        "completed": walks.completed,
        "unfinished": walks.unfinished,
        "turns": walks.turns,
        "findings": [
            {
                "kind": finding.kind,
                "place": finding.place,
                "file": file_of(walks.script, place_of(walks.script, finding.place)),
                "line": place_of(walks.script, finding.place).line,
                "message": finding.message,
                "times": finding.times,
                "case": case_text(walks.script, finding),
            }
            for finding in walks.findings
        ],
    }
