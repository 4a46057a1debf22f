"""Runs the cases that come with the text of a script."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from api.errors import ApiError
from api.testing.cases.case_model import CaseReading, FoundCase, Prepared
from api.testing.cases.case_reader import read_case_text
from api.testing.cases.case_run import CaseResult, run_case
from api.testing.cases.coverage import Coverage, cover, reached_by
from runtime.state.program import Program
from scripts.model.script import Script
from scripts.parse.folder import CASE_SUFFIX
from scripts.parse.read_script import Reading

CASES_MAX = 500
RUN_S = 20.0


class CaseResults(Struct, frozen=True):
    """The results of all cases of a script."""

    readings: tuple[CaseReading, ...]
    results: tuple[CaseResult, ...]
    coverage: Coverage


def run_cases(reading: Reading, script: Script, files: Mapping[str, str]) -> CaseResults:
    """Run the cases in those files whose names end in `.case.yaml`. Takes up to RUN_S; call it in a thread.

    `reading` is that of the script. Raises ApiError REQUEST_INVALID for too many cases, or
    too long ones.
    """
    prepared = Prepared(Path(), reading, Program(script))
    readings = tuple(
        read_case_text(name, text, prepared) for name, text in sorted(files.items()) if name.endswith(CASE_SUFFIX)
    )
    cases = [case for each in readings for case in each.cases]
    if len(cases) > CASES_MAX:
        raise ApiError("REQUEST_INVALID", f"{len(cases)} cases; at most {CASES_MAX} run in one request")
    results = asyncio.run(_run(cases))
    reached = [reached_by(prepared.program, result.turns) for result in results]
    return CaseResults(readings, results, cover(prepared.program, reached))


async def _run(cases: Sequence[FoundCase]) -> tuple[CaseResult, ...]:
    try:
        async with asyncio.timeout(RUN_S):
            return tuple([await run_case(case) for case in cases])
    except TimeoutError as error:
        raise ApiError(
            "REQUEST_INVALID", f"the cases take more than {RUN_S:g} s; run them with `cuebook test`"
        ) from error
