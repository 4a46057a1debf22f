"""The files that a case file depends on, which `cuebook test --watch` follows."""

from api.testing.cases.case_reader import read_cases
from tests.support.fixture_types import WriteFile


def test_case_file_with_an_error_still_depends_on_its_script(write: WriteFile) -> None:
    script = write("talk.yaml", "cuebook: 1\nscript: talk\nactions:\n  - say: Hello.\n")
    cases = write("talk.case.yaml", "script: talk.yaml\ncases:\n  - {name: a, nme: b, turns: [{expect: [Hello.]}]}\n")
    reading = read_cases(cases, {})
    assert reading.cases == ()
    assert reading.files == {script.resolve(), cases.resolve()}
