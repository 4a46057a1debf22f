"""Runs the examples of detectors as tests, without a model: those of scripts, include files and older formats."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from scripts.detectors.examples import Outcome, run_examples
from scripts.expressions.values import Value, count_text, shorten
from scripts.formats.detector_config import detector_file
from scripts.model.diagnostics import Problem, Problems
from scripts.parse.folder import read_path, script_files
from scripts.parse.read_script import Reading, is_script, read_file
from scripts.yaml.parser import Mapping as MappingTree
from scripts.yaml.parser import read_tree
from scripts.yaml.text_file import FileUnreadable


class TestedExample(Struct, frozen=True):
    """An example with its outcome and its file."""

    file: str
    outcome: Outcome

    @property
    def failed(self) -> bool:
        """Return whether the outcome differs from the expectation."""
        return bool(self.outcome.differences)

    @property
    def line(self) -> int:
        """Return the line on which the example begins."""
        return self.outcome.example.at.line

    def __str__(self) -> str:
        return f"{Path(self.file).stem}: {self.outcome.detector.id}: {self.outcome.name}"


class Examples(Struct, frozen=True):
    """The examples under some paths, and the problems of files that contain only detectors."""

    tested: tuple[TestedExample, ...] = ()
    problems: tuple[Problem, ...] = ()


def run_all(paths: Iterable[Path]) -> Examples:
    """Run the examples of every detector in these files and folders, each once."""
    tested: dict[tuple[Path, str], list[TestedExample]] = {}
    problems: list[Problem] = []
    for path in paths:
        for file in script_files(path):
            reading = _reading(file)
            if reading is None:
                continue
            if reading.script is None and not path.is_dir():
                problems += reading.errors
            for detector in reading.script.detectors if reading.script is not None else ():
                at = detector.at.file
                stands_in = file if at in {"", str(file)} else file.parent / at
                key = (stands_in.resolve(), detector.id)
                if key not in tested:
                    tested[key] = [TestedExample(str(stands_in), outcome) for outcome in run_examples(detector)]
    return Examples(tuple(each for some in tested.values() for each in some), tuple(problems))


def _reading(file: Path) -> Reading | None:
    """Return the reading of a file that can contain detectors."""
    try:
        source = read_file(file)
    except FileUnreadable:
        return None
    tree = read_tree(source.text, Problems())
    alone = isinstance(tree, MappingTree) and detector_file.holds_detectors(tree)
    return read_path(file) if alone or (tree is not None and is_script(source)) else None


def lines(tested: Iterable[TestedExample]) -> Iterator[tuple[str, str]]:
    """Yield a line for every example with its failures, and the totals."""
    tested = list(tested)
    for each in tested:
        word = "FAIL " if each.failed else "model" if each.outcome.untested else "ok   "
        yield ("red" if each.failed else "dim" if each.outcome.untested else "green"), f"{word} {each}"
        for what, expected, got in each.outcome.differences:
            yield "", f"  {each.file}:{each.line} {what}"
            yield "", f"    expected {_format_value(expected)}"
            yield "", f"    got      {_format_value(got)}"
    if tested:
        counts = _counts(tested)
        total = f"{count_text(len(tested), 'example')} of detectors"
        more = f", {counts['needsModel']} need a model" if counts["needsModel"] else ""
        yield "bold", f"{total}: {counts['passed']} passed, {counts['failed']} failed{more}"


def document(tested: Iterable[TestedExample]) -> dict[str, Any]:
    """Return the examples as a JSON document."""
    tested = list(tested)
    results = [
        {
            "file": each.file,
            "line": each.line,
            "detector": each.outcome.detector.id,
            "name": each.outcome.name,
            "passed": each.outcome.passed,
            "needsModel": each.outcome.untested,
            "failures": [
                {"what": what, "expected": expected, "got": got} for what, expected, got in each.outcome.differences
            ],
        }
        for each in tested
    ]
    return {"examples": len(results), **_counts(tested), "results": results}


def _counts(tested: list[TestedExample]) -> Mapping[str, int]:
    return {
        "passed": sum(each.outcome.passed for each in tested),
        "failed": sum(each.failed for each in tested),
        "needsModel": sum(each.outcome.untested for each in tested),
    }


def _format_value(value: Value) -> str:
    return "nothing" if value is None else shorten(value)
