"""Scripts tested by their own conversations: every ``*.case.yaml`` here, run as ``cuebook test`` runs them."""

from pathlib import Path

import pytest

from api.testing.cases.case_model import PreparedScript
from api.testing.cases.case_reader import case_files, prepare, read_cases
from api.testing.cases.case_report import Report, case_lines, missed_lines
from api.testing.cases.case_run import run_case
from api.testing.cases.coverage import KINDS, cover, items_reached
from scripts.parse.folder import read_path, script_files
from scripts.parse.read_script import Reading, is_script, read_file
from tests.support.paths import CASES_FOLDER, LIBRARY

SCRIPTS: dict[Path, PreparedScript | Reading] = {}
READINGS = [read_cases(path, SCRIPTS) for path in case_files(CASES_FOLDER)]
CASES = [found for reading in READINGS for found in reading.cases]


@pytest.mark.parametrize("reading", READINGS, ids=lambda reading: Path(reading.file).name)
def test_a_case_file_is_sound(reading) -> None:
    assert [str(problem) for problem in reading.problems] == []
    assert reading.cases


@pytest.mark.gate
@pytest.mark.parametrize("found", CASES, ids=str)
async def test_a_conversation_goes_as_its_case_says(found) -> None:
    result = await run_case(found)
    if not result.passed:
        lines = [text for _, text in case_lines(Report(results=(result,)))]
        pytest.fail("\n".join(lines), pytrace=False)


def library() -> list[Path]:
    """Return the scripts of the library, without their include files."""
    return [path for path in script_files(LIBRARY) if is_script(read_file(path))]


@pytest.mark.gate
@pytest.mark.parametrize("path", library(), ids=lambda path: path.stem)
async def test_a_library_script_has_no_problem_and_full_coverage(path) -> None:
    assert [str(problem) for problem in read_path(path, "strict").problems] == []
    script = prepare(path, SCRIPTS)
    assert isinstance(script, PreparedScript)
    results = [await run_case(found) for found in CASES if found.script is script]
    coverage = cover(script.program, [items_reached(script.program, result.turns) for result in results])
    missed = [text for _, text in missed_lines(Report(coverage=((script, coverage),)))]
    if missed:
        pytest.fail("\n".join(missed), pytrace=False)
    assert all(coverage.count(kind).percent == 100 for kind in KINDS)
