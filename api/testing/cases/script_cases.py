"""Runs the cases that come with the text of a script, and reports their results as the API does."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from api.background import within
from api.catalog.script_views import problem_views
from api.errors import ApiError, invalid_field
from api.schemas.scripts import CaseFailureView, CaseReport, CaseResultView, CoverageCount, MissedPart
from api.testing.cases.case_model import FoundCase, PreparedScript
from api.testing.cases.case_reader import read_case_text
from api.testing.cases.case_run import CaseResult, run_case
from api.testing.cases.coverage import KINDS, cover, items_reached
from runtime.state.program import Program
from scripts.model.script import Script
from scripts.parse.folder import CASE_SUFFIX
from scripts.parse.read_script import Reading, Source

CASES_MAX = 500
RUN_S = 20.0


def run_cases(reading: Reading, script: Script, files: Mapping[str, str]) -> CaseReport:
    """Run the cases in those files whose names end in `.case.yaml`. Takes up to RUN_S; call it in a thread.

    `reading` is that of the script. Raises ApiError REQUEST_INVALID for too many cases, or
    too long ones.
    """
    prepared = PreparedScript(Path(), reading, Program(script))
    readings = tuple(
        read_case_text(name, text, prepared) for name, text in sorted(files.items()) if name.endswith(CASE_SUFFIX)
    )
    cases = [case for each in readings for case in each.cases]
    if len(cases) > CASES_MAX:
        raise invalid_field("files", f"{len(cases)} cases; at most {CASES_MAX} run in one request")
    results = asyncio.run(_run(cases))
    reached = [items_reached(prepared.program, result.turns) for result in results]
    coverage = cover(prepared.program, reached)
    counts = {name: coverage.count(kind) for kind, name in KINDS.items()}
    passed = sum(result.passed for result in results)
    return CaseReport(
        passed=passed,
        failed=len(results) - passed,
        results=list(map(_result, results)),
        diagnostics=problem_views((problem for each in readings for problem in each.problems), Source("", "", files)),
        coverage=[CoverageCount.of(each, kind=kind) for kind, each in counts.items()],
        missed=[MissedPart.of(item, file=at.file, line=at.line) for item, at in coverage.missed],
    )


async def _run(cases: Sequence[FoundCase]) -> tuple[CaseResult, ...]:
    late = ApiError("REQUEST_INVALID", f"the cases take more than {RUN_S:g} s; run them with `cuebook test`")
    async with within(RUN_S, late):
        return tuple([await run_case(case) for case in cases])


def _result(result: CaseResult) -> CaseResultView:
    return CaseResultView(
        file=result.found.file,
        line=result.found.line(),
        name=result.found.case.name,
        passed=result.passed,
        turns=len(result.turns),
        failures=[CaseFailureView.of(each, input=each.input_text) for each in result.failures],
    )
