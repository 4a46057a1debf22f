"""What `cuebook test` is to run: the cases and scripts that its paths name."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from api.cases.detectors import Tested, run_all
from api.cases.model import CaseReading, FoundCase, Prepared
from api.cases.reading import case_files, prepare, read_cases
from api.cli.output import fail
from scripts.diagnostics import Problem
from scripts.folder import CASE_SUFFIX, script_files
from scripts.parse import FileUnreadable, Reading, is_script, read_file


class Selection(Struct, frozen=True):
    """The case files, the scripts to walk through or to cover, and what is wrong with these."""

    readings: tuple[CaseReading, ...]
    scripts: tuple[Prepared, ...]
    script_problems: tuple[Problem, ...] = ()
    examples: tuple[Tested, ...] = ()  # of detectors

    @property
    def cases(self) -> tuple[FoundCase, ...]:
        """Every case that can be played."""
        return tuple(case for reading in self.readings for case in reading.cases)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with any of the files, each problem once."""
        found = [problem for reading in self.readings for problem in reading.problems]
        return tuple(dict.fromkeys([*found, *self.script_problems]))

    @property
    def empty(self) -> bool:
        """Whether there is nothing to run and nothing to say."""
        return not self.cases and not self.problems and not self.scripts and not self.examples


def select(
    paths: Sequence[Path], *, walking: bool = False, covering: bool = False, recording: bool = False
) -> Selection:
    """The cases and, for walks and coverage, the scripts under the paths; ends the command for a path of no use."""
    read: dict[Path, Prepared | Reading] = {}
    readings: list[CaseReading] = []
    scripts: dict[Path, Prepared] = {}
    examples = run_all(path for path in paths if not path.name.endswith(CASE_SUFFIX))
    problems: list[Problem] = list(examples.problems)
    for path in paths:
        named = path.is_file() and not path.name.endswith(CASE_SUFFIX)
        if named and not walking and not (examples.tested or examples.problems):
            what = f"no case file (*{CASE_SUFFIX}) and has no detector with examples"
            fail(f"{path} is {what}; with --walk a script can be walked through")
        readings += [read_cases(file, read, recording=recording) for file in ([] if named else case_files(path))]
        for file in scripts_under(path) if walking or covering else ():
            prepared = prepare(file, read)
            if isinstance(prepared, Prepared):
                scripts[file.resolve()] = prepared
            elif walking:
                problems += prepared.errors
    if walking:
        scripts = {each.script.path.resolve(): each.script for reading in readings for each in reading.cases} | scripts
    return Selection(tuple(readings), tuple(scripts.values()), tuple(problems), examples.tested)


def scripts_under(path: Path) -> Iterator[Path]:
    """The scripts of a folder; a file that was named counts as one whatever it holds."""
    if path.is_file():
        if not path.name.endswith(CASE_SUFFIX):
            yield path
        return
    for file in script_files(path):
        try:
            meant = is_script(read_file(file))
        except FileUnreadable:
            meant = True  # reading it again tells
        if meant:
            yield file


def how_to_begin(paths: Sequence[Path]) -> str:
    """What to say where there is no case: how to write the first one, for a script that is there."""
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
            '          - expect: ["*"]         # what is said first: a pattern for each message',
            "          # - say: hello          # then what a visitor says, and what is to come of it",
            '          #   expect: ["*"]',
            "        end: {status: waiting_input}",
        ]
    )
