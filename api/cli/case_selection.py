"""Selects the cases and scripts that `cuebook test` runs from its paths."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from api.cli.output import fail
from api.testing.cases.case_model import CaseReading, FoundCase, PreparedScript
from api.testing.cases.case_reader import case_files, prepare, read_cases
from api.testing.cases.detector_examples import TestedExample, run_all
from scripts.model.diagnostics import Problem
from scripts.parse.folder import CASE_SUFFIX, script_files
from scripts.parse.read_script import Reading, is_script, read_file
from scripts.yaml.text_file import FileUnreadable


class Selection(Struct, frozen=True):
    """The case files, the scripts for walks or coverage, the problems of all files, and the examples of detectors."""

    readings: tuple[CaseReading, ...]
    scripts: tuple[PreparedScript, ...]
    problems: tuple[Problem, ...]
    examples: tuple[TestedExample, ...]

    @property
    def cases(self) -> tuple[FoundCase, ...]:
        """Return every case that can be played."""
        return tuple(case for reading in self.readings for case in reading.cases)


def select(
    paths: Sequence[Path], *, walking: bool = False, covering: bool = False, recording: bool = False
) -> Selection:
    """Return the cases and, for walks and coverage, the scripts under the paths; end the command for invalid paths."""
    read: dict[Path, PreparedScript | Reading] = {}
    readings: list[CaseReading] = []
    scripts: dict[Path, PreparedScript] = {}
    examples = run_all(path for path in paths if not path.name.endswith(CASE_SUFFIX))
    of_scripts: list[Problem] = list(examples.problems)
    for path in paths:
        named = path.is_file() and not path.name.endswith(CASE_SUFFIX)
        if named and not walking and not (examples.tested or examples.problems):
            what = f"not a case file (*{CASE_SUFFIX}) and has no detector with examples"
            fail(f"{path} is {what}; to run random conversations with a script, use --walk")
        readings += [read_cases(file, read, recording=recording) for file in ([] if named else case_files(path))]
        for file in scripts_under(path) if walking or covering else ():
            prepared = prepare(file, read)
            if isinstance(prepared, PreparedScript):
                scripts[file.resolve()] = prepared
            elif walking:
                of_scripts += prepared.errors
    if walking:
        scripts = {each.script.path.resolve(): each.script for reading in readings for each in reading.cases} | scripts
    problems = dict.fromkeys([*(each for reading in readings for each in reading.problems), *of_scripts])  # each once
    return Selection(tuple(readings), tuple(scripts.values()), tuple(problems), examples.tested)


def scripts_under(path: Path) -> Iterator[Path]:
    """Yield the scripts of a folder; a file that is named explicitly counts as a script whatever it contains."""
    if path.is_file():
        if not path.name.endswith(CASE_SUFFIX):
            yield path
        return
    for file in script_files(path):
        try:
            selected = is_script(read_file(file))
        except FileUnreadable:
            selected = True  # the caller reads the file again and reports the error
        if selected:
            yield file


def how_to_begin(paths: Sequence[Path]) -> str:
    """Return the message for paths without a case: how to write the first case for an existing script."""
    folder = next((path for path in paths if path.is_dir()), Path())
    script = next((file for path in paths for file in scripts_under(path)), None)
    name = script.relative_to(folder).name if script is not None else "hello.yaml"
    case = (script.parent if script is not None else folder) / f"{Path(name).stem}{CASE_SUFFIX}"
    return "\n".join(
        [
            f"there is no case (*{CASE_SUFFIX}) here. Save the first as {case}:",
            "",
            f"    script: {name}",
            "    cases:",
            "      - name: the beginning",
            "        turns:",
            '          - expect: ["*"]         # the first messages: one pattern for each message',
            "          # - say: hello          # then a message of the user, and the expected replies",
            '          #   expect: ["*"]',
            "        end: {status: waiting_input}",
        ]
    )
