"""The views of the results of cases."""

from api.catalog.script_views import problem_views
from api.schemas.cases import CaseFailureView, CaseReport, CaseResultView, CoverageCount, MissedPart
from api.testing.cases.case_run import CaseResult
from api.testing.cases.coverage import KINDS
from api.testing.cases.expectations import CaseFailure
from api.testing.cases.script_cases import CaseResults


def case_report(found: CaseResults) -> CaseReport:
    """Return the results of the cases of a script."""
    passed = sum(result.passed for result in found.results)
    counts = {name: found.coverage.count(kind) for kind, name in KINDS.items()}
    return CaseReport(
        passed=passed,
        failed=len(found.results) - passed,
        results=list(map(_result, found.results)),
        diagnostics=problem_views(tuple(problem for each in found.readings for problem in each.problems)),
        coverage=[CoverageCount.of(each, kind=kind) for kind, each in counts.items()],
        missed=[MissedPart.of(item, file=at.file, line=at.line) for item, at in found.coverage.missed],
    )


def _result(result: CaseResult) -> CaseResultView:
    return CaseResultView(
        file=result.found.file,
        line=result.found.line(),
        name=result.found.case.name,
        passed=result.passed,
        turns=len(result.turns),
        failures=list(map(_failure, result.failures)),
    )


def _failure(failure: CaseFailure) -> CaseFailureView:
    return CaseFailureView.of(failure, input=failure.input_text)
