"""``cuebook test``: run test cases and random walks over scripts, and report their coverage."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import click
from msgspec import Struct
from rich.console import Console
from rich.markup import escape
from rich.progress import MofNCompleteColumn, TimeRemainingColumn

from api.cli.models import check_recording, model_of, write_recording
from api.cli.options import EXISTING_PATH, OUTPUT_FILE, SEED, with_settings
from api.cli.output import console, end, errors, fail, json_text, print_json, print_table, write_text
from api.cli.progress import progress_bar, tracked
from api.models import close_model
from api.settings import OFFLINE, Settings
from api.testing.cases.case_model import CaseReading, FoundCase, Prepared
from api.testing.cases.case_reader import case_files, prepare, read_cases
from api.testing.cases.case_report import (
    Line,
    Report,
    case_lines,
    coverage_document,
    coverage_rows,
    document,
    missed_lines,
    walk_lines,
)
from api.testing.cases.case_run import CaseResult, run_case
from api.testing.cases.coverage import Coverage, Item, cover, reached_by
from api.testing.cases.coverage_page import coverage_page
from api.testing.cases.detector_examples import TestedExample, run_all
from api.testing.cases.random_walk import RandomWalks, walk_script
from runtime.models.recorded_models import RecordingModel
from runtime.state.ports import Model
from scripts.model.diagnostics import Problem
from scripts.parse.folder import CASE_SUFFIX, script_files
from scripts.parse.read_script import Reading, is_script, read_file
from scripts.yaml.text_file import FileUnreadable

WALKS_MAX = 1_000_000
WALK_S_MAX = 600.0
STYLES = ("text", "json", "html")

Style = Literal["text", "json", "html"]


class _TestCommand(click.Command):
    """Accept ``--coverage`` with or without its format, also before a path."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        expanded: list[str] = []
        for index, each in enumerate(args):
            following = args[index + 1] if index + 1 < len(args) else ""
            expanded.append("--coverage=text" if each == "--coverage" and following not in STYLES else each)
        return super().parse_args(ctx, expanded)


@click.command(
    cls=_TestCommand,
    epilog="Examples:\n\n  cuebook test my-scripts/ --coverage\n\n  cuebook test intake.yaml --walk 300",
)
@click.argument("paths", nargs=-1, type=EXISTING_PATH)
@click.option("--coverage", type=click.Choice(STYLES), help="Report which parts of the scripts are reached [text].")
@click.option("--coverage-file", type=OUTPUT_FILE, help="Write the coverage to a file.")
@click.option("--walk", "walks", type=click.IntRange(1, WALKS_MAX), help="Number of random conversations per script.")
@click.option("--seed", type=SEED, default=0, help="Seed of the random conversations [0].")
@click.option("--record", is_flag=True, help="Call the model and write its replies to the files that cases name.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON document.")
@with_settings("model")
def test(
    settings: Settings,
    paths: Sequence[Path],
    coverage: Style | None,
    coverage_file: Path | None,
    walks: int | None,
    seed: int,
    record: bool,
    as_json: bool,
) -> None:
    """Run test cases (*.case.yaml) and the examples of detectors.

    A case is a conversation with its expected messages. PATH is a folder [the working folder], a case file, a file
    with detectors, whose examples are run too, or, with --walk, a script. A walk is a random conversation: if a script
    or an expression fails or the conversation gets stuck, a small case that reproduces it is printed.

    With --record, a case that names a file of replies (`model: FILE`) runs with the configured model, and the model's
    replies are written to that file.

    Exits with 1 if a case fails or a walk finds a problem, with 2 if a file has errors.
    """
    coverage = coverage or (_style_of(coverage_file) if coverage_file is not None else None)
    if as_json and coverage == "html" and coverage_file is None:
        fail("--json and --coverage html both write to standard output; add --coverage-file FILE")
    selected = _select(paths or [Path()], walking=walks is not None, covering=coverage is not None, recording=record)
    if not (selected.cases or selected.problems or selected.examples) and not (walks and selected.scripts):
        fail(_how_to_begin(paths or [Path()]))
    model = _model_to_record(selected, settings) if record else None
    report = asyncio.run(_run(selected, model, coverage is not None, walks or 0, seed))
    _print(report, coverage, coverage_file, as_json=as_json)
    end(report.exit_code)


def _style_of(file: Path) -> Style:
    return "html" if file.suffix in {".html", ".htm"} else "json" if file.suffix == ".json" else "text"


# -- the cases and scripts under the paths ----------------------------------------------------------------------------


class Selection(Struct, frozen=True):
    """The cases, the scripts for walks or coverage, the problems of all files, and the examples of detectors."""

    cases: tuple[FoundCase, ...]
    scripts: tuple[Prepared, ...]
    problems: tuple[Problem, ...]
    examples: tuple[TestedExample, ...]


def _select(paths: Sequence[Path], *, walking: bool, covering: bool, recording: bool) -> Selection:
    """Return the cases and, for walks and coverage, the scripts under the paths; end the command for invalid paths."""
    read: dict[Path, Prepared | Reading] = {}
    readings: list[CaseReading] = []
    scripts: dict[Path, Prepared] = {}
    examples = run_all(path for path in paths if not path.name.endswith(CASE_SUFFIX))
    of_scripts: list[Problem] = list(examples.problems)
    for path in paths:
        named = path.is_file() and not path.name.endswith(CASE_SUFFIX)
        if named and not walking and not (examples.tested or examples.problems):
            what = f"not a case file (*{CASE_SUFFIX}) and has no detector with examples"
            fail(f"{path} is {what}; to run random conversations with a script, use --walk")
        readings += [read_cases(file, read, recording=recording) for file in ([] if named else case_files(path))]
        for file in _scripts_under(path) if walking or covering else ():
            prepared = prepare(file, read)
            if isinstance(prepared, Prepared):
                scripts[file.resolve()] = prepared
            elif walking:
                of_scripts += prepared.errors
    cases = tuple(case for reading in readings for case in reading.cases)
    if walking:
        scripts = {case.script.path.resolve(): case.script for case in cases} | scripts
    problems = dict.fromkeys([*(each for reading in readings for each in reading.problems), *of_scripts])  # each once
    return Selection(cases, tuple(scripts.values()), tuple(problems), examples.tested)


def _scripts_under(path: Path) -> Iterator[Path]:
    """Return the scripts of a folder; a file that is named explicitly counts as a script whatever it contains."""
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


def _how_to_begin(paths: Sequence[Path]) -> str:
    """Return the message for paths without a case: how to write the first case for an existing script."""
    folder = next((path for path in paths if path.is_dir()), Path())
    script = next((file for path in paths for file in _scripts_under(path)), None)
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


# -- recording ---------------------------------------------------------------------------------------------------------


def _model_to_record(selected: Selection, settings: Settings) -> Model:
    """Return the model that cases are recorded with; end the command if nothing can be recorded."""
    _check_recordable(selected.cases)
    saved_cases = next(
        (each.cassette for each in selected.cases if each.cassette is not None and each.cassette.exists()), None
    )
    if settings.model == OFFLINE and saved_cases is not None:
        fail(f"{saved_cases} would be overwritten with the offline model's replies; use --model, or delete it")
    return model_of(settings)


async def _record(found: FoundCase, model: Model) -> CaseResult:
    """Run a case with the model and write its file if all of its turns ran; a case that names no file runs as usual."""
    if found.cassette is None:
        return await run_case(found)
    recording = RecordingModel(model)
    result = await run_case(found, model=recording, to_the_end=True)
    if result.whole:
        write_recording(found.cassette, recording, tools=found.tools)
    else:
        message = f"{found.cassette}: the conversation did not reach its end ({found})"
        errors.print(f"[yellow]not written[/] {escape(message)}")
    return result


def _check_recordable(cases: Sequence[FoundCase]) -> None:
    """End the command, before any model call, if there is nothing to record or two cases share a file."""
    for found in cases:
        if found.case.replies:
            message = f"{found.file}:{found.line('replies')} {found}: its replies are written in the case itself."
            errors.print(f"[yellow]not recorded[/] {escape(message)} To record them, write `model: FILE` instead.")
    by_file: dict[Path, list[FoundCase]] = defaultdict(list)
    for found in cases:
        if found.cassette is not None:
            by_file[found.cassette.resolve()].append(found)
    if not by_file:
        fail("no case names a file to record to; add e.g. `model: replies.yaml` to a case, relative to the case file")
    for same in by_file.values():
        if len(same) > 1:
            places = " and ".join(f"{each.file}:{each.line('model')}" for each in same)
            fail(f"{places} name the same file, {same[0].cassette}; for recording each case needs its own file")
        check_recording(same[0].cassette)


# -- running it -------------------------------------------------------------------------------------------------------


async def _run(selected: Selection, model: Model | None, covering: bool, walks: int, seed: int) -> Report:
    play = run_case if model is None else partial(_record, model=model)
    columns = (MofNCompleteColumn(), TimeRemainingColumn())
    results = [await play(found) for found in tracked("cases", selected.cases, *columns)]
    if model is not None:
        await close_model(model)
    until = time.monotonic() + WALK_S_MAX
    scripts = selected.scripts if walks else ()
    with progress_bar("walks", *columns, total=walks * len(scripts), hidden=not scripts) as bar:
        walked = [await walk_script(script, walks, seed, until=until, tick=bar.advance) for script in scripts]
    coverage = _coverage(selected, results, walked) if covering else None
    return Report(selected.problems, tuple(results), tuple(walked), coverage, selected.examples)


def _coverage(
    selected: Selection, results: Sequence[CaseResult], walked: Sequence[RandomWalks]
) -> tuple[tuple[Prepared, Coverage], ...]:
    """Return the coverage of each script by cases and walks; empty for a script that was not run."""
    scripts = [*selected.scripts, *(result.found.script for result in results)]
    reached: dict[Path, list[frozenset[Item]]] = {script.path: [] for script in scripts}
    for result in results:
        script = result.found.script
        reached[script.path].append(reached_by(script.program, result.turns))
    for walks in walked:
        reached[walks.script.path].append(walks.reached)
    by_path = {script.path: script for script in scripts}
    return tuple((script, cover(script.program, reached[path])) for path, script in by_path.items())


# -- printing the results ---------------------------------------------------------------------------------------------


def _print(report: Report, style: Style | None, file: Path | None, *, as_json: bool) -> None:
    if as_json:
        print_json(document(report))
    else:
        document_only = style in {"json", "html"} and file is None  # on standard output
        stream = errors if document_only else console
        _print_lines(stream, [*case_lines(report), *walk_lines(report)])
    if style is not None and file is not None:
        write_text(_coverage_text(report, style), file)
        errors.print(escape(f"wrote the coverage to {file}"), style="dim")
    elif style == "text" and not as_json:
        print_table(*coverage_rows(report))
        _print_lines(console, [*missed_lines(report)])
    elif style is not None and not as_json:
        write_text(_coverage_text(report, style), None)


def _print_lines(where: Console, lines: Sequence[Line]) -> None:
    for style, text in lines:
        where.print(escape(text), style=style)


def _coverage_text(report: Report, style: Style) -> str:
    if style == "html":
        return coverage_page(report)
    if style == "json":
        return json_text(coverage_document(report)) + "\n"
    columns, rows = coverage_rows(report)
    lines = ["\t".join(row) for row in (columns, *rows)] + [text for _, text in missed_lines(report)]
    return "\n".join([*lines, ""])
